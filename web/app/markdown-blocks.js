// The blocks of a Markdown text: CommonMark 0.31 with GitHub's tables. HTML has no meaning here; it stays text.
//
// Lines are read once, in order. `open` is the chain of blocks that the next line may continue, from the document down;
// a line first decides which of them go on, then which blocks it begins, then where its text belongs. So the time is
// linear in the text, however hostile: at most MOST_NESTED blocks are open at once.
//
// A block is {type, from, children?, text?, …}; `from` is the offset of its first line in the text. Types:
//   document, quote, item     children
//   list                      children (items), ordered, start, tight
//   paragraph                 text
//   heading                   text, level 1 … 6
//   code                      text, language ("" if unknown)
//   table                     header (cells), alignments ("left", "center", "right", ""), rows (of at most as many cells)
//   rule

import { readReferences, unescape } from "./markdown-links.js";

const MOST_NESTED = 40;
const containers = new Set(["document", "quote", "list", "item"]);

// A line and how far it has been read. Columns count a tab as up to four.
class Line {
  constructor(text, from) {
    this.text = text;
    this.from = from;
    this.offset = 0;
    this.column = 0;
    this.inTab = false; // offset is at a tab of which some columns have been read
    this.look();
  }
  look() { // finds the next character that is not blank
    let at = this.offset, column = this.column;
    for (; at < this.text.length; at++)
      if (this.text[at] === " ") column++;
      else if (this.text[at] === "\t") column += 4 - column % 4;
      else break;
    this.next = at;
    this.indent = column - this.column;
    this.blank = at >= this.text.length;
  }
  skip(columns) { // blanks only
    while (columns > 0 && this.offset < this.text.length) {
      const width = this.text[this.offset] === "\t" ? 4 - this.column % 4 : 1, taken = Math.min(width, columns);
      this.inTab = taken < width;
      this.column += taken;
      columns -= taken;
      if (!this.inTab) this.offset++;
    }
    this.look();
  }
  advance(characters) { // what is not blank
    this.offset += characters;
    this.column += characters;
    this.inTab = false;
    this.look();
  }
  toNext() { this.skip(this.indent); }
  skipOneBlank() { if (this.indent > 0) this.skip(1); }
  rest() {
    return this.inTab ? " ".repeat(4 - this.column % 4) + this.text.slice(this.offset + 1) : this.text.slice(this.offset);
  }
  matches(pattern) { // at the next character; the pattern is sticky
    pattern.lastIndex = this.next;
    return pattern.exec(this.text);
  }
}

// ---- what continues a block: false ends it, "eaten" means that the line has been used up ------------------------

const continues = {
  document: () => true,
  list: () => true,
  quote(block, line) {
    if (line.indent > 3 || line.text[line.next] !== ">") return false;
    line.toNext();
    line.advance(1);
    line.skipOneBlank();
    return true;
  },
  item(block, line) {
    if (line.blank) {
      if (block.children.length === 0) return false; // an item begins with at most one blank line
      line.toNext();
      return true;
    }
    if (line.indent < block.width) return false;
    line.skip(block.width);
    return true;
  },
  code(block, line) {
    if (!block.fence) {
      if (line.indent >= 4) line.skip(4);
      else if (line.blank) line.toNext();
      else return false;
      return true;
    }
    if (line.indent <= 3) {
      const end = line.matches(/(`{3,}|~{3,})[ \t]*$/y);
      if (end && end[1][0] === block.fence && end[1].length >= block.fenceLength) {
        block.closed = true;
        return "eaten";
      }
    }
    line.skip(Math.min(line.indent, block.fenceIndent));
    return true;
  },
  paragraph: (block, line) => !line.blank,
  table: (block, line) => !line.blank && line.indent <= 3 && !beginsBlock(line),
  heading: () => false,
  rule: () => false,
};

// ---- what begins a block -----------------------------------------------------------------------------------------

const RULE = /(?:(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|(?:-[ \t]*){3,})$/y;
const HEADING = /(#{1,6})(?:[ \t]+|$)/y;
const FENCE = /(`{3,})([^`]*)$|(~{3,})(.*)$/y;
const BULLET = /([*+-])(?=[ \t]|$)/y;
const NUMBER = /(\d{1,9})([.)])(?=[ \t]|$)/y;

function beginsBlock(line) {
  return line.text[line.next] === ">" || [RULE, HEADING, FENCE, BULLET].some(pattern => line.matches(pattern));
}

function listMarker(line, inParagraph) {
  if (line.indent > 3) return null;
  const bullet = line.matches(BULLET), number = bullet ? null : line.matches(NUMBER), match = bullet ?? number;
  if (!match) return null;
  const empty = !/\S/.test(line.text.slice(line.next + match[0].length));
  if (inParagraph && (empty || (number && Number(number[1]) !== 1))) return null;
  return { length: match[0].length, empty, ordered: !bullet, start: number ? Number(number[1]) : 0, mark: bullet ? bullet[1] : number[2] };
}

// ---- tables --------------------------------------------------------------------------------------------------------

function cells(row) {
  const found = [];
  let cell = "", text = row.trim();
  for (let i = text[0] === "|" ? 1 : 0; i < text.length; i++)
    if (text[i] === "\\" && text[i + 1] === "|") cell += "|", i++;
    else if (text[i] === "\\" && i + 1 < text.length) cell += text[i] + text[++i];
    else if (text[i] === "|") found.push(cell.trim()), cell = "";
    else cell += text[i];
  if (cell.trim() !== "" || found.length === 0) found.push(cell.trim());
  return found;
}

// Those of a row of delimiters; null if it is none.
function alignments(row) {
  const found = cells(row);
  if (!found.every(cell => /^:?-+:?$/.test(cell))) return null;
  return found.map(cell => (cell.startsWith(":") ? (cell.endsWith(":") ? "center" : "left") : cell.endsWith(":") ? "right" : ""));
}

// ---- the parser ----------------------------------------------------------------------------------------------------

class Parser {
  constructor(references) {
    this.references = references;
    this.document = { type: "document", from: 0, children: [] };
    this.open = [this.document];
    this.number = 0; // of the line
  }
  get tip() { return this.open[this.open.length - 1]; }

  // Ends the open blocks from number `depth` on.
  close(depth) {
    while (this.open.length > depth) {
      const block = this.open.pop(), parent = this.tip; // block is its last child
      if (block.type === "paragraph") {
        block.text = readReferences(block.lines.join("\n"), this.references).trimEnd();
        if (block.text === "") parent.children.pop();
      } else if (block.type === "code") {
        if (!block.fence) while (block.lines.length > 0 && /^[ \t]*$/.test(block.lines.at(-1))) block.lines.pop();
        block.text = block.lines.join("\n");
      }
      delete block.lines;
    }
  }
  add(type, line, fields = {}) {
    while (!containers.has(this.tip.type) || (this.tip.type === "list" && type !== "item")) this.close(this.open.length - 1);
    const block = { type, from: line.from, firstLine: this.number, lastLine: this.number, ...fields };
    if (containers.has(type)) block.children = [];
    this.tip.children.push(block);
    this.open.push(block);
    return block;
  }

  line(text, from) {
    this.number++;
    const line = new Line(text, from);
    let depth = 1;
    for (; depth < this.open.length; depth++) {
      const block = this.open[depth], result = continues[block.type](block, line);
      if (!result) break;
      if (block.type === "quote" || block.fence) this.touch(depth);
      if (result === "eaten") return this.close(depth);
    }
    const lastMatched = this.open[depth - 1];
    const wasParagraph = this.tip.type === "paragraph"; // which this line may continue even if it doesn't match
    const begun = this.begin(line, depth, lastMatched);
    const target = this.tip;

    if (!begun && wasParagraph && !line.blank && depth < this.open.length) {
      target.lines.push(line.text.slice(line.next)); // a lazy continuation
    } else {
      if (!begun) this.close(depth);
      this.put(line, begun);
    }
    if (!line.blank || begun) this.touch(this.open.length - 1);
  }

  // The line belongs to the open blocks down to `depth`, even if nothing of it is left to be their text.
  touch(depth) {
    for (let i = 0; i <= depth; i++) this.open[i].lastLine = this.number;
  }

  // Begins the blocks that the line opens. True if there were any; the open blocks that the line did not continue are
  // closed then.
  begin(line, depth, matched) {
    let begun = false, container = matched;
    const first = () => {
      if (!begun) this.close(depth);
      begun = true;
    };
    if (!containers.has(container.type) && container.type !== "paragraph") return false;
    while (!line.blank && this.open.length < MOST_NESTED) {
      const paragraph = container.type === "paragraph" ? container : null;
      let match, marker;
      if (line.indent >= 4) {
        if (paragraph || (!begun && this.tip.type === "paragraph")) break;
        first();
        line.skip(4);
        this.add("code", line, { lines: [], language: "" });
        return true;
      }
      if (line.text[line.next] === ">") {
        first();
        line.toNext();
        line.advance(1);
        line.skipOneBlank();
        container = this.add("quote", line);
        continue;
      }
      if ((match = line.matches(HEADING))) {
        first();
        const text = line.text.slice(line.next + match[0].length).replace(/(^|[ \t])#+[ \t]*$/, "").trim();
        this.add("heading", line, { level: match[1].length, text });
        return true;
      }
      if ((match = line.matches(FENCE))) {
        first();
        const fence = match[1] ?? match[3], info = (match[2] ?? match[4]).trim();
        this.add("code", line, {
          lines: [], fence: fence[0], fenceLength: fence.length, fenceIndent: line.indent, language: unescape(info.split(/[\s{]/, 1)[0]),
        });
        return true;
      }
      if (paragraph && !begun && (match = line.matches(/(=+|-+)[ \t]*$/y)) && this.underline(paragraph, match[1][0] === "=" ? 1 : 2)) return true;
      if (line.matches(RULE)) {
        first();
        this.add("rule", line);
        return true;
      }
      if (paragraph && !begun && this.table(paragraph, line)) return true;
      if ((marker = listMarker(line, paragraph !== null))) {
        first();
        container = this.beginItem(line, marker);
        continue;
      }
      break;
    }
    return begun;
  }

  beginItem(line, marker) {
    const indent = line.indent;
    line.toNext();
    line.advance(marker.length);
    let blanks = line.indent;
    if (marker.empty || blanks > 4) blanks = 1;
    line.skip(Math.min(blanks, line.indent));
    while (!containers.has(this.tip.type)) this.close(this.open.length - 1);
    if (this.tip.type === "list" && (this.tip.ordered !== marker.ordered || this.tip.mark !== marker.mark)) this.close(this.open.length - 1);
    if (this.tip.type !== "list")
      this.add("list", line, { ordered: marker.ordered, start: marker.start, mark: marker.mark, tight: true });
    return this.add("item", line, { width: indent + marker.length + blanks });
  }

  // The paragraph becomes a heading, unless it only defined references.
  underline(paragraph, level) {
    const text = readReferences(paragraph.lines.join("\n"), this.references).trim();
    if (text === "") {
      paragraph.lines = [];
      return false;
    }
    this.open.pop();
    this.replace({ type: "heading", from: paragraph.from, firstLine: paragraph.firstLine, level, text });
    return true;
  }

  // The last line of the paragraph becomes the header of a table if `line` has as many delimiters.
  table(paragraph, line) {
    const row = paragraph.lines.at(-1), delimiters = line.rest();
    if (!/^[-:| \t]+$/.test(delimiters) || !(row + delimiters).includes("|")) return false;
    const header = cells(row), align = alignments(delimiters);
    if (header.length !== align?.length) return false;
    const table = { type: "table", from: paragraph.from, firstLine: paragraph.firstLine, header, alignments: align, rows: [] };
    paragraph.lines.pop();
    if (paragraph.lines.length === 0) {
      this.open.pop();
      this.replace(table);
    } else {
      this.close(this.open.length - 1);
      this.tip.children.push(table);
      this.open.push(table);
    }
    return true;
  }

  // `other` takes the place of the paragraph that was open last.
  replace(other) {
    this.tip.children.pop();
    this.tip.children.push(other);
    this.open.push(other);
  }

  // What is left of the line, once its blocks are known.
  put(line, begun) {
    const tip = this.tip;
    if (tip.type === "code") {
      if (!(begun && tip.fence)) tip.lines.push(line.rest());
      return;
    }
    if (tip.type === "table") {
      if (!begun) {
        tip.rows.push(cells(line.rest()).slice(0, tip.header.length));
      }
      return;
    }
    if (line.blank || tip.type === "heading" || tip.type === "rule") return;
    if (tip.type === "paragraph") {
      tip.lines.push(line.text.slice(line.next));
      return;
    }
    this.add("paragraph", line, { lines: [line.text.slice(line.next)] });
  }
}

// A list is loose if a blank line lies between two of its items or between two blocks of an item.
function setTight(block) {
  const blankWithin = ({ children }) => children.some((child, i) => i > 0 && child.firstLine > children[i - 1].lastLine + 1);
  if (block.type === "list") block.tight = !blankWithin(block) && !block.children.some(blankWithin);
  for (const child of block.children ?? []) setTight(child);
}

// The document of a text. `references` (a Map: label → {to, title}) gains the link references that the text defines.
export function parseBlocks(text, references = new Map()) {
  const parser = new Parser(references);
  let at = 0;
  while (at < text.length) {
    let end = text.indexOf("\n", at);
    if (end < 0) end = text.length;
    parser.line(text.slice(at, end).replace(/\r$/, "").replaceAll("\0", "\uFFFD"), at);
    at = end + 1;
  }
  parser.close(1);
  setTight(parser.document);
  return parser.document;
}
