// Elements, made node by node. Nothing in the page parses HTML: index.policy forbids it (require-trusted-types-for).

const SVG = "http://www.w3.org/2000/svg";

// Whether fingers point, so that Enter is for new lines and the keyboard covers half of the page.
export const touch = matchMedia("(pointer: coarse)");

// element("button", {class: "x", onclick: f, "aria-label": "Copy", hidden: true}, child, …): children are nodes, texts, or
// lists of them; attributes that are false, null or undefined are left out, functions become listeners.
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  for (const child of children.flat()) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}

// Strokes in a box of 24 by 24.
const icons = {
  add: "M12 5v14M5 12h14",
  menu: "M4 7h16M4 12h16M4 17h16",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M8 8h8v8H8z",
  copy: "M9 9h10v11H9zM6 15H5V4h10v2",
  done: "M5 13l4 4L19 7",
  again: "M20 11a8 8 0 1 0-2.3 6.3M20 5v6h-6",
  edit: "M4 20h4L19 9l-4-4L4 16zM13.5 6.5l4 4",
  before: "M14 6l-6 6 6 6",
  after: "M10 6l6 6-6 6",
  down: "M12 5v14M6 13l6 6 6-6",
  remove: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  more: "M5 11.5h.8v.8H5zM11.6 11.5h.8v.8h-.8zM18.2 11.5h.8v.8h-.8z",
  settings: "M4 8h9M17 8h3M4 16h3M11 16h9M15 6v4M9 14v4",
  close: "M6 6l12 12M18 6L6 18",
  search: "M11 5a6 6 0 1 0 0 12 6 6 0 0 0 0-12M20 20l-4.5-4.5",
  chance: "M5 19V9M12 19V5M19 19v-6",
  attention: "M3 12s3.5-6 9-6 9 6 9 6-3.5 6-9 6-9-6-9-6M12 10a2 2 0 1 0 0 4 2 2 0 0 0 0-4",
  warning: "M12 4l9 16H3zM12 10v4M12 17h.01",
  light: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 3v1M12 20v1M3 12h1M20 12h1M5.6 5.6l.8.8M17.6 17.6l.8.8M5.6 18.4l.8-.8M17.6 6.4l.8-.8",
  dark: "M19 14a7.5 7.5 0 0 1-9-9 7.5 7.5 0 1 0 9 9",
  system: "M4 5h16v11H4zM9 20h6M12 16v4",
};

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg"), path = document.createElementNS(SVG, "path");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", icons[name]);
  svg.append(path);
  return svg;
}

// A button that shows only an icon; its name is read out and shown as a tooltip.
export function iconButton(name, label, onclick, attributes = {}) {
  return element("button", { type: "button", class: "icon-button", "aria-label": label, title: label, onclick, ...attributes }, icon(name));
}

export const byId = id => document.getElementById(id);
