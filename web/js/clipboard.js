// Copies text; also where the page is no secure context (plain http on another name than localhost).
import { button, element } from "./dom.js";

const SAID_MS = 1500;

/** @param {string} text @returns {Promise<boolean>} whether it worked */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

/** @param {string} text */
function copyBySelection(text) {
  const focused = /** @type {HTMLElement|null} */ (document.activeElement);
  const area = /** @type {HTMLTextAreaElement} */ (element("textarea", { class: "hidden" }));
  area.value = text;
  document.body.append(area);
  area.select();
  const worked = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return worked;
}

/**
 * A button that copies what `text` gives and says so.
 * @param {() => string} text
 * @param {string} what for people who do not see where the button stands
 */
export function copyButton(text, what) {
  const word = element("span", {}, "Copy");
  const node = button("", async () => {
    word.textContent = (await copyText(text())) ? "Copied" : "Copy by hand";
    setTimeout(() => { word.textContent = "Copy"; }, SAID_MS);
  }, { class: "small" });
  node.append(word, element("span", { class: "hidden" }, ` ${what}`));
  return node;
}
