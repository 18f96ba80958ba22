// The messages of the conversation that is open, and how they scroll: along with what is written, until the reader
// scrolls up. A long conversation shows plain texts first; they become Markdown as they come near.

import { shownMessages } from "./conversation.js";
import { MessageView } from "./message-view.js";

const NEAR = 40; // pixels from the end that still count as the end

export class Thread {
  // scroller: the element that scrolls; list: the one in it that holds messages; toEnd: the button that leads down
  constructor(scroller, list, toEnd, actions) {
    Object.assign(this, { scroller, list, toEnd, actions });
    this.views = [];
    this.follows = true;
    this.lastTop = 0;
    this.near = new IntersectionObserver(entries => entries.forEach(entry => entry.isIntersecting && this.fill(entry.target)),
      { root: scroller, rootMargin: "1500px 0px" });
    scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    toEnd.addEventListener("click", () => {
      this.follows = true;
      this.scrollToEnd();
      this.scrolled();
    });
    new ResizeObserver(() => this.follows && this.scrollToEnd()).observe(list);
  }

  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller, atEnd = scrollHeight - scrollTop - clientHeight < NEAR;
    if (atEnd) this.follows = true;
    else if (scrollTop < this.lastTop - 1) this.follows = false; // up: by the reader; nothing else scrolls up
    this.lastTop = scrollTop;
    this.toEnd.hidden = atEnd || this.follows;
  }
  scrollToEnd() { this.scroller.scrollTop = this.scroller.scrollHeight; }

  fill(target) {
    const view = this.views.find(({ element }) => element === target);
    if (view && !view.filled) view.update(this.versionsOf(view.message));
    this.near.unobserve(target);
  }

  versionsOf(message) { return this.siblings.get(message.parent) ?? [message]; }
  countVersions() {
    this.siblings = new Map();
    for (const message of Object.values(this.conversation.messages)) {
      if (!this.siblings.has(message.parent)) this.siblings.set(message.parent, []);
      this.siblings.get(message.parent).push(message);
    }
    for (const all of this.siblings.values()) all.sort((a, b) => a.created - b.created);
  }

  // Shows the conversation as it is now; messages that were shown already keep their elements.
  show(conversation) {
    const same = this.conversation === conversation, shown = shownMessages(conversation);
    this.conversation = conversation;
    this.countVersions();
    let kept = 0;
    if (same) while (kept < shown.length && this.views[kept]?.message === shown[kept]) kept++;
    for (const view of this.views.splice(kept)) {
      this.near.unobserve(view.element);
      view.element.remove();
    }
    for (const view of this.views) if (view.filled && view.versions?.length !== this.versionsOf(view.message).length) view.update(this.versionsOf(view.message));
    for (const message of shown.slice(kept)) {
      const view = new MessageView(message, this.actions);
      this.views.push(view);
      this.list.append(view.element);
      this.near.observe(view.element);
    }
    this.views.slice(-4).forEach(view => view.filled || view.update(this.versionsOf(view.message)));
    if (!same) {
      this.follows = true;
      this.lastTop = 0;
    }
    if (this.follows) this.scrollToEnd();
    this.scrolled();
  }

  // The message has changed; only it is drawn anew.
  refresh(message, waiting) {
    const view = this.views.findLast(one => one.message === message);
    if (!view) return;
    view.update(this.versionsOf(message), waiting);
    if (this.follows) this.scrollToEnd();
  }

  viewOf(message) { return this.views.find(view => view.message === message); }
}
