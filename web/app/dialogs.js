// Windows that ask: yes or no, a line of text, the server's key, whether to follow a link. Each is a modal <dialog>, made
// when it is needed; Escape says no.

import { element } from "./dom.js";
import { copy } from "./copy.js";

// Shows a dialog with `content` and buttons {label, value, kind}; resolves to the value of the one pressed, or null.
// `read` turns that into something else while the fields are still there.
export function ask(title, content, buttons, read = value => value) {
  return new Promise(resolve => {
    const before = document.activeElement;
    const form = element("form", { method: "dialog" },
      element("h2", { id: "dialog-title" }, title), ...content,
      element("div", { class: "buttons" },
        ...buttons.map(({ label, value, kind }) => element("button", { value, class: `button ${kind ?? ""}`, type: value === "" ? "button" : "submit", onclick: value === "" ? () => dialog.close("") : null }, label))));
    const dialog = element("dialog", { "aria-labelledby": "dialog-title" }, form);
    dialog.addEventListener("close", () => {
      const result = dialog.returnValue ? read(dialog.returnValue) : null;
      dialog.remove();
      if (before?.isConnected) before.focus();
      resolve(result);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

export const confirm = (title, text, yes) =>
  ask(title, [element("p", {}, text)], [{ label: "Cancel", value: "" }, { label: yes, value: "yes", kind: "danger" }]);

export const tell = (title, text) => ask(title, [element("p", {}, text)], [{ label: "Close", value: "close", kind: "main" }]);

export function askForText(title, label, text, yes) {
  const field = element("input", { type: "text", value: text, maxlength: 200, autocomplete: "off", required: true, autofocus: true });
  return ask(title, [element("label", { class: "field" }, label, field)],
    [{ label: "Cancel", value: "" }, { label: yes, value: "yes", kind: "main" }], () => field.value.trim());
}

// {key, remember}, or null.
export function askForKey(message) {
  const key = element("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true, autofocus: true });
  const remember = element("input", { type: "checkbox" });
  return ask("This server asks for a key", [
    element("p", {}, message || "Whoever runs the server has the key."),
    element("label", { class: "field" }, "API key", key),
    element("label", { class: "check" }, remember, "Remember it in this browser"),
  ], [{ label: "Cancel", value: "" }, { label: "Continue", value: "yes", kind: "main" }], () => ({ key: key.value.trim(), remember: remember.checked }));
}

// A model's link can carry what was said here to another server: its address is shown in full before it is followed.
async function askToFollow(link) {
  const address = link.href, copyButton = element("button", { type: "button", class: "button", onclick: () => copy(address, copyButton) }, "Copy address");
  const answer = await ask("Leave this page?", [
    element("p", {}, "The model wrote a link to ", element("strong", {}, new URL(address).host || "a mail address"), ". Its full address is:"),
    element("p", { class: "address" }, address), element("p", {}, copyButton),
  ], [{ label: "Cancel", value: "" }, { label: "Open in a new tab", value: "yes", kind: "main" }]);
  if (answer) window.open(address, "_blank", "noopener,noreferrer");
}
for (const kind of ["click", "auxclick"])
  document.addEventListener(kind, event => {
    const link = event.target.closest?.("a[data-outside]");
    if (!link || event.button > 1) return;
    event.preventDefault();
    askToFollow(link);
  });
