// A button with a list of things to do.

import { element, iconButton } from "./dom.js";

// items() is asked each time the menu opens: [{label, do, danger}]
export function menuButton(name, label, items) {
  const list = element("div", { class: "menu-list", hidden: true });
  const button = iconButton(name, label, () => (list.hidden ? open() : close()), { "aria-expanded": "false" });
  const root = element("span", { class: "menu" }, button, list);
  const outside = event => root.contains(event.target) || close(false);
  function open() {
    list.replaceChildren(...items().map(item =>
      element("button", { type: "button", class: item.danger ? "danger" : null, onclick: () => (close(), item.do()) }, item.label)));
    list.hidden = false;
    button.setAttribute("aria-expanded", "true");
    list.firstChild?.focus();
    document.addEventListener("pointerdown", outside);
  }
  function close(focus = true) {
    list.hidden = true;
    button.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", outside);
    if (focus) button.focus();
  }
  root.addEventListener("keydown", event => {
    if (list.hidden) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key], all = [...list.children];
    if (step) {
      event.preventDefault();
      all[(all.indexOf(document.activeElement) + step + all.length) % all.length].focus();
    } else if (event.key === "Escape") {
      event.stopPropagation();
      close();
    }
  });
  root.addEventListener("focusout", event => event.relatedTarget && !root.contains(event.relatedTarget) && close(false));
  return root;
}
