// Copying to the clipboard, and saying so on the button. Pages of another machine without TLS have no clipboard API;
// there, the old command does it.

import { announce } from "./announce.js";
import { element, icon } from "./dom.js";

async function toClipboard(text) {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
  const box = element("textarea", { class: "unseen", "aria-hidden": "true" }), before = document.activeElement;
  box.value = text;
  (document.querySelector("dialog[open]") ?? document.body).append(box);
  box.select();
  const done = document.execCommand("copy");
  box.remove();
  before?.focus();
  if (!done) throw new Error("refused");
}

const resting = new WeakMap(); // button → {own: its icon, timer}, while it shows another one

// Shows an icon in the place of the button's own for a while.
function showSign(button, name) {
  const { own, timer } = resting.get(button) ?? { own: button.querySelector(".icon") };
  if (!own) return;
  clearTimeout(timer);
  const sign = icon(name);
  button.querySelector(".icon").replaceWith(sign);
  resting.set(button, { own, timer: setTimeout(() => (sign.replaceWith(own), resting.delete(button)), 1500) });
}

export async function copy(text, button) {
  let done = true;
  try {
    await toClipboard(text);
  } catch {
    done = false;
  }
  announce(done ? "Copied." : "The browser does not allow copying here.");
  showSign(button, done ? "done" : "warning");
}

// The copy buttons of code blocks, wherever they are.
document.addEventListener("click", event => {
  const button = event.target.closest?.("[data-copy-code]");
  if (button) copy(button.closest("figure").querySelector("code").textContent, button);
});
