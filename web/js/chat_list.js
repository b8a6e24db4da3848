// The list of kept chats: open, delete, export, import. Entries keep their nodes while others change. The chats
// themselves are chat_store's.
import { freshId } from "./chat_store.js";
import { exportText, importText } from "./conversation.js";
import { confirmed } from "./dialog.js";
import { button, byId, element, setText, showNodes } from "./dom.js";
import { counted } from "./format.js";
import { saveFile } from "./save_file.js";

/** @typedef {import("./chat_store.js").ChatStore} ChatStore */
/** @typedef {import("./types").Conversation} Conversation */

const FILE_BYTES_MAX = 256 * 2 ** 20; // of an import: more would not fit a browser's memory several times

/**
 * @typedef {object} ListActs
 * @property {(id: string) => void} open
 * @property {(id: string) => void} removed "" = all of them
 */

export class ChatList {
  /** @param {ChatStore} store @param {ListActs} acts */
  constructor(store, acts) {
    this.store = store;
    this.acts = acts;
    this.current = "";
    /** @type {Map<string, HTMLElement>} */
    this.entries = new Map(); // that are shown, by what they show
    byId("chats-export").addEventListener("click", () => this.exportAll());
    byId("chats-import").addEventListener("click", () => byId("chats-file").click());
    byId("chats-file").addEventListener("change", () => this.importFile());
    byId("chats-clear").addEventListener("click", () => this.clear());
  }

  /** @param {string} [current] id of the chat that is shown */
  async refresh(current = this.current) {
    this.current = current;
    /** @type {Conversation[]} */
    let chats = [];
    try {
      chats = await this.store.all();
    } catch {
      setText("chats-note", "This browser keeps no chats here (a private window, or storage is forbidden).");
    }
    this.entries = new Map(chats.map((chat) => {
      const key = JSON.stringify([chat.id, chat.title, chat.id === this.current]);
      return [key, this.entries.get(key) ?? this.entry(chat)];
    }));
    showNodes(byId("chats"), [...this.entries.values()]);
    byId("chats-box").dataset.count = String(chats.length);
    for (const id of ["chats-export", "chats-clear"]) byId(id).disabled = chats.length === 0;
  }

  /** @param {Conversation} chat */
  entry(chat) {
    const here = chat.id === this.current;
    const open = button(chat.title, () => this.acts.open(chat.id), { class: "open", ...(here ? { "aria-current": "true" } : {}) });
    const remove = button("×", () => this.remove(chat), { class: "small", "aria-label": `Delete ${chat.title}` });
    return element("li", {}, open, remove);
  }

  /** @param {Conversation} chat */
  async remove(chat) {
    if (!(await confirmed(`Delete the chat “${chat.title}”?`, "Delete"))) return;
    await this.store.remove(chat.id);
    this.acts.removed(chat.id);
    await this.refresh();
    byId("chats-import").focus();
  }

  async clear() {
    const chats = await this.store.all();
    if (!(await confirmed(`Delete ${counted(chats.length, "chat")} of this browser?`, "Delete all"))) return;
    await this.store.clear();
    this.acts.removed("");
    await this.refresh();
    setText("chats-note", "All chats are deleted.");
    byId("chats-import").focus();
  }

  async exportAll() {
    const chats = await this.store.all();
    saveFile("strata-chats.json", "application/json", exportText(chats));
    setText("chats-note", `Exported ${counted(chats.length, "chat")}.`);
  }

  async importFile() {
    const input = /** @type {HTMLInputElement} */ (byId("chats-file"));
    const file = input.files?.[0];
    input.value = "";
    if (!file) return;
    if (file.size > FILE_BYTES_MAX) {
      setText("chats-note", "Not imported: the file has more than 256 MiB.");
      return;
    }
    const { conversations, fault } = importText(await file.text(), freshId, Date.now());
    if (fault) {
      setText("chats-note", `Not imported: ${fault}.`);
      return;
    }
    try {
      await this.store.addAll(conversations);
      setText("chats-note", `Imported ${counted(conversations.length, "chat")}.`);
    } catch {
      setText("chats-note", "Not imported: this browser has no room for the chats.");
    }
    await this.refresh();
  }
}
