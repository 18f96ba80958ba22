// What this browser remembers besides conversations: small choices, in localStorage. A browser that forbids storage
// forgets them with the page.

const PREFIX = "engine.";
const passing = new Map();

export function preference(name, otherwise) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    if (text !== null) return JSON.parse(text);
  } catch { /* forbidden, or not ours */ }
  return passing.has(name) ? passing.get(name) : otherwise;
}

export function setPreference(name, value) {
  passing.set(name, value);
  try {
    if (value === null || value === undefined) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch { /* kept until the page is closed */ }
}

// The key that the server asks for: kept for good, or until the tab is closed.
export function serverKey() {
  try {
    return sessionStorage.getItem(`${PREFIX}key`) ?? preference("key", "");
  } catch {
    return preference("key", "");
  }
}

export function setServerKey(key, remember) {
  setPreference("key", remember && key ? key : null);
  try {
    if (key && !remember) sessionStorage.setItem(`${PREFIX}key`, key);
    else sessionStorage.removeItem(`${PREFIX}key`);
  } catch {
    passing.set("key", key);
  }
}
