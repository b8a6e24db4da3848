// One message of the conversation as nodes. What the model wrote goes through MarkdownView, what the user wrote is
// plain text.
import { copyButton } from "./clipboard.js";
import { button, element } from "./dom.js";
import { factsWords, reusedWords } from "./chat_words.js";
import { MarkdownView } from "./markdown_view.js";

/** @typedef {import("./types").Message} Message */

/**
 * @typedef {object} Acts what the user can do with a message
 * @property {(view: MessageView, text: string) => void} edited
 * @property {(view: MessageView) => void} again
 */

const LEFT = "This answer is not whole: another tab writes it now, or its page was left.";

export class MessageView {
  /** @param {Message} message @param {Acts} acts */
  constructor(message, acts) {
    this.message = message;
    this.acts = acts;
    const mine = message.role === "user";
    this.body = element("div", { class: "text", dir: "auto" });
    this.foot = element("div", { class: "foot" });
    this.node = element("li", { class: message.role },
      element("h3", { class: "hidden" }, mine ? "You" : "Answer"), this.body, this.foot);
    this.markdown = mine ? null : new MarkdownView(this.body);
    this.thinking = /** @type {HTMLElement|null} */ (null);
    this.waiting = /** @type {HTMLElement|null} */ (null);
  }

  /** Shows what the message has now. @param {boolean} running */
  update(running) {
    const { message } = this;
    if (!this.markdown) this.body.textContent = message.content;
    else this.markdown.update(message.content);
    if (message.reasoning) this.showThinking(message.reasoning, running && !message.content);
    if (message.content || message.reasoning) this.waited();
    if (!running) this.showFoot();
  }

  /** @param {string} text @param {boolean} running */
  showThinking(text, running) {
    if (!this.thinking) {
      this.thinking = element("p", { dir: "auto" });
      const fold = element("details", { class: "thinking" }, element("summary", {}, "Thinking"), this.thinking);
      this.node.insertBefore(fold, this.body);
    }
    const held = this.thinking.firstChild;
    // Only what is new: a long thought is not laid out again with every token.
    if (held instanceof Text && text.startsWith(held.data)) held.appendData(text.slice(held.data.length));
    else this.thinking.textContent = text;
    const summary = /** @type {HTMLElement} */ (this.thinking.parentElement?.firstElementChild);
    summary.textContent = running ? "Thinking …" : "Thinking";
  }

  /** Before the first word. @param {{words: string, share: number|null}} model */
  showWaiting(model) {
    if (!this.waiting) {
      this.waiting = element("div", { class: "waiting" }, element("p", { class: "quiet" }),
        element("div", { class: "bar", role: "progressbar", "aria-label": "Reading the prompt", "aria-valuemin": "0", "aria-valuemax": "100" }, element("span")));
      this.node.insertBefore(this.waiting, this.foot);
    }
    const [words, bar] = /** @type {HTMLElement[]} */ ([...this.waiting.children]);
    if (words.textContent !== model.words) words.textContent = model.words;
    bar.hidden = model.share === null;
    const percent = Math.round((model.share ?? 0) * 100);
    bar.setAttribute("aria-valuenow", String(percent));
    /** @type {HTMLElement} */ (bar.firstElementChild).style.width = `${percent}%`;
  }

  waited() {
    this.waiting?.remove();
    this.waiting = null;
  }

  showFoot() {
    this.waited();
    const { message } = this;
    const parts = [];
    const error = message.unfinished ? LEFT : message.error;
    if (error) {
      parts.push(element("p", { class: "error", role: "alert" }, `${error} `, button("Retry", () => this.acts.again(this), { class: "small" })));
    }
    const line = element("p", { class: "facts" });
    if (message.facts) {
      if (message.facts.reused > 0) line.append(element("span", { class: "badge" }, reusedWords(message.facts)), " ");
      else line.append(`${reusedWords(message.facts)} · `);
      line.append(factsWords(message.facts));
    }
    if (message.stopped) line.append(line.hasChildNodes() ? " · stopped" : "stopped");
    if (message.role === "assistant" && !error && !message.content && !message.stopped) line.append(line.hasChildNodes() ? " · the answer is empty" : "the answer is empty");
    if (line.hasChildNodes()) parts.push(line);
    parts.push(this.actions());
    this.foot.replaceChildren(...parts);
  }

  actions() {
    const row = element("div", { class: "row actions" });
    if (this.message.role === "user") row.append(button("Edit", () => this.edit(), { class: "small" }));
    else if (!this.message.error && !this.message.unfinished) row.append(button("Regenerate", () => this.acts.again(this), { class: "small" }));
    if (this.message.content) row.append(copyButton(() => this.message.content, this.message.role === "user" ? "your message" : "the answer"));
    return row;
  }

  /** The message becomes a field; sending it asks again from here. */
  edit() {
    const area = /** @type {HTMLTextAreaElement} */ (element("textarea", { rows: "3", "aria-label": "Edit your message", dir: "auto" }));
    area.value = this.message.content;
    const leave = () => {
      this.body.hidden = false;
      this.showFoot();
      /** @type {HTMLElement|null} */ (this.foot.querySelector("button"))?.focus();
    };
    const send = () => {
      const text = area.value.trim();
      if (text) this.acts.edited(this, text);
    };
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") leave();
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        send();
      }
    });
    this.body.hidden = true;
    this.foot.replaceChildren(area, element("div", { class: "row" },
      button("Send", send, { class: "main" }), button("Cancel", leave),
      element("span", { class: "quiet" }, "What came after it is replaced.")));
    area.focus();
  }
}
