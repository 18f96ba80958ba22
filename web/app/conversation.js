// A conversation: a tree of messages, because each message can have other versions, and answers to them. Plain data, as
// it is stored and exported:
//
//   {id, title, named, created, updated, model, settings, messages, chosen}
//   messages: id → {id, parent ("" at the beginning), role ("user", "assistant"), content, created, …}
//     of answers: reasoning, model, state ("complete", "stopped", "cut", "broken", "writing"), error, usage, tokens,
//     pieces (how many parts it came in)
//   chosen:   id of a parent ("" at the beginning) → id of the version of what follows that is shown
//   settings: {system, temperature, top_p, …}: only what differs from the server's

export const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), byte => byte.toString(16).padStart(2, "0")).join("");

export function newConversation(settings = {}, model = "") {
  const now = Date.now();
  return { id: newId(), title: "", named: false, created: now, updated: now, model, settings: { ...settings }, messages: {}, chosen: {} };
}

// Adds a message after `parent` (an id, "" at the beginning), beside other versions, and shows it.
export function addMessage(conversation, parent, role, content, fields = {}) {
  const message = { id: newId(), parent, role, content, created: Date.now(), ...fields };
  conversation.messages[message.id] = message;
  conversation.chosen[parent] = message.id;
  conversation.updated = message.created;
  if (!conversation.named && parent === "" && role === "user") conversation.title = titleOf(content);
  return message;
}

function titleOf(text) {
  const line = text.trim().split("\n", 1)[0].replace(/\s+/g, " ");
  return [...line].length > 60 ? `${[...line].slice(0, 58).join("").trimEnd()}…` : line;
}

// The messages that are shown, from the first to the last.
export function shownMessages(conversation) {
  const shown = [], { messages, chosen } = conversation;
  for (let message = messages[chosen[""]]; message; message = messages[chosen[message.id]]) shown.push(message);
  return shown;
}

export function showVersion(conversation, message) {
  conversation.chosen[message.parent] = message.id;
}

// What the server gets to answer the message with this id: the system prompt, and the messages that lead to it. Answers
// without text (refused, broken off) are left out; what they leave side by side becomes one message, because many
// templates insist on roles that take turns.
export function messagesUpTo(conversation, id) {
  const messages = [];
  for (let message = conversation.messages[id]; message; message = conversation.messages[message.parent])
    if (message.role === messages[0]?.role) messages[0].content = `${message.content}\n\n${messages[0].content}`;
    else if (message.content !== "" || message.role === "user") messages.unshift({ role: message.role, content: message.content });
  const system = conversation.settings.system?.trim();
  return system ? [{ role: "system", content: system }, ...messages] : messages;
}

// The line of the list of conversations.
export function outline({ id, title, created, updated }) {
  return { id, title, created, updated };
}

export function matches(conversation, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const text = [conversation.title, ...Object.values(conversation.messages).map(message => message.content)].join("\n").toLowerCase();
  return words.every(word => text.includes(word));
}
