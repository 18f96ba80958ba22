// The box at the foot of the page: what is typed, sent, and stopped.

import { byId, icon, touch } from "./dom.js";

export class Composer {
  // send(text), stop(), editLast(): what the keys and the button do
  constructor({ send, stop, editLast }) {
    Object.assign(this, { send, stop });
    this.form = byId("composer");
    this.field = byId("text");
    this.button = byId("send");
    this.form.addEventListener("submit", event => (event.preventDefault(), this.submit()));
    this.field.addEventListener("input", () => this.grow());
    this.field.addEventListener("keydown", event => {
      if (event.isComposing) return; // Enter ends a word of an input method
      if (event.key === "Enter" && !event.shiftKey && !touch.matches) {
        event.preventDefault();
        if (!this.writing) this.submit();
      } else if (event.key === "ArrowUp" && this.field.value === "" && !this.writing) {
        event.preventDefault();
        editLast();
      }
    });
    byId("keys").textContent = touch.matches ? "" : "Enter sends, Shift+Enter begins a new line";
    this.setWriting(false);
  }
  submit() {
    if (this.writing) return this.stop();
    const text = this.field.value;
    if (text.trim() === "") return this.field.focus();
    this.setText("");
    if (touch.matches) this.field.blur(); // puts the keyboard away, which covers half of the answer
    this.send(text);
  }
  setText(text) {
    this.field.value = text;
    this.grow();
  }
  // While an answer is written, the button stops it.
  setWriting(writing) {
    this.writing = writing;
    const label = writing ? "Stop" : "Send";
    this.button.replaceChildren(icon(writing ? "stop" : "send"));
    this.button.setAttribute("aria-label", label);
    this.button.title = writing ? "Stop (Escape)" : label;
    this.button.classList.toggle("stop", writing);
    this.grow();
  }
  grow() {
    this.field.style.height = "auto";
    this.field.style.height = `${this.field.scrollHeight}px`;
    this.button.disabled = !this.writing && this.field.value.trim() === "";
  }
  // Where there is a keyboard to type on; on a phone it would cover the page.
  focus() {
    if (!touch.matches) this.field.focus();
  }
}
