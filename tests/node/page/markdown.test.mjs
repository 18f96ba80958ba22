// The Markdown of the page: CommonMark's own examples, tables and the like, and hostile texts, which must not take long
// or nest deep. No browser is needed.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";
import { parseBlocks } from "../../../web/app/markdown-blocks.js";
import { shownCode, shownText } from "../../../web/app/bidi.js";
import { parseInlines } from "../../../web/app/markdown-inlines.js";
import { markdownText } from "../../../web/app/markdown-text.js";

const escape = text => text.replace(/[&<>"]/g, c => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const address = to => escape(encodeURI(to).replace(/%25([0-9A-Fa-f]{2})/g, "%$1"));

// The HTML that CommonMark expects, to compare with; the page itself makes none.
function inlinesToHtml(nodes) {
  const plain = nodes => nodes.map(n => n.text ?? plain(n.children ?? [])).join("");
  return nodes.map(n => {
    const title = n.title ? ` title="${escape(n.title)}"` : "";
    switch (n.type) {
      case "text": return escape(n.text);
      case "code": return `<code>${escape(n.text)}</code>`;
      case "math": return `<math>${escape(n.text)}</math>`;
      case "break": return "<br />\n";
      case "emphasis": return `<em>${inlinesToHtml(n.children)}</em>`;
      case "strong": return `<strong>${inlinesToHtml(n.children)}</strong>`;
      case "struck": return `<del>${inlinesToHtml(n.children)}</del>`;
      case "underlined": case "marked": case "sub": case "sup": case "kbd": return `<${n.type}>${inlinesToHtml(n.children)}</${n.type}>`;
      case "link": return `<a href="${address(n.to)}"${title}>${inlinesToHtml(n.children)}</a>`;
      case "image": return `<img src="${address(n.to)}" alt="${escape(plain(n.children))}"${title} />`;
    }
    throw new Error(n.type);
  }).join("");
}
function toHtml(block, references, tight = false) {
  const inside = text => inlinesToHtml(parseInlines(text, references));
  const children = (tight = false) => block.children.map(child => toHtml(child, references, tight)).join("");
  switch (block.type) {
    case "document": return children();
    case "quote": return `<blockquote>\n${children()}</blockquote>\n`;
    case "list": {
      const tag = block.ordered ? "ol" : "ul", start = block.ordered && block.start !== 1 ? ` start="${block.start}"` : "";
      return `<${tag}${start}>\n${block.children.map(item => toHtml(item, references, block.tight)).join("")}</${tag}>\n`;
    }
    case "item": return `<li>${children(tight)}</li>\n`;
    case "paragraph": return tight ? inside(block.text) : `<p>${inside(block.text)}</p>\n`;
    case "heading": return `<h${block.level}>${inside(block.text)}</h${block.level}>\n`;
    case "code": return `<pre><code${block.language ? ` class="language-${escape(block.language)}"` : ""}>${escape(block.text)}${block.text ? "\n" : ""}</code></pre>\n`;
    case "rule": return "<hr />\n";
    case "table": return `<table>${[block.header, ...block.rows].map(row => `<tr>${row.map((cell, i) => `<td ${block.alignments[i]}>${inside(cell)}</td>`).join("")}</tr>`).join("")}</table>`;
  }
  throw new Error(block.type);
}
const html = text => {
  const references = new Map();
  return toHtml(parseBlocks(text, references), references);
};

// Where the page differs on purpose: HTML stays text; common entities only; addresses are links without <>; \[ \] is
// TeX; 317: a definition between blocks leaves no blank line.
const sections = new Set(["HTML blocks", "Raw HTML", "Entity and numeric character references", "Tabs"]);
const examples = new Set([12, 21, 201, 308, 309, 317, 344, 475, 476, 477, 491, 494, 524, 536, 602, 608, 611, 642, 643]);

const joined = html => html.replace(/>\s*\n\s*/g, ">").replace(/\s*\n\s*</g, "<");

test("CommonMark's examples", t => {
  let spec;
  try {
    spec = createRequire(import.meta.url)("commonmark-spec");
  } catch {
    return t.skip("commonmark-spec is not installed: npm ci --prefix tests/node");
  }
  for (const { markdown, html: expected, number, section } of spec.tests)
    if (!sections.has(section) && !examples.has(number))
      assert.equal(joined(html(markdown.replaceAll("→", "\t"))), joined(expected.replaceAll("→", "\t")), `example ${number}`);
});

for (const [name, text, expected] of [
  ["a table", "| a | b |\n| :-- | --: |\n| 1 | `x\\|y` |\n| 2 |", "<table><tr><td left>a</td><td right>b</td></tr><tr><td left>1</td><td right><code>x|y</code></td></tr><tr><td left>2</td></tr></table>"],
  ["a table ends a paragraph", "x\na|b\n-|-", "<p>x</p><table><tr><td >a</td><td >b</td></tr></table>"],
  ["no table without as many cells", "a|b\n-|-|-", "<p>a|b\n-|-|-</p>"],
  ["struck text", "~~a~~ ~b~ ~~~c", "<p><del>a</del> <del>b</del> ~~~c</p>"],
  ["bare addresses", "see https://a.b/c_d_(e), or (http://f).", '<p>see <a href="https://a.b/c_d_(e)">https://a.b/c_d_(e)</a>, or (<a href="http://f">http://f</a>).</p>'],
  ["TeX", "\\(a_1 * b_1 * c\\) and $$x < y$$ and $5", "<p><math>a_1 * b_1 * c</math> and <math>x &lt; y</math> and $5</p>"],
  ["TeX over lines", "\\[\na_b_c\n\\]", "<p><math>a_b_c</math></p>"],
  ["HTML is text", "<script>alert(1)</script>\n\n<b onclick=x>*y*</b>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p><p>&lt;b onclick=x&gt;<em>y</em>&lt;/b&gt;</p>"],
  ["a few tags have a meaning", "H<sub>2</sub>O x<SUP>*n*</SUP> a<br>b<br />c <kbd>Q</kbd> <b>d</b> <u>e</u> <mark>f</mark>",
    "<p>H<sub>2</sub>O x<sup><em>n</em></sup> a<br />b<br />c <kbd>Q</kbd> <strong>d</strong> <underlined>e</underlined> <marked>f</marked></p>"],
  ["tags in tables", "|a|\n|-|\n|x<br>y<sub>1</sub>|", "<table><tr><td >a</td></tr><tr><td >x<br />y<sub>1</sub></td></tr></table>"],
  ["tags that don't match are text", "<sub>a</sup> <sub><sup>b</sub> </b> <sub", "<p>&lt;sub&gt;a&lt;/sup&gt; <sub>&lt;sup&gt;b</sub> &lt;/b&gt; &lt;sub</p>"],
  ["other tags, and all with attributes, are text", "<sub id=x>a</sub> <iframe> <style>b</style> <br onload=x>", "<p>&lt;sub id=x&gt;a&lt;/sub&gt; &lt;iframe&gt; &lt;style&gt;b&lt;/style&gt; &lt;br onload=x&gt;</p>"],
  ["tags, emphasis and links lie within each other", "*a <sub>b* c</sub> [d <sup>e](http://f) g</sup> <u>[h</u>](http://i)",
    '<p>*a <sub>b* c</sub> <a href="http://f">d &lt;sup&gt;e</a> g&lt;/sup&gt; <underlined>[h</underlined>](<a href="http://i">http://i</a>)</p>'],
  ["no tags in code", "`a<br>b<sub>c</sub>`", "<p><code>a&lt;br&gt;b&lt;sub&gt;c&lt;/sub&gt;</code></p>"],
  ["an open fence, as it streams in", "a\n```py\nprint(", '<p>a</p><pre><code class="language-py">print(</code></pre>'],
])
  test(name, () => assert.equal(joined(html(text)), expected));

// The page's time for a text depends on its length, not on its contents. The bound is far above that,
// and far below what a search that begins anew at each character takes.
const size = 60_000, times = part => part.repeat(Math.ceil(size / part.length));
const hostile = {
  brackets: times("["), closed: times("[") + times("]"), images: times("![[]("), links: times("[a]("), titled: times('[a](b "'),
  stars: times("*"), emphasis: times("*a_ "), alternating: times("a**b"), balanced: times("*") + "a" + times("*"), struck: times("~~a~ "),
  backticks: Array.from({ length: 600 }, (_, i) => "e" + "`".repeat(i)).join(""), quotes: times("> "), bullets: times("- "),
  steps: Array.from({ length: 600 }, (_, i) => "  ".repeat(i) + "* a").join("\n"), cells: times("|a") + "\n" + times("|-") + "\n" + times("|b"),
  rows: times("|a") + "\n" + times("|-") + "\n" + times("b\n"),
  delimiters: "a|b\n" + times("- "), blanks: "a|b\n-" + times(" ") + "x", entities: times("&#"), less: times("<"), mail: times("<a@"),
  addresses: times("http://"), dots: "http://a" + times(".") + "b", hashes: "# a" + times(" #") + "x", fences: times("```\n"), dollars: times("$$a$"),
  tex: times("\\(a\\["), references: times("[a]: b\n"), labels: "[a]: b\n\n" + times("[a"), lines: times("a\n"), spaces: times(" ") + "x" + times(" ") + "\ny",
  open: times("<sub>"), shut: times("</sub>"), crossed: times("<sub><sup>") + times("</sub>"), within: times("<sub>") + times("</sub>"),
  pairs: times("<u>*[a</u>"), breaks: times("<br>"),
  tabs: times("\t"), returns: times("\r"), underline: times("a\n-\n"),
};
const depth = (nodes, level = 0) => (level > 60 ? level : Math.max(level, ...(nodes ?? []).map(node => depth(node.children, level + 1))));
for (const [name, text] of Object.entries(hostile))
  test(`hostile: ${name}`, { timeout: 100_000 }, () => {
    const references = new Map(), document = parseBlocks(text, references);
    assert.ok(depth(document.children) <= 60);
    const each = block => {
      for (const part of [block.text, ...(block.header ?? []), ...(block.rows ?? []).flat()])
        if (typeof part === "string" && block.type !== "code") parseInlines(part, references);
      block.children?.forEach(each);
    };
    each(document);
  });

test("plain text, to be read out", () => {
  assert.equal(markdownText("# Title\n\nSome **bold** `code`, [a link](https://x.example) and H<sub>2</sub>O<br>next.\n\n- one\n- *two*\n\n```py\nx = 1\n```\n\n|a|b|\n|-|-|\n|1|~~2~~|\n\n> quoted"),
    "Title\nSome bold code, a link and H2O\nnext.\none\ntwo\nx = 1\n\na, b\n1, 2\nquoted".replace("x = 1\n\na", "x = 1\na"));
});

test("characters that turn text round are shown", () => {
  assert.equal(shownText("a\u202ecba\u202d \u2067\u05d0\u2069\u200f"), "a[U+202E]cba[U+202D] \u2067\u05d0\u2069\u200f");
  assert.equal(shownCode("if (\u2066x\u2069\u200e)"), "if ([U+2066]x[U+2069][U+200E])");
});

// Elements, as far as markdown-view.js needs them.
class Node {
  childNodes = [];
  append(...nodes) { this.childNodes.push(...nodes); }
  replaceChildren() { this.childNodes = []; }
  setAttribute() {}
  addEventListener() {}
}
test("more parts than a call can take", async () => {
  globalThis.matchMedia = () => ({ matches: false });
  globalThis.document = { createElement: () => new Node(), createElementNS: () => new Node() };
  const { MarkdownView } = await import("../../../web/app/markdown-view.js"), many = 200_000;
  const shown = text => {
    const target = new Node();
    new MarkdownView(target).finish(text);
    return target.childNodes;
  };
  assert.equal(shown("a\n\n".repeat(many)).length, many);
  assert.equal(shown("`a`b".repeat(many))[0].childNodes.length, 2 * many);
  assert.equal(shown("- a\n".repeat(many))[0].childNodes.length, many);
  assert.equal(shown(`![${"`a`b".repeat(many)}](https://x.example)`)[0].childNodes.length, 1);
});
