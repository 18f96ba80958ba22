// The list of conversations: by day, searched, renamed, deleted. On a phone it slides over the page.

import { shownText } from "./bidi.js";
import { byId, element, iconButton } from "./dom.js";

const narrow = matchMedia("(max-width: 48rem)");

function dayOf(time) {
  const midnight = new Date().setHours(0, 0, 0, 0), days = Math.ceil((midnight - time) / 86_400_000);
  if (days <= 0) return "Today";
  if (days <= 1) return "Yesterday";
  if (days <= 7) return "The last week";
  if (days <= 30) return "The last month";
  return new Date(time).toLocaleDateString("en", { month: "long", year: "numeric" });
}

export class Sidebar {
  // actions: {open(id), rename(id), remove(id), search(query) → Promise of a Set of ids}
  constructor(actions) {
    this.actions = actions;
    this.outlines = [];
    this.running = new Set();
    this.found = null; // ids, while something is searched
    this.root = byId("sidebar");
    const field = byId("search");
    field.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.search(field.value), 150);
    });
    byId("shade").addEventListener("click", () => this.setOpen(false));
    this.root.addEventListener("keydown", event => event.key === "Escape" && narrow.matches && (event.stopPropagation(), this.setOpen(false)));
    narrow.addEventListener("change", () => this.setOpen(!narrow.matches, false));
    this.setOpen(!narrow.matches, false);
  }

  get narrow() { return narrow.matches; }
  // On a phone, the keyboard reaches neither a closed sidebar nor the page behind an open one.
  setOpen(open, move = true) {
    this.isOpen = open;
    document.body.classList.toggle("sidebar-open", open);
    this.root.inert = !open;
    document.querySelector("main").inert = open && narrow.matches;
    byId("menu")?.setAttribute("aria-expanded", `${open}`);
    if (!move) return;
    if (open) byId("new").focus();
    else if (narrow.matches || document.activeElement === document.body) byId("menu")?.focus();
  }

  async search(query) {
    this.query = query; // a search may end after a later one
    const found = query.trim() === "" ? null : await this.actions.search(query);
    if (query !== this.query) return;
    this.found = found;
    this.draw();
  }

  show(outlines, current, running) {
    this.outlines = [...outlines].sort((a, b) => b.updated - a.updated);
    this.current = current;
    this.running = running;
    this.draw();
  }

  draw() {
    const list = byId("list"), shown = this.outlines.filter(one => !this.found || this.found.has(one.id)), focused = document.activeElement?.dataset?.open;
    const groups = new Map();
    for (const one of shown) {
      const day = dayOf(one.updated);
      if (!groups.has(day)) groups.set(day, []);
      groups.get(day).push(one);
    }
    const sections = [...groups].map(([day, all]) =>
      element("section", { "aria-label": day }, element("h2", {}, day), element("ul", {}, ...all.map(one => this.row(one)))));
    if (shown.length === 0) sections.push(element("p", { class: "note", role: "status" }, this.found ? "Nothing found." : "Conversations appear here. They stay in this browser."));
    list.replaceChildren(...sections);
    if (focused) list.querySelector(`[data-open="${CSS.escape(focused)}"]`)?.focus();
  }

  row({ id, title }) {
    const name = shownText(title) || "New conversation";
    return element("li", { class: id === this.current ? "current" : null },
      element("button", { type: "button", class: "open", "data-open": id, title: name, dir: "auto", "aria-current": id === this.current ? "page" : null, onclick: () => this.actions.open(id) },
        this.running.has(id) ? element("span", { class: "running", role: "img", "aria-label": "being answered" }) : null, name),
      iconButton("edit", `Rename “${name}”`, () => this.actions.rename(id), { "data-do": "rename" }),
      iconButton("remove", `Delete “${name}”`, () => this.actions.remove(id), { "data-do": "remove" }));
  }
}
