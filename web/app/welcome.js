// What an empty conversation shows: a greeting and things to try.

import { element } from "./dom.js";

const examples = [
  ["Get acquainted", "Hello! Who are you, and what can you do?"],
  ["Tell a story", "Tell me a story about a fox."],
  ["Do some arithmetic", "What is 27 plus 38?"],
  ["Find a word", "What is the opposite of big?"],
];

export function welcome(use) {
  return element("div", { class: "welcome" },
    element("h2", {}, "What would you like to know?"),
    element("p", {}, "A language model on this server answers. It can be wrong: check what matters."),
    element("ul", { class: "examples" }, ...examples.map(([name, text]) =>
      element("li", {}, element("button", { type: "button", onclick: () => use(text) }, element("strong", {}, name), element("span", {}, text))))));
}
