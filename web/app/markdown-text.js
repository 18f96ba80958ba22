// Markdown as plain text, for screen readers: what is to be read, without the signs that say how it looks.

import { parseBlocks } from "./markdown-blocks.js";
import { parseInlines } from "./markdown-inlines.js";

// The text of inlines.
export function inlineText(nodes) {
  let text = "";
  for (const stack = [...nodes].reverse(); stack.length > 0;) {
    const node = stack.pop();
    if (node.children) for (const child of [...node.children].reverse()) stack.push(child);
    else text += node.type === "break" ? "\n" : node.text;
  }
  return text;
}

// A line for each paragraph, heading, item, and row of a table.
export function markdownText(markdown) {
  const references = new Map(), lines = [], inside = text => inlineText(parseInlines(text, references));
  const add = block => {
    if (block.type === "code") lines.push(block.text);
    else if (block.type === "table") for (const row of [block.header, ...block.rows]) lines.push(row.map(inside).join(", "));
    else if (block.children) block.children.forEach(add);
    else if (block.text !== undefined) lines.push(inside(block.text));
  };
  add(parseBlocks(markdown, references));
  return lines.join("\n");
}
