// Says something to screen readers that is not focused: in the live region of index.html.

import { byId } from "./dom.js";
import { markdownText } from "./markdown-text.js";

const MOST_CHARACTERS = 1500; // of an answer that is read out when it is complete

export function announce(text) {
  const region = byId("announcer");
  // The same text twice is said twice only if the region changes.
  region.textContent = region.textContent === text ? `${text}\u00a0` : text;
}

export function announceAnswer(message) {
  const ends = { stopped: "Stopped.", cut: "The answer was cut at its limit.", broken: message.error?.text ?? "The answer broke off." };
  const plain = markdownText(message.content), text = plain.length <= MOST_CHARACTERS ? plain : `${plain.slice(0, MOST_CHARACTERS)} …`;
  announce([ends[message.state] ?? "Answer complete.", message.state === "broken" ? "" : text].join(" "));
}
