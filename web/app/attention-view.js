// What the tokens of a conversation look at: the page that `engine attention -o x.html` writes, made by the server, in a
// frame with an origin of its own (attention-frame.policy), which reaches neither this page nor the network.

import { element, iconButton } from "./dom.js";
import { fileName, save } from "./transfer.js";
import { attentionPage } from "./server.js";

export async function showAttention(model, messages, title) {
  const status = element("p", { role: "status" }, "Computing the attention weights …");
  const saveButton = element("button", { type: "button", class: "button", hidden: true }, "Save as a file");
  const dialog = element("dialog", { class: "full", "aria-labelledby": "attention-title" },
    element("div", { class: "bar" }, element("h2", { id: "attention-title" }, "What each token looks at"), saveButton,
      iconButton("close", "Close", () => dialog.close())),
    status);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  let html;
  try {
    html = await attentionPage(model, messages);
  } catch (error) {
    status.textContent = error.kind === "context" ? `This conversation is too long for it. ${error.message}` : error.message;
    status.className = "error-text";
    return;
  }
  const frame = element("iframe", { src: "attention-frame", title: "Attention weights", class: "attention" });
  addEventListener("message", function send(event) {
    if (!frame.isConnected) removeEventListener("message", send);
    else if (event.source === frame.contentWindow && event.data === "ready") {
      removeEventListener("message", send);
      frame.contentWindow.postMessage(html, "*"); // its origin has no name
    }
  });
  status.replaceWith(frame);
  saveButton.hidden = false;
  saveButton.addEventListener("click", () => save(fileName(`attention ${title}`, "html"), "text/html", html));
}
