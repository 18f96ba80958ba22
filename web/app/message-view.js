// One message of the thread: what is shown of it, and its buttons. It owns its element and asks `actions` for everything
// that changes the conversation.

import { shownText } from "./bidi.js";
import { copy } from "./copy.js";
import { element, icon, iconButton, touch } from "./dom.js";
import { MarkdownView } from "./markdown-view.js";
import { tokensView } from "./tokens-view.js";

const decimal = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const whole = new Intl.NumberFormat("en");

// Of an answer that was stopped, the server has not said how many tokens it has: each piece is a token, or a few.
function usageText({ usage, timing, tokens, pieces }) {
  const known = usage?.answer ?? tokens?.length, n = known ?? pieces, parts = [];
  if (n) parts.push(`${known ? "" : "about "}${whole.format(n)} token${n === 1 ? "" : "s"}`);
  // What came at once, or nearly so, tells nothing of the speed.
  if (n > 1 && timing?.writing >= 150) parts.push(`${decimal.format((n - 1) / (timing.writing / 1000))} per second`);
  if (timing?.first >= 50) parts.push(`first after ${decimal.format(timing.first / 1000)} s`);
  return parts.join(" · ");
}

const errorHelp = {
  gone: "The server does not answer. Is it still running?",
  context: "This conversation no longer fits into the model's context. Start a new one, or edit an earlier message to go on from there.",
  model: "This server does not have the model. Choose another one above.",
  key: "The server did not accept the key.",
};

export class MessageView {
  // actions: {regenerate(message), goOn(message), edit(message, text), version(message), attention(message) or null}
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.filled = false;
    const user = message.role === "user";
    this.body = element("div", { class: "body", dir: "auto" });
    this.foot = element("div", { class: "foot" });
    this.element = element("article", { class: `message ${message.role}`, "data-id": message.id }, element("h2", { class: "unseen" }, user ? "You said" : "The answer"));
    if (!user) {
      this.thoughts = element("div", { class: "thoughts-text" });
      this.thoughtsLabel = element("span", {}, "Thinking");
      this.thinking = element("details", { class: "thoughts", hidden: true }, element("summary", {}, icon("after"), this.thoughtsLabel), this.thoughts);
      this.state = element("div", { class: "state" });
      this.element.append(this.thinking, this.body, this.state);
      this.markdown = new MarkdownView(this.body);
      this.thoughtsMarkdown = new MarkdownView(this.thoughts);
    } else this.element.append(this.body);
    this.element.append(this.foot);
    this.body.textContent = shownText(message.content); // until it comes near: a long conversation opens at once
  }

  // Draws the message as it is now. `versions`: all versions of it; `waiting`: seconds until the next try.
  update(versions, waiting = 0) {
    this.filled = true;
    this.versions = versions;
    if (this.editing) return;
    const { message } = this, writing = message.state === "writing";
    if (writing && this.showsTokens) { // an answer that is gone on with
      this.showsTokens = false;
      this.markdown.clear();
    }
    if (message.role === "user") this.body.textContent = shownText(message.content);
    else {
      this.updateThoughts(writing);
      if (!this.showsTokens) {
        if (writing) this.markdown.update(message.content);
        else this.markdown.finish(message.content);
      }
      this.updateState(writing, waiting);
    }
    this.element.classList.toggle("writing", writing);
    this.element.setAttribute("aria-busy", `${writing}`);
    if (writing) this.foot.replaceChildren();
    else this.updateFoot(versions);
  }

  updateThoughts(writing) {
    const { message } = this, thinking = writing && message.content === "";
    this.thinking.hidden = !message.reasoning;
    if (!message.reasoning) return;
    this.thinking.classList.toggle("live", thinking);
    this.thoughtsLabel.textContent = thinking ? "Thinking …" : "Thoughts";
    if (thinking) this.thoughtsMarkdown.update(message.reasoning);
    else if (this.thoughtsDone !== message.reasoning) {
      this.thoughtsMarkdown.finish(message.reasoning);
      this.thoughtsDone = message.reasoning;
    }
  }

  updateState(writing, waiting) {
    const { message } = this, button = (label, act, name = "") => element("button", { type: "button", class: `button ${name}`.trim(), onclick: () => act(message) }, label);
    const goOn = message.content.trim() === "" ? null : button("Continue", this.actions.goOn, "go-on");
    let shown = [];
    if (waiting > 0) shown = [element("p", { class: "note" }, `The server is busy. Trying again in ${waiting} s …`)];
    else if (writing && !message.content && !message.reasoning) shown = [element("p", { class: "dots" }, element("span", { class: "unseen" }, "Waiting for the answer"), element("i"), element("i"), element("i"))];
    else if (message.state === "stopped") shown = [element("p", { class: "note" }, "Stopped."), goOn];
    else if (message.state === "cut") shown = [element("p", { class: "note" }, "The answer reached its longest permitted length."), goOn];
    else if (message.state === "broken") {
      const { kind, text } = message.error ?? {}, help = errorHelp[kind] ?? (kind === "busy" ? "The server stayed busy." : text || "The answer broke off.");
      shown = [element("div", { class: "error" }, icon("warning"),
        element("div", {}, element("p", {}, help), help !== text && text && kind !== "gone" ? element("p", { class: "note" }, text) : null, button("Try again", this.actions.regenerate), goOn))];
    }
    this.state.replaceChildren(...shown.filter(Boolean));
  }

  updateFoot(versions) {
    const { message, actions } = this, buttons = [], user = message.role === "user";
    if (versions.length > 1) {
      const at = versions.indexOf(message), to = (i, name, label) =>
        iconButton(name, label, () => actions.version(versions[i]), { disabled: !versions[i], "data-version": name });
      buttons.push(element("span", { class: "versions", role: "group", "aria-label": "Versions" }, to(at - 1, "before", "Previous version"),
        element("span", { class: "number" }, `${at + 1} / ${versions.length}`), to(at + 1, "after", "Next version")));
    }
    const copyButton = iconButton("copy", "Copy", () => copy(message.content, copyButton));
    if (message.content) buttons.push(copyButton);
    if (message.content) buttons.push(iconButton("edit", user ? "Edit and answer anew" : "Edit this answer", () => this.edit()));
    if (!user && (message.content || message.state !== "broken")) { // otherwise there is a button in the error
      buttons.push(iconButton("again", "Another answer", () => actions.regenerate(message)));
      if (message.tokens?.length > 0)
        buttons.push(iconButton("chance", "Token probabilities", event => this.toggleTokens(event.currentTarget), { "aria-pressed": `${Boolean(this.showsTokens)}` }));
      if (actions.attention && message.content) buttons.push(iconButton("attention", "Attention weights", () => actions.attention(message)));
      const usage = usageText(message);
      if (usage) buttons.push(element("span", { class: "usage" }, usage));
    }
    this.foot.replaceChildren(...buttons);
  }

  toggleTokens(button) {
    this.showsTokens = !this.showsTokens;
    button.setAttribute("aria-pressed", `${this.showsTokens}`);
    if (this.showsTokens) this.body.replaceChildren(tokensView(this.message.tokens));
    else {
      this.markdown.clear();
      this.markdown.finish(this.message.content);
    }
  }

  edit() {
    const { message } = this, user = message.role === "user";
    this.editing = true;
    const field = element("textarea", { "aria-label": user ? "Your message" : "Answer", rows: "3", dir: "auto" });
    field.value = message.content;
    const end = text => {
      this.editing = false;
      form.replaceWith(this.body);
      if (text !== null && text.trim() !== "" && text !== message.content) this.actions.edit(message, text);
      else {
        this.update(this.versions);
        this.foot.querySelector('[aria-label^="Edit"]')?.focus();
      }
    };
    const form = element("form", { class: "edit", onsubmit: event => (event.preventDefault(), end(field.value)), onkeydown: event => {
      if (event.isComposing) return; // Enter and Escape end a word of an input method
      if (event.key === "Escape") event.stopPropagation(), end(null);
      // As below: Enter sends a message. In an answer it begins a line, and with Ctrl it saves.
      const sends = event.ctrlKey || event.metaKey || (user && !event.shiftKey && !touch.matches);
      if (event.key === "Enter" && event.target === field && sends) event.preventDefault(), end(field.value);
    } }, field, element("div", { class: "buttons" },
      element("button", { type: "button", class: "button", onclick: () => end(null) }, "Cancel"),
      element("button", { class: "button main" }, user ? "Send" : "Save")));
    this.body.replaceWith(form);
    this.foot.replaceChildren();
    field.style.height = `${Math.min(field.scrollHeight + 4, innerHeight / 2)}px`;
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
  }
}
