// Colours for code: comments, strings, numbers, keywords. It reads a text once, knows no grammar, and is wrong now and
// then; it is enough to see the shape of a program, and it cannot be made slow.

const words = text => new Set(text.split(" "));
const c = { line: ["//"], block: [["/*", "*/"]], quotes: "\"'" };
const cWords = "auto break case char const continue default do double else enum extern float for goto if inline int long return short signed sizeof static struct switch typedef union unsigned void volatile while bool true false NULL size_t";
const javaScript = { ...c, quotes: "\"'`", words: words("as async await break case catch class const continue debugger default delete do else export extends finally for from function get if import in instanceof let new null of return set static super switch this throw true false try typeof undefined var void while with yield interface type enum implements namespace declare readonly public private protected string number boolean any never unknown") };
const shell = { line: ["#"], quotes: "\"'", words: words("if then else elif fi for while until do done case esac in function return local export set unset echo cd exit read source sudo true false") };
const languages = {
  c: { ...c, words: words(cWords) },
  cpp: { ...c, words: words(`${cWords} class namespace template typename public private protected virtual override final new delete this try catch throw using nullptr constexpr noexcept operator friend explicit mutable auto decltype concept requires co_await co_return std string vector`) },
  java: { ...c, words: words("abstract assert boolean break byte case catch char class const continue default do double else enum extends final finally float for if implements import instanceof int interface long native new null package private protected public record return short static super switch synchronized this throw throws transient true false try var void volatile while") },
  csharp: { ...c, words: words("abstract as async await base bool break case catch char class const continue decimal default delegate do double else enum event false finally float for foreach get if in int interface internal is lock long namespace new null object out override params private protected public readonly record ref return sealed set short static string struct switch this throw true try typeof using var virtual void while yield") },
  javascript: javaScript,
  go: { ...c, quotes: "\"'`", words: words("break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var nil true false string int int64 byte error bool float64 make len append") },
  rust: { ...c, quotes: '"', words: words("as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while i32 i64 u8 u32 u64 usize f32 f64 bool str String Vec Option Result Some None Ok Err") },
  kotlin: { ...c, words: words("as break by class companion continue data do else enum false for fun if import in interface internal is lateinit null object open override package private protected public return sealed super suspend this throw true try val var when while") },
  swift: { ...c, words: words("as break case catch class continue default defer do else enum extension false for func guard if import in init inout internal is let nil open override private protocol public return self static struct super switch throw throws true try var where while") },
  php: { ...c, line: ["//", "#"], words: words("abstract array as break case catch class const continue default do echo else elseif extends final finally fn for foreach function if implements interface isset match namespace new null private protected public return static switch this throw trait true false try use var while") },
  python: { line: ["#"], long: ['"""', "'''"], quotes: "\"'", words: words("and as assert async await break class continue def del elif else except False finally for from global if import in is lambda match case None nonlocal not or pass raise return self True try while with yield print len range int str float list dict set tuple") },
  ruby: { line: ["#"], quotes: "\"'", words: words("alias and begin break case class def do else elsif end ensure false for if in module next nil not or puts redo rescue require retry return self super then true unless until when while yield attr_accessor") },
  lua: { block: [["--[[", "]]"]], line: ["--"], quotes: "\"'", words: words("and break do else elseif end false for function goto if in local nil not or repeat return then true until while") },
  sql: { line: ["--"], block: [["/*", "*/"]], quotes: "'\"", any: true, words: words("add all alter and as asc avg begin between by case check column commit constraint count create cross database default delete desc distinct drop else end exists foreign from full group having if in index inner insert into is join key left like limit max min not null offset on or order outer primary references right rollback select set sum table then transaction union unique update values view when where with integer text varchar int boolean date timestamp") },
  shell,
  json: { quotes: '"', words: words("true false null") },
  yaml: { line: ["#"], quotes: "\"'", words: words("true false null yes no on off") },
  css: { block: [["/*", "*/"]], quotes: "\"'", words: words("important inherit initial none auto flex grid block inline absolute relative fixed sticky solid var calc media import supports keyframes") },
  markup: { block: [["<!--", "-->"]], quotes: '"', words: new Set(), tags: true },
};
const aliases = { "c++": "cpp", cc: "cpp", h: "c", hpp: "cpp", "objective-c": "c", cuda: "cpp", glsl: "c", cs: "csharp", "c#": "csharp", js: "javascript", jsx: "javascript",
  mjs: "javascript", ts: "javascript", tsx: "javascript", typescript: "javascript", node: "javascript", golang: "go", rs: "rust", kt: "kotlin",
  py: "python", python3: "python", rb: "ruby", sh: "shell", bash: "shell", zsh: "shell", console: "shell", dockerfile: "shell", make: "shell",
  makefile: "shell", cmake: "shell", ini: "yaml", toml: "yaml", yml: "yaml", jsonc: "json", json5: "json", html: "markup", xml: "markup", svg: "markup", vue: "markup", scss: "css", less: "css", postgresql: "sql", mysql: "sql", sqlite: "sql", scala: "kotlin", dart: "java", r: "python", julia: "python", perl: "ruby", patch: "diff" };

const WORD = /[\p{L}_$@][\p{L}\p{N}_]*/yu;
const NUMBER = /(?:0[xX][\da-fA-F_]+|0[bB][01_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)[a-zA-Z%]{0,3}/y;
const TAG = /<\/?[A-Za-z][\w:-]*|\/?>/y;

// [kind, text] for all of the code; kinds: "comment", "string", "number", "keyword", "added", "removed", "" (none).
export function highlight(code, name) {
  const key = name.toLowerCase(), known = Object.hasOwn(aliases, key) ? aliases[key] : key;
  if (known === "diff") return diff(code);
  if (!Object.hasOwn(languages, known)) return [["", code]];
  const language = languages[known];
  const parts = [];
  let at = 0, plain = 0;
  const put = (kind, end) => {
    if (plain < at) parts.push(["", code.slice(plain, at)]);
    parts.push([kind, code.slice(at, end)]);
    at = plain = end;
  };
  const through = (closing, from) => {
    const end = code.indexOf(closing, from);
    return end < 0 ? code.length : end + closing.length;
  };
  const match = pattern => {
    pattern.lastIndex = at;
    return pattern.exec(code)?.[0];
  };
  while (at < code.length) {
    const block = language.block?.find(([opening]) => code.startsWith(opening, at));
    const long = language.long?.find(quote => code.startsWith(quote, at));
    let found;
    if (block) put("comment", through(block[1], at + block[0].length));
    else if (language.line?.some(mark => code.startsWith(mark, at)) && !(code[at] === "#" && /[\w$]/.test(code[at - 1] ?? ""))) {
      const end = code.indexOf("\n", at);
      put("comment", end < 0 ? code.length : end);
    } else if (long) put("string", through(long, at + 3));
    else if (language.quotes.includes(code[at])) put("string", quoted(code, at));
    else if (language.tags && (found = match(TAG))) put("keyword", at + found.length);
    else if ((found = match(WORD))) {
      if (language.words.has(language.any ? found.toLowerCase() : found)) put("keyword", at + found.length);
      else at += found.length;
    } else if ((found = match(NUMBER))) put("number", at + found.length);
    else at++;
  }
  if (plain < code.length) parts.push(["", code.slice(plain)]);
  return parts;
}

// The end of the string that begins at `at`: one line, unless it is in backquotes.
function quoted(code, at) {
  const quote = code[at];
  let end = at + 1;
  while (end < code.length && code[end] !== quote && (code[end] !== "\n" || quote === "`")) end += code[end] === "\\" ? 2 : 1;
  return Math.min(code.length, code[end] === quote ? end + 1 : end);
}

function diff(code) {
  const kinds = { "+": "added", "-": "removed", "@": "comment" };
  return code.split(/(?<=\n)/).map(line => [Object.hasOwn(kinds, line[0]) ? kinds[line[0]] : "", line]);
}
