// Writes an answer into a conversation: asks the server, adds what comes to the message, waits where the server is busy.
// It knows nothing of the page; whoever starts it is told of each change.

import { addMessage, messagesUpTo } from "./conversation.js";
import { answer } from "./server.js";

const MOST_TRIES = 6; // where the server is busy
export const samplingFields = {
  temperature: "temperature", top_p: "top_p", top_k: "top_k", min_p: "min_p", repeat_penalty: "repeat_penalty",
  presence_penalty: "presence_penalty", frequency_penalty: "frequency_penalty", seed: "seed", max_tokens: "max_tokens",
};

function requestBody(conversation, parent, withTokens) {
  const body = { messages: messagesUpTo(conversation, parent) };
  if (conversation.model) body.model = conversation.model;
  for (const [setting, field] of Object.entries(samplingFields))
    if (Number.isFinite(conversation.settings[setting])) body[field] = conversation.settings[setting];
  if (withTokens) Object.assign(body, { logprobs: true, top_logprobs: 5 });
  return body;
}

function pause(seconds, signal, tick) {
  return new Promise((resolve, reject) => {
    let left = Math.ceil(seconds);
    const timer = setInterval(() => {
      if (signal.aborted || --left <= 0) {
        clearInterval(timer);
        if (signal.aborted) reject(signal.reason);
        else resolve();
      } else tick(left);
    }, 1000);
    tick(left);
    signal.addEventListener("abort", () => (clearInterval(timer), reject(signal.reason)), { once: true });
  });
}

// An answer being written. `message` is in the conversation from the beginning.
export class Generation {
  // changed(): the message has grown or its state is another; also called while waiting
  constructor(conversation, parent, { withTokens, changed }) {
    this.conversation = conversation;
    this.changed = changed;
    this.withTokens = withTokens;
    this.controller = new AbortController();
    this.waiting = 0; // seconds until the next try
    this.message = addMessage(conversation, parent, "assistant", "", { state: "writing", model: conversation.model });
    this.done = this.run();
  }
  stop() { this.controller.abort(new DOMException("stopped", "AbortError")); }

  async run() {
    const { message, controller } = this;
    const body = requestBody(this.conversation, message.parent, this.withTokens);
    for (let tries = 1; ; tries++)
      try {
        await this.read(body);
        break;
      } catch (error) {
        if (controller.signal.aborted) message.state = "stopped";
        else if (error.kind === "busy" && message.content === "" && !message.reasoning && tries < MOST_TRIES) {
          try {
            await pause(error.wait, controller.signal, left => {
              this.waiting = left;
              this.changed();
            });
            this.waiting = 0;
            continue;
          } catch {
            message.state = "stopped";
          }
        } else {
          message.state = "broken";
          message.error = { kind: error.kind ?? "page", text: error.message };
        }
        break;
      }
    this.waiting = 0;
    this.conversation.updated = Date.now();
    this.changed();
    return message;
  }

  async read(body) {
    const { message } = this, asked = performance.now();
    let first = 0, last = 0;
    for await (const part of answer(body, this.controller.signal)) {
      if (part.content) message.content += part.content;
      if (part.reasoning) message.reasoning = (message.reasoning ?? "") + part.reasoning;
      if (part.tokens) (message.tokens ??= []).push(...part.tokens);
      if (part.finish) message.state = part.finish === "length" ? "cut" : "complete";
      if (part.content || part.reasoning) {
        last = performance.now();
        first ||= last;
        message.timing = { first: first - asked, writing: last - first };
      }
      if (part.usage) message.usage = { prompt: part.usage.prompt_tokens, cached: part.usage.prompt_tokens_details?.cached_tokens, answer: part.usage.completion_tokens };
      this.changed();
    }
    if (message.state === "writing") message.state = "complete";
  }
}
