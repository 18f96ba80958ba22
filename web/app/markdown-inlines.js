// What is inside a paragraph: CommonMark's inlines, GitHub's ~~struck~~ text and bare addresses, and TeX between \( \),
// \[ \] or $$. Of HTML, a few tags without attributes have a meaning (TAGS, and <br>); all else stays text.
//
// Inlines are a doubly linked list while they are read, because emphasis wraps what has been read already; at the end
// they are arrays. Searches that failed are remembered, so that the time is linear in the text.
//
// An inline is {type, text?, children?, to?, title?}. Types: text, code, math (display: true on a line of its own),
// break, emphasis, strong, struck, link, image, and those of TAGS.

import { readDestination, readEntity, readLabel, readTitle, sameLabel, skipBlanks } from "./markdown-links.js";

const SPECIAL = /[\\`*_~[\]!<&\n$hH]/g;
const PUNCTUATION = /[\p{P}\p{S}]/u;
const AUTOLINK = /<([A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*)>/y;
const MAIL = /<([\w.!#$%&'*+/=?^`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253})>/y;
const BREAK = /<br[ \t]*\/?>/iy;
const TAG = /<(\/?)([a-z]{1,6})>/iy;
// What models write where Markdown has nothing, or not what they know.
const TAGS = new Map(Object.entries({ sub: "sub", sup: "sup", kbd: "kbd", u: "underlined", mark: "marked", b: "strong", strong: "strong",
  i: "emphasis", em: "emphasis", s: "struck", del: "struck" }));
const BARE = /https?:\/\/[^\s<>[\]`"]+/iy;

class Inlines {
  constructor(text, references) {
    this.text = text;
    this.references = references;
    this.at = 0;
    this.first = this.last = null; // of the list
    this.delimiters = null; // the last one, each with `before`
    this.brackets = null; // the same
    this.tags = null; // the same, of HTML
    this.nOpen = new Map(); // name of a tag → how many are open
    this.missing = new Set(); // closers that don't occur after here
    this.ticks = null; // length of a run of backticks → {offsets, next}
  }

  append(node) {
    node.before = this.last;
    node.after = null;
    if (this.last) this.last.after = node;
    else this.first = node;
    this.last = node;
    return node;
  }
  addText(text) {
    if (text === "") return null;
    return this.append({ type: "text", text });
  }

  parse() {
    while (this.at < this.text.length) {
      SPECIAL.lastIndex = this.at;
      const found = SPECIAL.exec(this.text), next = found ? found.index : this.text.length;
      if (next > this.at) this.addText(this.text.slice(this.at, next));
      this.at = next;
      if (found && !this.special(found[0])) {
        this.addText(found[0]);
        this.at++;
      }
    }
    this.emphasise(null);
    return this.array(this.first, null);
  }

  // Reads what begins at a character that can mean something. False if it means nothing here.
  special(character) {
    switch (character) {
      case "\\": return this.escape();
      case "`": return this.code();
      case "$": return this.text[this.at + 1] === "$" && this.math("$$", "$$");
      case "*": case "_": case "~": return this.delimiter(character);
      case "[": return this.openBracket(false);
      case "!": return this.text[this.at + 1] === "[" && this.openBracket(true);
      case "]": return this.closeBracket();
      case "<": return this.autolink() || this.htmlBreak() || this.tag();
      case "&": return this.entity();
      case "\n": return this.lineEnd();
      default: return this.bareAddress();
    }
  }

  escape() {
    const next = this.text[this.at + 1];
    if (next === "\n") {
      this.append({ type: "break" });
      this.at += 2;
      return true;
    }
    if ((next === "(" && this.math("\\(", "\\)")) || (next === "[" && this.math("\\[", "\\]"))) return true;
    if (next === undefined || !/[!-/:-@[-`{-~]/.test(next)) return false;
    this.addText(next);
    this.at += 2;
    return true;
  }

  math(opening, closing) {
    if (this.missing.has(closing)) return false;
    const end = this.text.indexOf(closing, this.at + 2);
    if (end < 0) {
      this.missing.add(closing);
      return false;
    }
    const text = this.text.slice(this.at + 2, end).trim();
    if (text === "") return false;
    this.append({ type: "math", text, display: opening !== "\\(" });
    this.at = end + 2;
    return true;
  }

  code() {
    const run = /`+/y;
    run.lastIndex = this.at;
    const ticks = run.exec(this.text)[0], start = this.at + ticks.length;
    if (!this.ticks) {
      this.ticks = new Map();
      for (const { 0: run, index } of this.text.matchAll(/`+/g)) {
        if (!this.ticks.has(run.length)) this.ticks.set(run.length, { offsets: [], next: 0 });
        this.ticks.get(run.length).offsets.push(index);
      }
    }
    const runs = this.ticks.get(ticks.length);
    while (runs && runs.offsets[runs.next] < start) runs.next++;
    const end = runs?.offsets[runs.next];
    if (end === undefined) {
      this.addText(ticks);
      this.at = start;
      return true;
    }
    let text = this.text.slice(start, end).replaceAll("\n", " ");
    if (/[^ ]/.test(text) && text.startsWith(" ") && text.endsWith(" ")) text = text.slice(1, -1);
    this.append({ type: "code", text });
    this.at = end + ticks.length;
    return true;
  }

  entity() {
    const entity = readEntity(this.text, this.at);
    if (!entity) return false;
    this.addText(entity.value);
    this.at = entity.end;
    return true;
  }

  lineEnd() {
    const before = this.last?.type === "text" ? this.last.text : "";
    let length = before.length;
    while (before[length - 1] === " ") length--;
    const hard = before.length - length >= 2;
    if (before !== "") this.last.text = before.slice(0, length);
    this.append(hard ? { type: "break" } : { type: "text", text: "\n" });
    this.at++;
    while (this.text[this.at] === " ") this.at++;
    return true;
  }

  // ---- addresses -------------------------------------------------------------------------------------------------

  autolink() {
    for (const [pattern, scheme] of [[AUTOLINK, ""], [MAIL, "mailto:"]]) {
      pattern.lastIndex = this.at;
      const found = pattern.exec(this.text);
      if (!found) continue;
      this.append({ type: "link", to: scheme + found[1], title: "", children: [{ type: "text", text: found[1] }] });
      this.at = pattern.lastIndex;
      return true;
    }
    return false;
  }

  // ---- HTML --------------------------------------------------------------------------------------------------------

  htmlBreak() {
    BREAK.lastIndex = this.at;
    if (!BREAK.test(this.text)) return false;
    this.append({ type: "break" });
    this.at = BREAK.lastIndex;
    return true;
  }

  tag() {
    TAG.lastIndex = this.at;
    const found = TAG.exec(this.text), name = found?.[2].toLowerCase();
    if (!TAGS.has(name)) return false;
    if (found[1] === "/") return this.closeTag(name, TAG.lastIndex);
    const node = this.addText(found[0]);
    this.at = TAG.lastIndex;
    this.nOpen.set(name, (this.nOpen.get(name) ?? 0) + 1);
    this.tags = { name, node, before: this.tags, delimiters: this.delimiters, brackets: this.brackets };
    return true;
  }

  // Tags that are open within it stay text.
  closeTag(name, end) {
    if (!this.nOpen.get(name)) return false;
    let opening = null;
    while (opening?.name !== name) opening = this.dropTag();
    this.emphasise(opening.delimiters);
    this.brackets = opening.brackets;
    const node = opening.node, children = this.array(node.after, null);
    this.last = node;
    node.after = null;
    Object.assign(node, { type: TAGS.get(name), children });
    delete node.text;
    this.at = end;
    return true;
  }
  dropTag() {
    const tag = this.tags;
    this.tags = tag.before;
    this.nOpen.set(tag.name, this.nOpen.get(tag.name) - 1);
    return tag;
  }

  bareAddress() {
    if (/[\p{L}\p{N}]/u.test(this.text[this.at - 1] ?? "")) return false;
    BARE.lastIndex = this.at;
    const found = BARE.exec(this.text);
    if (!found) return false;
    const to = found[0].replace(/[?!.,:;*_~'")]{1,20}$/, ending => (ending.startsWith(")") && found[0].includes("(") ? ")" : ""));
    this.append({ type: "link", to, title: "", children: [{ type: "text", text: to }] });
    this.at += to.length;
    return true;
  }

  // ---- links and images --------------------------------------------------------------------------------------------

  openBracket(image) {
    const start = this.at;
    this.at += image ? 2 : 1;
    const node = this.addText(image ? "![" : "[");
    this.brackets = { node, image, start, end: this.at, active: true, before: this.brackets, delimiters: this.delimiters, tags: this.tags };
    return true;
  }

  closeBracket() {
    const opening = this.brackets;
    if (!opening) return false;
    this.brackets = opening.before;
    if (!opening.active) return false;
    const target = this.target(opening);
    if (!target) return false;
    this.emphasise(opening.delimiters);
    while (this.tags !== opening.tags) this.dropTag();
    const children = this.array(opening.node.after, null);
    this.last = opening.node;
    const node = this.last;
    node.after = null;
    Object.assign(node, { type: opening.image ? "image" : "link", to: target.to, title: target.title, children });
    delete node.text;
    this.at = target.end;
    if (!opening.image) // no links in links
      for (let other = this.brackets; other?.active; other = other.before) if (!other.image) other.active = false;
    return true;
  }

  // Where the link leads whose closing bracket is here: (destination "title"), [label], [] or nothing.
  target(opening) {
    const after = this.at + 1;
    if (this.text[after] === "(") {
      const to = readDestination(this.text, skipBlanks(this.text, after + 1));
      if (to) {
        let at = skipBlanks(this.text, to.end), title = null;
        if (at > to.end && (title = readTitle(this.text, at))) at = skipBlanks(this.text, title.end);
        if (this.text[at] === ")") return { to: to.value, title: title?.value ?? "", end: at + 1 };
      }
    }
    if (this.references.size === 0) return null;
    const label = readLabel(this.text, after);
    const empty = this.text.startsWith("[]", after);
    const own = label ? label.value : this.at - opening.end <= 999 ? this.text.slice(opening.end, this.at) : "";
    const found = this.references.get(sameLabel(own));
    if (!found) return null;
    return { ...found, end: label ? label.end : empty ? after + 2 : after };
  }

  // ---- emphasis ----------------------------------------------------------------------------------------------------

  delimiter(character) {
    let end = this.at;
    while (this.text[end] === character) end++;
    const count = end - this.at;
    const before = this.codePointBefore(this.at), after = String.fromCodePoint(this.text.codePointAt(end) ?? 10);
    const blankAfter = /\s/.test(after), blankBefore = /\s/.test(before);
    const markAfter = PUNCTUATION.test(after), markBefore = PUNCTUATION.test(before);
    const left = !blankAfter && (!markAfter || blankBefore || markBefore);
    const right = !blankBefore && (!markBefore || blankAfter || markAfter);
    const node = this.addText(this.text.slice(this.at, end));
    this.at = end;
    if (character === "~" && count > 2) return true;
    const opens = character === "_" ? left && (!right || markBefore) : left;
    const closes = character === "_" ? right && (!left || markAfter) : right;
    if (!opens && !closes) return true;
    const delimiter = { at: end, character, count, whole: count, opens, closes, node, before: this.delimiters, after: null };
    if (this.delimiters) this.delimiters.after = delimiter;
    this.delimiters = delimiter;
    return true;
  }
  codePointBefore(at) {
    if (at === 0) return "\n";
    const low = this.text.charCodeAt(at - 1);
    return low >= 0xdc00 && low <= 0xdfff && at > 1 ? this.text.slice(at - 2, at) : this.text[at - 1];
  }

  // Turns the delimiters after `bottom` into emphasis, and forgets them.
  emphasise(bottom) {
    const bottoms = new Map(); // of each kind of closer: up to this offset, it has no opener
    let closer = this.delimiters;
    while (closer && closer.before !== bottom) closer = closer.before;
    while (closer) {
      if (!closer.closes) {
        closer = closer.after;
        continue;
      }
      const kind = `${closer.character}${closer.opens}${closer.character === "~" ? closer.count : closer.whole % 3}`;
      const floor = bottoms.get(kind) ?? bottom?.at ?? 0;
      let opener = closer.before;
      while (opener && opener.at > floor && !fits(opener, closer)) opener = opener.before;
      if (!opener || opener.at <= floor) {
        bottoms.set(kind, closer.before?.at ?? 0);
        const next = closer.after;
        if (!closer.opens) this.forget(closer);
        closer = next;
        continue;
      }
      closer = this.wrap(opener, closer);
    }
    this.delimiters = bottom;
    if (bottom) bottom.after = null;
  }

  // Emphasises the text between them; returns the closer to continue with.
  wrap(opener, closer) {
    const used = closer.character === "~" ? closer.count : opener.count >= 2 && closer.count >= 2 ? 2 : 1;
    for (const end of [opener, closer]) {
      end.count -= used;
      end.node.text = end.node.text.slice(used);
    }
    const inner = opener.node.after, type = closer.character === "~" ? "struck" : used === 2 ? "strong" : "emphasis";
    const node = { type, children: inner === closer.node ? [] : this.array(inner, closer.node), before: opener.node, after: closer.node };
    opener.node.after = node;
    closer.node.before = node;
    opener.after = closer; // what lay between is inside now
    closer.before = opener;
    if (opener.count === 0) this.forget(opener);
    if (closer.count > 0) return closer;
    const next = closer.after;
    this.forget(closer);
    return next;
  }
  forget(delimiter) {
    if (delimiter.before) delimiter.before.after = delimiter.after;
    if (delimiter.after) delimiter.after.before = delimiter.before;
    else this.delimiters = delimiter.before;
  }

  // The nodes from `node` up to `end`, neighbouring texts joined.
  array(node, end) {
    const nodes = [];
    for (; node && node !== end; node = node.after) {
      if (node.type === "text" && node.text === "") continue;
      const last = nodes.at(-1);
      if (node.type === "text" && last?.type === "text") last.text += node.text;
      else nodes.push(node.type === "text" ? { type: "text", text: node.text } : node);
    }
    return nodes;
  }
}

function fits(opener, closer) {
  if (!opener.opens || opener.character !== closer.character) return false;
  if (closer.character === "~") return opener.count === closer.count;
  return !((opener.closes || closer.opens) && (opener.whole + closer.whole) % 3 === 0 && (opener.whole % 3 !== 0 || closer.whole % 3 !== 0));
}

// The inlines of a block's text; `references` as parseBlocks leaves it.
export function parseInlines(text, references = new Map()) {
  return new Inlines(text.trim(), references).parse();
}
