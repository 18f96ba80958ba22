// Link destinations, titles and labels of CommonMark, where blocks and inlines both need them. Each reader takes a text
// and an offset, and returns {value, end}, or null if there is no such thing there.

const ESCAPED = /\\([!-/:-@[-`{-~])/g;
const entities = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©", reg: "®", trade: "™", hellip: "…",
  ndash: "–", mdash: "—", lsquo: "‘", rsquo: "’", ldquo: "“", rdquo: "”", bull: "•", middot: "·", times: "×", minus: "−",
  plusmn: "±", deg: "°", larr: "←", rarr: "→", uarr: "↑", darr: "↓", harr: "↔", le: "≤", ge: "≥", ne: "≠", infin: "∞",
  euro: "€", pound: "£", sect: "§", laquo: "«", raquo: "»", auml: "ä", ouml: "ö", uuml: "ü", Auml: "Ä", Ouml: "Ö", Uuml: "Ü",
  szlig: "ß", eacute: "é", egrave: "è", agrave: "à", ccedil: "ç" };

// The character that an entity stands for at `at`: the numbered ones, and names that texts have often.
export function readEntity(text, at) {
  const match = /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([A-Za-z]{2,8}));/y;
  match.lastIndex = at;
  const found = match.exec(text);
  if (!found) return null;
  if (found[3]) return Object.hasOwn(entities, found[3]) ? { value: entities[found[3]], end: match.lastIndex } : null;
  const code = found[1] ? parseInt(found[1], 10) : parseInt(found[2], 16);
  const valid = code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
  return { value: valid ? String.fromCodePoint(code) : "\uFFFD", end: match.lastIndex };
}

export function unescape(text) {
  return text.replace(ESCAPED, "$1").replace(/&[^;&\s]{1,9};/g, entity => readEntity(entity, 0)?.value ?? entity);
}

const MOST_PARENTHESES = 32;

export function readDestination(text, at) {
  if (text[at] === "<") {
    for (let i = at + 1; i < text.length; i++)
      if (text[i] === ">") return { value: unescape(text.slice(at + 1, i)), end: i + 1 };
      else if (text[i] === "<" || text[i] === "\n") return null;
      else if (text[i] === "\\") i++;
    return null;
  }
  let nested = 0, i = at;
  for (; i < text.length; i++) {
    const c = text[i];
    if (c === "\\" && /[!-/:-@[-`{-~]/.test(text[i + 1] ?? "")) i++;
    else if (c === "(") {
      if (++nested > MOST_PARENTHESES) return null;
    } else if (c === ")") {
      if (nested-- === 0) break;
    } else if (c <= " " || c === "\x7f") break;
  }
  if (nested > 0) return null;
  return { value: unescape(text.slice(at, i)), end: i };
}

export function readTitle(text, at) {
  const closing = { '"': '"', "'": "'", "(": ")" }[text[at]];
  if (!closing) return null;
  for (let i = at + 1; i < text.length; i++)
    if (text[i] === closing) return { value: unescape(text.slice(at + 1, i)), end: i + 1 };
    else if (text[i] === "(" && closing === ")") return null;
    else if (text[i] === "\\") i++;
    else if (text[i] === "\n" && /[ \t]*\n/y.test(text.slice(i + 1, i + 200))) return null;
  return null;
}

const MOST_IN_LABEL = 999;

// [label], without its brackets.
export function readLabel(text, at) {
  if (text[at] !== "[") return null;
  for (let i = at + 1; i < text.length && i - at <= MOST_IN_LABEL + 1; i++)
    if (text[i] === "]") {
      const label = text.slice(at + 1, i);
      return /\S/.test(label) ? { value: label, end: i + 1 } : null;
    } else if (text[i] === "[") return null;
    else if (text[i] === "\\") i++;
  return null;
}

export const sameLabel = label => label.trim().replace(/\s+/g, " ").toLowerCase().toUpperCase();

// Blanks with at most one line end.
export function skipBlanks(text, at) {
  let ends = 0;
  while (at < text.length && (text[at] === " " || text[at] === "\t" || (text[at] === "\n" && ends++ === 0))) at++;
  return at;
}

const lineEnd = (text, at) => {
  while (text[at] === " " || text[at] === "\t") at++;
  return at >= text.length ? at : text[at] === "\n" ? at + 1 : -1;
};

function readReference(text, at) {
  const label = readLabel(text, at);
  if (!label || text[label.end] !== ":") return null;
  const start = skipBlanks(text, label.end + 1), to = readDestination(text, start);
  if (!to || to.end === start) return null;
  const plainEnd = lineEnd(text, to.end), titleAt = skipBlanks(text, to.end);
  if (titleAt > to.end) {
    const title = readTitle(text, titleAt), end = title ? lineEnd(text, title.end) : -1;
    if (end >= 0) return { label: sameLabel(label.value), to: to.value, title: title.value, end };
  }
  return plainEnd < 0 ? null : { label: sameLabel(label.value), to: to.value, title: "", end: plainEnd };
}

// Takes the definitions from the beginning of a paragraph; the first of a label counts. Returns the rest.
export function readReferences(text, references) {
  let at = 0;
  for (let found; text[at] === "[" && (found = readReference(text, at)); at = found.end)
    if (!references.has(found.label)) references.set(found.label, { to: found.to, title: found.title });
  return text.slice(at);
}
