// Markdown as elements. Whatever a model writes, the result has no script, no address but http, https and mailto, and
// loads nothing: images are shown as links to them, and a click on a link asks first (dialogs.js). No
// list of nodes is spread into arguments: a text may have more of them than a call can take.

import { shownCode, shownText } from "./bidi.js";
import { element, icon } from "./dom.js";
import { highlight } from "./highlight.js";
import { parseBlocks } from "./markdown-blocks.js";
import { parseInlines } from "./markdown-inlines.js";
import { inlineText } from "./markdown-text.js";

const MOST_NESTED = 60; // of inlines; what is deeper is plain text
const MOST_COLOURED = 50_000; // characters of a code block that gets colours

function safeAddress(to) {
  try {
    const url = new URL(to);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null; // relative: it would lead into this server
  }
}

function link(node, context, children) {
  const address = safeAddress(node.to);
  if (!address || context.inLink) return children;
  return [element("a", { href: address, title: shownText(node.title || address), target: "_blank", rel: "noopener noreferrer nofollow", "data-outside": true }, children)];
}

// Code in tables breaks between words alone, so "--an-option" stays whole.
const wholeWords = text => text.split(/(\s+)/).map(part => (part.trim() === "" ? part : element("span", { class: "whole" }, part)));

function inlineNodes(nodes, context) {
  if (context.depth > MOST_NESTED) return [shownText(inlineText(nodes))];
  const inside = (node, more = {}) => inlineNodes(node.children, { ...context, depth: context.depth + 1, ...more });
  return nodes.flatMap(node => {
    switch (node.type) {
      case "code": return [element("code", {}, context.inTable ? wholeWords(shownCode(node.text)) : shownCode(node.text))];
      case "math": return [element("code", { class: node.display ? "math display" : "math" }, shownCode(node.text))];
      case "break": return [element("br")];
      case "emphasis": return [element("em", {}, inside(node))];
      case "strong": return [element("strong", {}, inside(node))];
      case "struck": return [element("del", {}, inside(node))];
      case "underlined": return [element("u", {}, inside(node))];
      case "marked": return [element("mark", {}, inside(node))];
      case "sub": case "sup": case "kbd": return [element(node.type, {}, inside(node))];
      case "link": return link(node, context, inside(node, { inLink: true }));
      case "image": {
        const name = inlineText(node.children) || node.to;
        return link(node, context, [element("span", { class: "image" }, `Image: ${shownText(name)}`)]);
      }
      default: return [shownText(node.text)];
    }
  });
}

const inlines = (text, references, inTable = false) => inlineNodes(parseInlines(text, references), { depth: 0, inLink: false, inTable });

function codeBlock(block) {
  const name = block.language.slice(0, 30);
  const text = shownCode(block.text), parts = text.length > MOST_COLOURED ? [["", text]] : highlight(text, block.language);
  const code = element("code", {}, parts.map(([kind, part]) => (kind ? element("span", { class: `code-${kind}` }, part) : part)));
  return element("figure", { class: "code" },
    element("figcaption", {}, element("span", {}, name || "text"),
      element("button", { type: "button", class: "text-button", "data-copy-code": true, "aria-label": `Copy this ${name ? `${name} ` : ""}code` }, icon("copy"), "Copy")),
    element("pre", { tabindex: "0", dir: "ltr", role: "region", "aria-label": name ? `Code in ${name}` : "Code" }, code));
}

function table(block, references) {
  const row = (cells, tag) =>
    element("tr", {}, cells.map((cell, i) => element(tag, { class: block.alignments[i] || null, scope: tag === "th" ? "col" : null }, inlines(cell, references, true))),
      cells.length < block.header.length && element("td", { colspan: block.header.length - cells.length }));
  return element("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" },
    element("table", { dir: "auto" }, element("thead", {}, row(block.header, "th")), element("tbody", {}, block.rows.map(cells => row(cells, "td")))));
}

const TASK = /^\[([ xX])\][ \t]+/;

function item(block, references, tight) {
  const first = block.children[0], task = first?.type === "paragraph" ? TASK.exec(first.text) : null;
  const children = (task ? [{ ...first, text: first.text.slice(task[0].length) }, ...block.children.slice(1)] : block.children)
    .flatMap(child => (tight && child.type === "paragraph" ? inlines(child.text, references) : [blockElement(child, references)]));
  if (!task) return element("li", { dir: "auto" }, children);
  const done = task[1] !== " ";
  return element("li", { class: "task", dir: "auto" }, element("span", { role: "img", "aria-label": done ? "done" : "to do" }, done ? "☑" : "☐"), " ", children);
}

function blockElement(block, references) {
  const children = () => block.children.map(child => blockElement(child, references));
  switch (block.type) {
    case "quote": return element("blockquote", { dir: "auto" }, children());
    case "list": {
      const start = block.ordered && block.start !== 1 ? block.start : null;
      return element(block.ordered ? "ol" : "ul", { start }, block.children.map(child => item(child, references, block.tight)));
    }
    // The page has headings of levels 1 and 2 itself.
    case "heading": return element(`h${Math.min(6, block.level + 2)}`, { dir: "auto", class: `heading-${block.level}` }, inlines(block.text, references));
    case "code": return codeBlock(block);
    case "table": return table(block, references);
    case "rule": return element("hr");
    default: return element("p", { dir: "auto" }, inlines(block.text, references));
  }
}

// Shows a text that grows in `target`. Only the last block of a Markdown text can change as more comes, so each update
// reads and draws from there on.
export class MarkdownView {
  constructor(target) {
    this.target = target;
    this.clear();
  }
  clear() {
    this.text = "";
    this.settled = 0; // characters whose elements stay
    this.nSettled = 0; // elements of them
    this.references = new Map();
    this.target.replaceChildren();
  }
  // `text` continues the one shown, otherwise everything is drawn anew.
  update(text) {
    if (!text.startsWith(this.text)) this.clear();
    this.text = text;
    const blocks = parseBlocks(text.slice(this.settled), this.references).children;
    while (this.target.childNodes.length > this.nSettled) this.target.lastChild.remove();
    for (const block of blocks) this.target.append(blockElement(block, this.references));
    if (blocks.length > 1) {
      this.nSettled += blocks.length - 1;
      this.settled += blocks.at(-1).from;
    }
  }
  // The text is complete: links may be defined after their use, so that everything is drawn once more if any are.
  finish(text) {
    this.update(text);
    if (this.references.size > 0 && this.nSettled > 0) {
      this.clear();
      this.update(text);
    }
  }
}
