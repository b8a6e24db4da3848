// The chats of this browser: IndexedDB, told to the other tabs. A save names the revision it began from; if another
// tab saved in between, ours becomes a chat of its own, and nothing is lost.

/** @typedef {import("./types").Conversation} Conversation */

const DATABASE = "strata";
const STORE = "chats";

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
function done(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** @returns {Promise<IDBDatabase>} */
function openDatabase() {
  const request = indexedDB.open(DATABASE, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "id" });
  return done(request);
}

export function freshId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class ChatStore {
  constructor() {
    /** @type {Promise<IDBDatabase>|null} */
    this.database = null;
    this.channel = new BroadcastChannel("strata-chats");
    /** @type {(id: string) => void} told when another tab changed a chat; "" = all of them */
    this.onChange = () => {};
    this.channel.onmessage = (event) => this.onChange(String(event.data));
  }

  /** @param {IDBTransactionMode} mode */
  async objects(mode) {
    this.database ??= openDatabase();
    return (await this.database).transaction(STORE, mode).objectStore(STORE);
  }

  /** @returns {Promise<Conversation[]>} the newest first */
  async all() {
    const found = /** @type {Conversation[]} */ (await done((await this.objects("readonly")).getAll()));
    return found.sort((a, b) => b.updated - a.updated);
  }

  /** @param {string} id @returns {Promise<Conversation|undefined>} */
  async get(id) {
    return done((await this.objects("readonly")).get(id));
  }

  /**
   * @param {Conversation} conversation as it was loaded, with new messages
   * @returns {Promise<Conversation>} as it was stored: one revision on, perhaps under an id of its own
   */
  async save(conversation) {
    const objects = await this.objects("readwrite");
    const stored = /** @type {Conversation|undefined} */ (await done(objects.get(conversation.id)));
    const overtaken = stored !== undefined && stored.revision !== conversation.revision;
    const saved = {
      ...conversation, id: overtaken ? freshId() : conversation.id, revision: conversation.revision + 1,
    };
    await done(objects.put(saved));
    this.channel.postMessage(saved.id);
    return saved;
  }

  /** @param {string} id */
  async remove(id) {
    await done((await this.objects("readwrite")).delete(id));
    this.channel.postMessage(id);
  }

  async clear() {
    await done((await this.objects("readwrite")).clear());
    this.channel.postMessage("");
  }

  /** @param {Conversation[]} conversations */
  async addAll(conversations) {
    const objects = await this.objects("readwrite");
    await Promise.all(conversations.map((each) => done(objects.put(each))));
    this.channel.postMessage("");
  }
}
