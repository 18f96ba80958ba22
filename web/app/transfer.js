// Conversations as files: JSON, which can be imported again, and Markdown to read. What is imported is as hostile as any
// file; of it, only what a conversation has is taken.

import { newId, shownMessages } from "./conversation.js";
import { element } from "./dom.js";
import { samplingFields } from "./generate.js";

const FORMAT = "engine-conversations";
const MOST_BYTES = 200_000_000;
const MOST_MESSAGES = 100_000;

export function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = element("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

export const fileName = (title, ending) => `${title.replace(/[^\p{L}\p{N} _-]+/gu, "").trim().slice(0, 60) || "conversation"}.${ending}`;

export function toJson(conversations) {
  return `${JSON.stringify({ format: FORMAT, version: 1, conversations }, null, 1)}\n`;
}

// What is shown of a conversation. The texts are Markdown already.
export function toMarkdown(conversation) {
  const parts = [`# ${conversation.title || "Conversation"}`];
  const system = conversation.settings.system?.trim();
  if (system) parts.push("## System", system);
  for (const message of shownMessages(conversation)) {
    parts.push(message.role === "user" ? "## You" : `## ${message.model || "Answer"}`);
    if (message.reasoning) parts.push(message.reasoning.trim().split("\n").map(line => `> ${line}`).join("\n"));
    parts.push(message.content.trim());
  }
  return `${parts.join("\n\n")}\n`;
}

// ---- reading -------------------------------------------------------------------------------------------------------

const isObject = value => typeof value === "object" && value !== null && !Array.isArray(value);
const text = (value, most = 10_000_000) => (typeof value === "string" ? value.slice(0, most) : "");
const date = value => (Number.isFinite(value) && value > 0 && value < 8e15 ? value : Date.now());
const number = value => (Number.isFinite(value) ? value : undefined);

function readSettings(settings) {
  const found = {};
  if (!isObject(settings)) return found;
  if (typeof settings.system === "string") found.system = text(settings.system);
  for (const name of Object.keys(samplingFields)) if (Number.isFinite(settings[name])) found[name] = settings[name];
  return found;
}

function readTokens(tokens) {
  const one = token => ({ text: text(token?.text, 1000), logprob: number(token?.logprob) ?? -Infinity });
  return tokens.slice(0, MOST_MESSAGES).map(token => ({ ...one(token), rivals: Array.isArray(token?.rivals) ? token.rivals.slice(0, 20).map(one) : [] }));
}

const states = new Set(["complete", "stopped", "cut", "broken"]);

function readMessage(message) {
  const found = { role: message.role, content: text(message.content), created: date(message.created) };
  if (message.role === "assistant") {
    found.model = text(message.model, 200);
    found.state = states.has(message.state) ? message.state : "complete";
    if (typeof message.reasoning === "string") found.reasoning = text(message.reasoning);
    if (Array.isArray(message.tokens)) found.tokens = readTokens(message.tokens);
    if (Number.isFinite(message.pieces)) found.pieces = message.pieces;
    if (isObject(message.usage)) found.usage = { prompt: number(message.usage.prompt), cached: number(message.usage.cached), answer: number(message.usage.answer) };
    if (isObject(message.timing)) found.timing = { first: number(message.timing.first), writing: number(message.timing.writing) };
    if (isObject(message.error)) found.error = { kind: text(message.error.kind, 20), text: text(message.error.text, 2000) };
  }
  return found;
}

// With new ids, so that an import neither replaces anything nor brings names of its own.
function readConversation(conversation) {
  if (!isObject(conversation) || !isObject(conversation.messages)) throw new Error("a conversation has no messages");
  const entries = Object.entries(conversation.messages).filter(([id, message]) => id !== "" && isObject(message) && ["user", "assistant"].includes(message.role));
  if (entries.length > MOST_MESSAGES) throw new Error(`a conversation has more than ${MOST_MESSAGES} messages`);
  const ids = new Map([["", ""], ...entries.map(([id]) => [id, newId()])]);
  const messages = {}, chosen = {};
  // Parents first: a message whose parents lead in a circle, or nowhere, is never reached.
  const children = new Map();
  for (const [id, message] of entries) {
    const parent = typeof message.parent === "string" ? message.parent : "";
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push([id, message]);
  }
  for (const waiting = [""]; waiting.length > 0;) {
    const parent = waiting.pop(), found = children.get(parent) ?? [];
    for (const [id, message] of found) {
      messages[ids.get(id)] = { id: ids.get(id), parent: ids.get(parent), ...readMessage(message) };
      waiting.push(id);
    }
    if (found.length > 0) {
      const wanted = isObject(conversation.chosen) && Object.hasOwn(conversation.chosen, parent) ? conversation.chosen[parent] : null;
      chosen[ids.get(parent)] = ids.get(found.some(([id]) => id === wanted) ? wanted : found.at(-1)[0]);
    }
  }
  return { id: newId(), title: text(conversation.title, 200), named: conversation.named === true, created: date(conversation.created),
    updated: date(conversation.updated), model: text(conversation.model, 200), settings: readSettings(conversation.settings), messages, chosen };
}

// The conversations of a file. Throws an Error with one line that says what is wrong with it.
export async function fromFile(file) {
  if (file.size > MOST_BYTES) throw new Error("it is larger than 200 MB");
  let value;
  try {
    value = JSON.parse(await file.text());
  } catch {
    throw new Error("it is not JSON");
  }
  if (!isObject(value) || value.format !== FORMAT || !Array.isArray(value.conversations)) throw new Error("it was not exported from this page");
  if (value.version !== 1) throw new Error("it is from a later version of this page");
  return value.conversations.map(readConversation);
}
