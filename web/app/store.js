// Conversations kept in this browser: IndexedDB, with a short line for each beside the whole. Where a browser forbids
// that (some do in private windows), they are kept until the page is closed, and `lasting` is false.

import { matches, outline } from "./conversation.js";

const promised = request => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

class LastingStore {
  lasting = true;
  constructor(database) { this.database = database; }
  static async open() {
    const request = indexedDB.open("engine", 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("conversations", { keyPath: "id" });
      request.result.createObjectStore("outlines", { keyPath: "id" });
    };
    return new LastingStore(await promised(request));
  }
  // Runs what `use` asks of both stores as one transaction.
  change(use) {
    return new Promise((resolve, reject) => {
      const transaction = this.database.transaction(["conversations", "outlines"], "readwrite");
      transaction.oncomplete = () => resolve();
      transaction.onabort = transaction.onerror = () => reject(transaction.error ?? new Error("not kept"));
      use(transaction.objectStore("conversations"), transaction.objectStore("outlines"));
    });
  }
  outlines() { return promised(this.database.transaction("outlines").objectStore("outlines").getAll()); }
  get(id) { return promised(this.database.transaction("conversations").objectStore("conversations").get(id)); }
  put(...conversations) {
    return this.change((whole, lines) => conversations.forEach(one => (whole.put(one), lines.put(outline(one)))));
  }
  remove(id) { return this.change((whole, lines) => (whole.delete(id), lines.delete(id))); }
  clear() { return this.change((whole, lines) => (whole.clear(), lines.clear())); }
  // Calls `use` with one conversation after the other: they need not be in memory all at once.
  each(use) {
    return new Promise((resolve, reject) => {
      const request = this.database.transaction("conversations").objectStore("conversations").openCursor();
      request.onerror = () => reject(request.error);
      request.onsuccess = () => {
        const cursor = request.result;
        if (!cursor) return resolve();
        use(cursor.value);
        cursor.continue();
      };
    });
  }
}

class PassingStore {
  lasting = false;
  all = new Map();
  async outlines() { return [...this.all.values()].map(outline); }
  async get(id) { return structuredClone(this.all.get(id)); }
  async put(...conversations) { conversations.forEach(one => this.all.set(one.id, structuredClone(one))); }
  async remove(id) { this.all.delete(id); }
  async clear() { this.all.clear(); }
  async each(use) { this.all.forEach(one => use(structuredClone(one))); }
}

export async function openStore() {
  try {
    return await LastingStore.open();
  } catch {
    return new PassingStore();
  }
}

// The ids of the conversations that contain all words of the query.
export async function search(store, query) {
  const found = new Set();
  await store.each(conversation => {
    if (matches(conversation, query)) found.add(conversation.id);
  });
  return found;
}

export async function allConversations(store) {
  const all = [];
  await store.each(conversation => all.push(conversation));
  return all;
}
