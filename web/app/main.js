// The page: which conversation is open, what is being written, and who is told. Everything else is in the modules that
// this one connects.

import { announce, announceAnswer } from "./announce.js";
import { showAttention } from "./attention-view.js";
import { shownText } from "./bidi.js";
import { Composer } from "./composer.js";
import { addMessage, messagesUpTo, newConversation, outline, shownMessages, showVersion } from "./conversation.js";
import { askForKey, askForText, confirm, tell } from "./dialogs.js";
import { byId, element, icon, iconButton } from "./dom.js";
import { Generation } from "./generate.js";
import { menuButton } from "./menu.js";
import { preference, setPreference, setServerKey } from "./preferences.js";
import { isThere, listModels, properties } from "./server.js";
import { showSettings } from "./settings-view.js";
import { Sidebar } from "./sidebar.js";
import { allConversations, openStore, search } from "./store.js";
import { Thread } from "./thread.js";
import { fileName, fromFile, save, toJson, toMarkdown } from "./transfer.js";
import { welcome } from "./welcome.js";

const store = await openStore();
const channel = new BroadcastChannel("engine"); // other tabs of this page
let outlines = await store.outlines();
let conversation = null; // the one that is open
let models = [], known = { context: 0, defaults: {}, attention: 0 }; // known: of the conversation's model
const running = new Map(); // id of a conversation → its Generation

const unsaved = one => Object.keys(one.messages).length === 0;

// ---- keeping -------------------------------------------------------------------------------------------------------

async function keep(one) {
  if (unsaved(one)) return;
  outlines = [...outlines.filter(({ id }) => id !== one.id), outline(one)];
  try {
    await store.put(one);
    channel.postMessage(one.id);
  } catch (error) {
    setNotice("full", `This browser could not keep the conversation (${error.name}). Export what matters to you.`);
  }
}

channel.onmessage = async ({ data }) => {
  outlines = await store.outlines();
  if (!conversation) return; // nothing is drawn yet
  if (data === conversation.id && !running.has(data)) {
    const changed = await store.get(data);
    if (changed) show(changed);
    else openNew();
  }
  drawSidebar();
};

// ---- notices -------------------------------------------------------------------------------------------------------

const notices = new Map(); // subject → text

function setNotice(subject, text, ...buttons) {
  if (text) notices.set(subject, element("p", {}, icon("warning"), element("span", {}, text), ...buttons));
  else notices.delete(subject);
  byId("notice").replaceChildren(...notices.values());
}

let checking = null;
// Says that the server is gone, until it is back.
function serverGone() {
  setNotice("gone", "The server does not answer. This page goes on as soon as it is back.");
  checking ??= setInterval(async () => {
    if (!(await isThere())) return;
    clearInterval(checking);
    checking = null;
    setNotice("gone", "");
    announce("The server is back.");
    connect();
  }, 2000);
}

let asking = null;
// Asks for the key once, however many requests were refused. True if there is a new one.
function getKey(message) {
  asking ??= askForKey(message).then(found => {
    asking = null;
    if (found) setServerKey(found.key, found.remember);
    return Boolean(found);
  });
  return asking;
}

// Learns what the server offers. Problems become notices.
async function connect() {
  try {
    models = await listModels();
    if (!conversation.model || (unsaved(conversation) && !models.includes(conversation.model))) conversation.model = models.includes(preference("model", "")) ? preference("model", "") : (models[0] ?? "");
    setNotice("key", "");
    drawModels();
    await learn();
  } catch (error) {
    if (error.kind === "gone") serverGone();
    else if (error.kind === "key") {
      if (await getKey(error.message)) return connect();
      setNotice("key", "This server asks for a key.", element("button", { type: "button", class: "button", onclick: connect }, "Enter it"));
    } else setNotice("server", error.message);
  }
}

async function learn() {
  try {
    known = await properties(conversation.model);
  } catch {
    known = { context: 0, defaults: {}, attention: 0 }; // a server without /props, or one that loads the model only when asked
  }
  thread.actions.attention = known.attention > 0 ? attention : null;
  drawUsage();
}

// ---- drawing -------------------------------------------------------------------------------------------------------

function drawSidebar() {
  sidebar.show(outlines, conversation.id, new Set(running.keys()));
}

function drawTitle() {
  const title = shownText(conversation.title) || "New conversation";
  byId("title").textContent = title;
  document.title = conversation.title ? `${title} – engine` : "engine";
}

function drawModels() {
  const select = byId("model"), names = models.includes(conversation.model) || !conversation.model ? models : [...models, conversation.model];
  select.replaceChildren(...names.map(name => {
    const option = element("option", { value: name }, models.includes(name) ? name : `${name} (not on this server)`);
    option.selected = name === conversation.model;
    return option;
  }));
  select.closest("label").hidden = names.length === 0;
}

const whole = new Intl.NumberFormat("en");

function drawUsage() {
  const shown = shownMessages(conversation), last = shown.findLast(message => message.usage?.prompt), place = byId("usage");
  const later = last ? shown.slice(shown.indexOf(last) + 1) : []; // of which the server has said nothing, such as stopped answers
  const used = last ? (last.usage.prompt ?? 0) + (last.usage.answer ?? 0) + later.reduce((sum, { pieces }) => sum + (pieces ?? 0), 0) : 0;
  const count = `${later.length > 0 ? "more than " : ""}${whole.format(used)}`;
  place.textContent = used === 0 ? "" : known.context ? `${count} of ${whole.format(known.context)} tokens of context` : `${count} tokens`;
  place.classList.toggle("nearly-full", known.context > 0 && used > 0.85 * known.context);
}

function drawThread() {
  const empty = unsaved(conversation);
  byId("messages").querySelector(".welcome")?.remove();
  thread.show(conversation);
  if (empty) byId("messages").append(welcome(text => send(text)));
}

function show(one) {
  conversation = running.get(one.id)?.conversation ?? one;
  for (const message of Object.values(conversation.messages))
    if (message.state === "writing" && !running.has(conversation.id)) Object.assign(message, { state: "broken", error: { kind: "page", text: "The page was closed while this was written." } });
  history.replaceState(null, "", unsaved(conversation) ? location.pathname : `#${conversation.id}`);
  if (!conversation.model) conversation.model = models[0] ?? "";
  drawTitle();
  drawModels();
  drawThread();
  drawUsage();
  drawSidebar();
  composer.setWriting(running.has(conversation.id));
}

async function open(id) {
  const found = running.get(id)?.conversation ?? (await store.get(id));
  if (!found) return openNew();
  show(found);
  if (models.length > 1) learn();
  if (sidebar.narrow) sidebar.setOpen(false);
  else composer.focus();
}

function openNew() {
  show(newConversation(preference("settings", {}), models.includes(preference("model", "")) ? preference("model", "") : (models[0] ?? "")));
  if (sidebar.narrow) sidebar.setOpen(false, false);
  composer.focus();
}

// ---- answers -------------------------------------------------------------------------------------------------------

const KEEP_EVERY = 5000; // milliseconds, while an answer is written

// Has the message with this id answered, or goes on with `begun`, an answer to it.
function generate(parent, begun = null) {
  const one = conversation;
  let drawn = false, kept = performance.now();
  const draw = () => {
    drawn = false;
    if (conversation !== one) return;
    thread.refresh(generation.message, generation.waiting);
  };
  const generation = new Generation(one, parent, begun, { withTokens: preference("tokens", false), changed() {
    if (!drawn) {
      drawn = true;
      if (document.hidden) setTimeout(draw, 500); // no frames come then
      else requestAnimationFrame(draw);
    }
    if (performance.now() - kept > KEEP_EVERY) {
      kept = performance.now();
      keep(one);
    }
  } });
  running.set(one.id, generation);
  thread.follows = true;
  drawThread();
  draw();
  composer.setWriting(true);
  keep(one);
  drawSidebar();
  announce("Answering.");
  generation.done.then(async message => {
    running.delete(one.id);
    await keep(one);
    drawSidebar();
    announceAnswer(message);
    if (message.error?.kind === "gone") serverGone();
    if (conversation === one) {
      draw();
      drawUsage();
      composer.setWriting(false);
    }
    if (message.error?.kind === "key" && (await getKey(message.error.text)) && conversation === one) {
      connect();
      if (begun) goOn(message);
      else regenerate(message);
    }
  });
}

function send(text) {
  if (running.has(conversation.id)) return;
  const parent = shownMessages(conversation).at(-1)?.id ?? "";
  const message = addMessage(conversation, parent, "user", text);
  history.replaceState(null, "", `#${conversation.id}`);
  drawTitle();
  generate(message.id);
  composer.focus();
}

function stop() {
  running.get(conversation.id)?.stop();
}

// Another answer to the same message. One that said nothing makes way for it.
function regenerate(message) {
  if (running.has(conversation.id)) return;
  if (message.state === "broken" && message.content === "" && !message.reasoning) delete conversation.messages[message.id];
  generate(message.parent);
  composer.focus();
}

// The rest of an answer that was stopped, cut or broken off.
function goOn(message) {
  if (running.has(conversation.id)) return;
  generate(message.parent, message);
  composer.focus();
}

function edit(message, text) {
  if (running.has(conversation.id)) return;
  if (message.role === "user") {
    const other = addMessage(conversation, message.parent, "user", text);
    drawTitle();
    generate(other.id);
    composer.focus();
  } else {
    addMessage(conversation, message.parent, "assistant", text, { state: "complete", model: message.model, edited: true });
    changed();
  }
}

function changed() {
  drawThread();
  drawUsage();
  keep(conversation);
  drawSidebar();
}

function version(message) {
  if (running.has(conversation.id)) return;
  showVersion(conversation, message);
  changed();
  const view = thread.viewOf(message);
  view?.element.querySelector("[data-version]:not(:disabled)")?.focus();
  announce("Version shown.");
}

function attention(message) {
  showAttention(conversation.model, messagesUpTo(conversation, message.id), conversation.title);
}

// ---- conversations -------------------------------------------------------------------------------------------------

async function rename(id) {
  const one = id === conversation.id ? conversation : await store.get(id), title = one && (await askForText("Rename the conversation", "Name", one.title, "Rename"));
  if (!title) return;
  Object.assign(one, { title, named: true });
  await keep(one);
  drawTitle();
  drawSidebar();
}

async function remove(id) {
  const title = outlines.find(one => one.id === id)?.title || "this conversation";
  if (!(await confirm("Delete the conversation?", `“${title}” will be gone for good.`, "Delete"))) return;
  running.get(id)?.stop();
  await running.get(id)?.done;
  await store.remove(id);
  outlines = outlines.filter(one => one.id !== id);
  channel.postMessage(id);
  if (id === conversation.id) openNew();
  drawSidebar();
  announce("Deleted.");
}

async function removeAll() {
  if (!(await confirm("Delete all conversations?", `All ${outlines.length} will be gone for good.`, "Delete all"))) return;
  for (const generation of running.values()) generation.stop();
  await Promise.all([...running.values()].map(generation => generation.done));
  await store.clear();
  outlines = [];
  channel.postMessage(conversation.id);
  openNew();
}

async function importFile(file) {
  try {
    const found = await fromFile(file);
    await store.put(...found);
    outlines = await store.outlines();
    drawSidebar();
    if (found.length === 1) await open(found[0].id);
    await tell("Imported", found.length === 1 ? "One conversation was added." : `${found.length} conversations were added.`);
  } catch (error) {
    await tell("This file was not imported", `${file.name}: ${error.message}.`);
  }
}

async function exportAll() {
  save(`conversations-${new Date().toISOString().slice(0, 10)}.json`, "application/json", toJson(await allConversations(store)));
}

function settings() {
  const one = conversation;
  showSettings(one, known.defaults, { exportAll, importFile, removeAll, keyForgotten: () => announce("The key is forgotten."), changed(found) {
    if (JSON.stringify(found) === JSON.stringify(one.settings)) return;
    one.settings = found;
    keep(one);
  } });
}

// ---- beginning -----------------------------------------------------------------------------------------------------

const thread = new Thread(byId("thread"), byId("messages"), byId("to-end"), { regenerate, goOn, edit, version, attention: null });
const composer = new Composer({ send, stop, editLast() {
  const last = shownMessages(conversation).findLast(message => message.role === "user"), view = last && thread.viewOf(last);
  if (view?.filled) view.edit();
} });
byId("head-left").append(iconButton("menu", "Conversations", () => sidebar.setOpen(!sidebar.isOpen), { id: "menu", "aria-controls": "sidebar" }));
byId("sidebar-buttons").append(iconButton("close", "Close the list", () => sidebar.setOpen(false), { id: "sidebar-close" }));
const sidebar = new Sidebar({ open, rename, remove, search: query => search(store, query) });
byId("new").append(icon("add"), "New conversation");
byId("new").addEventListener("click", openNew);
byId("to-end").append(icon("down"));
byId("to-end").setAttribute("aria-label", "To the latest message");
byId("sidebar-foot").append(element("button", { type: "button", class: "text-button", onclick: settings }, icon("settings"), "Settings"));
byId("head-right").append(menuButton("more", "More", () => [
  ...(unsaved(conversation) ? [] : [
    { label: "Rename …", do: () => rename(conversation.id) },
    { label: "Export as Markdown", do: () => save(fileName(conversation.title, "md"), "text/markdown", toMarkdown(conversation)) },
    { label: "Export as JSON", do: () => save(fileName(conversation.title, "json"), "application/json", toJson([conversation])) },
    { label: "Delete …", do: () => remove(conversation.id), danger: true },
  ]),
  { label: "Settings …", do: settings },
]));
byId("model").addEventListener("change", event => {
  conversation.model = event.target.value;
  setPreference("model", conversation.model);
  keep(conversation);
  learn();
});
document.addEventListener("keydown", event => {
  if (event.key === "Escape" && running.has(conversation.id) && !document.querySelector("dialog[open]")) stop();
});
addEventListener("pagehide", () => running.forEach(({ conversation: one }) => keep(one)));
addEventListener("hashchange", () => outlines.some(({ id }) => id === location.hash.slice(1) && id !== conversation.id) && open(location.hash.slice(1)));
document.querySelector(".skip").addEventListener("click", event => (event.preventDefault(), byId("text").focus()));
addEventListener("offline", () => serverGone());

const wanted = location.hash.slice(1) && (await store.get(location.hash.slice(1)));
show(wanted || newConversation(preference("settings", {})));
if (!store.lasting) setNotice("store", "This browser does not keep conversations here: they are gone when the page is closed.");
await connect();
if (!sidebar.narrow) composer.focus();
document.documentElement.dataset.ready = "true";
