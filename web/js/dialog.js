// Asks before something is deleted. The browser's own dialog: modal, Esc cancels, the focus comes back.
import { byId, setText } from "./dom.js";

/** @param {string} words @param {string} yes what the button says @returns {Promise<boolean>} */
export function confirmed(words, yes) {
  setText("ask-words", words);
  setText("ask-yes", yes);
  const dialog = /** @type {HTMLDialogElement} */ (byId("ask"));
  dialog.returnValue = "no";
  byId("ask-yes").onclick = () => dialog.close("yes");
  byId("ask-no").onclick = () => dialog.close("no");
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
