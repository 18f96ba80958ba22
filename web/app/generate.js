// Writes an answer into a conversation, or goes on with one: asks the server, adds what comes to the message, waits where
// the server is busy. It knows nothing of the page; whoever starts it is told of each change.

import { addMessage, messagesUpTo } from "./conversation.js";
import { answer } from "./server.js";

const MOST_TRIES = 6; // where the server is busy
export const samplingFields = {
  temperature: "temperature", top_p: "top_p", top_k: "top_k", min_p: "min_p", repeat_penalty: "repeat_penalty",
  presence_penalty: "presence_penalty", frequency_penalty: "frequency_penalty", seed: "seed", max_tokens: "max_tokens",
};

// How many versions of an answer there were before it.
function earlierAnswers(conversation, message) {
  const versions = Object.values(conversation.messages).filter(({ parent }) => parent === message.parent);
  return versions.indexOf(message); // in the order in which they were made
}

// For the answer `message`; or, if `goesOn`, for the rest of it. Another answer to the same message has another seed.
function requestBody(conversation, message, goesOn, withTokens) {
  const body = { messages: messagesUpTo(conversation, goesOn ? message.id : message.parent) };
  if (goesOn) body.continue_final_message = true;
  if (conversation.model) body.model = conversation.model;
  for (const [setting, field] of Object.entries(samplingFields))
    if (Number.isFinite(conversation.settings[setting])) body[field] = conversation.settings[setting];
  if (body.seed !== undefined) body.seed = (body.seed + earlierAnswers(conversation, message)) % 2 ** 32;
  if (withTokens) Object.assign(body, { logprobs: true, top_logprobs: 5 });
  return body;
}

// What the whole answer has taken: its beginning, of `before` tokens (null: unknown), was the end of the prompt.
function usageOf({ prompt_tokens: prompt, prompt_tokens_details: details, completion_tokens: answer }, before) {
  const cached = details?.cached_tokens;
  return before === null ? { prompt: prompt + answer, cached, answer: null } : { prompt: prompt - before, cached, answer: answer + before };
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
  // begun: an answer to go on with, otherwise null; changed(): the message has grown or its state is another; also called
  // while waiting
  constructor(conversation, parent, begun, { withTokens, changed }) {
    this.conversation = conversation;
    this.changed = changed;
    this.withTokens = withTokens;
    this.controller = new AbortController();
    this.waiting = 0; // seconds until the next try
    this.goesOn = Boolean(begun);
    this.message = begun ?? addMessage(conversation, parent, "assistant", "", {});
    this.tokensBefore = begun ? (begun.usage?.answer ?? null) : 0; // tokens that were there, null: nobody has said how many
    Object.assign(this.message, { state: "writing", model: conversation.model });
    delete this.message.error;
    delete this.message.usage;
    // The list of tokens is of the whole answer or is none.
    if (begun) this.withTokens &&= begun.tokens?.length > 0;
    if (begun && !this.withTokens) delete begun.tokens;
    this.done = this.run();
  }
  stop() { this.controller.abort(new DOMException("stopped", "AbortError")); }

  async run() {
    const { message, controller, goesOn } = this, before = message.content;
    const body = requestBody(this.conversation, message, goesOn, this.withTokens);
    for (let tries = 1; ; tries++)
      try {
        await this.read(body);
        break;
      } catch (error) {
        if (controller.signal.aborted) message.state = "stopped";
        else if (error.kind === "busy" && message.content === before && (goesOn || !message.reasoning) && tries < MOST_TRIES) {
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
    const { message } = this, { timing } = message, asked = performance.now();
    let first = 0, last = 0;
    for await (const part of answer(body, this.controller.signal)) {
      if (part.content) message.content += part.content;
      if (part.reasoning) message.reasoning = (message.reasoning ?? "") + part.reasoning;
      if (part.tokens) (message.tokens ??= []).push(...part.tokens);
      if (part.finish) message.state = part.finish === "length" ? "cut" : "complete";
      if (part.content || part.reasoning) {
        message.pieces = (message.pieces ?? 0) + 1;
        last = performance.now();
        first ||= last;
        message.timing = { first: timing?.first ?? first - asked, writing: (timing?.writing ?? 0) + last - first };
      }
      if (part.usage) message.usage = usageOf(part.usage, this.tokensBefore);
      this.changed();
    }
    if (message.state === "writing") message.state = "complete";
  }
}
