// An answer token by token: the paler a token's mark, the surer the model was. Pointing at a token, or moving to it with
// the arrow keys, shows its probability and what else might have stood there.

import { shownCode } from "./bidi.js";
import { element } from "./dom.js";

const visible = text => (text === "" ? "∅" : shownCode(text).replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/\r/g, "␍"));
const percent = logprob => {
  const share = 100 * Math.exp(logprob);
  return share >= 99.95 && share < 100 ? "> 99.9 %" : share >= 0.1 || share === 0 ? `${share.toFixed(1)} %` : "< 0.1 %";
};

// What fills the card: the token, and those that could have come instead, with bars.
function cardContent(token) {
  const all = token.rivals.some(rival => rival.text === token.text) ? token.rivals : [token, ...token.rivals];
  const rows = [...all].sort((a, b) => b.logprob - a.logprob).slice(0, 6).map(one => {
    const bar = element("span", { class: "bar-fill" });
    bar.style.width = `${Math.max(1, 100 * Math.exp(one.logprob))}%`;
    return element("tr", { class: one.text === token.text ? "chosen" : null },
      element("td", { class: "token-text" }, visible(one.text)), element("td", { class: "number" }, percent(one.logprob)), element("td", { class: "bar-cell" }, bar));
  });
  return element("table", {}, ...rows);
}

function spoken(token) {
  const rivals = token.rivals.filter(rival => rival.text !== token.text).slice(0, 3).map(rival => `${visible(rival.text)} ${percent(rival.logprob)}`);
  return `${visible(token.text)} ${percent(token.logprob)}${rivals.length > 0 ? `; instead: ${rivals.join(", ")}` : ""}`;
}

// 0 (certain) to 5 (surprising).
const level = logprob => Math.min(5, Math.floor(-logprob / 0.55));

export function tokensView(tokens) {
  const card = element("div", { class: "token-card", hidden: true, "aria-hidden": "true" });
  const text = element("div", { class: "token-list", role: "listbox", "aria-label": "Tokens and their probabilities", tabindex: "0" },
    ...tokens.map((token, i) => element("span", { class: `token level-${level(token.logprob)}`, role: "option", "data-number": i, "aria-label": spoken(token) },
      shownCode(token.text).replace(/\n/g, "⏎\n") || "∅")));
  const spans = text.children;
  let current = -1;

  function show(number) {
    spans[current]?.removeAttribute("aria-selected");
    current = number;
    const span = spans[number];
    card.hidden = !span;
    if (!span) return text.removeAttribute("aria-activedescendant");
    span.id ||= `token-${Math.random().toString(36).slice(2)}`;
    span.setAttribute("aria-selected", "true");
    text.setAttribute("aria-activedescendant", span.id);
    card.replaceChildren(cardContent(tokens[number]));
    const frame = view.getBoundingClientRect(), box = span.getClientRects()[0] ?? span.getBoundingClientRect();
    card.style.left = `${Math.max(0, Math.min(box.left - frame.left, frame.width - card.offsetWidth))}px`;
    card.style.top = `${box.bottom - frame.top + 4}px`;
  }
  const numberOf = event => (event.target.dataset?.number === undefined ? -1 : Number(event.target.dataset.number));
  text.addEventListener("mouseover", event => numberOf(event) >= 0 && show(numberOf(event)));
  text.addEventListener("mouseleave", () => show(-1));
  text.addEventListener("click", event => show(numberOf(event)));
  text.addEventListener("focus", () => current < 0 && text.matches(":focus-visible") && show(0));
  text.addEventListener("blur", () => show(-1));
  text.addEventListener("keydown", event => {
    const to = { ArrowRight: current + 1, ArrowLeft: current - 1, Home: 0, End: tokens.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    show(Math.max(0, Math.min(tokens.length - 1, to)));
    spans[current].scrollIntoView({ block: "nearest" });
  });
  const view = element("div", { class: "tokens" }, text, card,
    element("p", { class: "note" }, "Point at a token to see how likely it was, and what else might have come. Arrow keys move from token to token."));
  return view;
}
