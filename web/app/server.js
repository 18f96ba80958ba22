// The server that this page came from: its models, its settings, answers. All the page's requests are made here, and all
// that can go wrong with them becomes a ServerError.

import { readEvents } from "./events.js";
import { serverKey } from "./preferences.js";

// kind: "gone" (no answer), "key" (401, 403), "busy" (429, 503; `wait` in seconds), "context" (the messages do not fit),
// "model" (404), "refused" (anything else that the server said), "broken" (an answer that ended too early).
export class ServerError extends Error {
  constructor(kind, message, wait = null) {
    super(message);
    this.kind = kind;
    this.wait = wait;
  }
}

function secondsToWait(response) {
  const text = response.headers.get("Retry-After") ?? "", seconds = Number(text);
  if (text !== "" && Number.isFinite(seconds)) return Math.min(300, Math.max(1, seconds));
  return 5;
}

// The kind of what OpenAI's error object says.
function errorOf(error, status, wait) {
  const message = typeof error?.message === "string" && error.message !== "" ? error.message.slice(0, 2000) : `The server answered ${status}.`;
  const code = `${error?.code ?? ""}`;
  if (status === 401 || status === 403) return new ServerError("key", message);
  if (status === 429 || status === 503) return new ServerError("busy", message, wait);
  if (code === "context_length_exceeded" || error?.type === "exceed_context_size_error") return new ServerError("context", message);
  if (status === 404 && code === "model_not_found") return new ServerError("model", message);
  return new ServerError("refused", message);
}

// `path` is relative, so that the page also works behind a proxy that gives it a folder.
async function request(path, { body, signal } = {}) {
  const headers = { Accept: "application/json" }, key = serverKey();
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal,
      credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer", redirect: "error" });
  } catch (error) {
    if (signal?.aborted) throw error;
    if (error instanceof TypeError && /header|ByteString/i.test(error.message))
      throw new ServerError("key", "The key has characters that no key can have.");
    throw new ServerError("gone", "The server does not answer.");
  }
  if (response.ok) return response;
  const text = await response.text().catch(() => "");
  let error = null;
  try {
    error = JSON.parse(text).error;
  } catch { /* not the server's, or a proxy's */ }
  throw errorOf(error, response.status, secondsToWait(response));
}

async function json(path, options) {
  const response = await request(path, options);
  try {
    return await response.json();
  } catch {
    throw new ServerError("refused", "The server's answer is not JSON.");
  }
}

// The names of the models that write texts, the default first. Of a model that is not loaded yet nothing is known.
export async function listModels() {
  const { data } = await json("v1/models");
  return Array.isArray(data) ? data.filter(model => !model?.meta?.is_encoder).map(model => model?.id).filter(id => typeof id === "string" && id !== "") : [];
}

// What the page can use of /props: {context (tokens, 0: unknown), defaults (sampling), attention (most tokens, 0: none)}.
export async function properties(model) {
  const props = await json(`props${model ? `?model=${encodeURIComponent(model)}` : ""}`);
  const settings = props?.default_generation_settings ?? {};
  const number = value => (Number.isFinite(value) && value > 0 ? value : 0);
  return { context: number(settings.n_ctx ?? props?.n_ctx), defaults: settings.params ?? {}, attention: number(props?.attention?.max_tokens) };
}

export async function isThere() {
  try {
    await request("health");
    return true;
  } catch (error) {
    return error.kind !== "gone";
  }
}

// The page of attention weights for messages, as HTML.
export async function attentionPage(model, messages) {
  const response = await request("attention", { body: { model: model || undefined, messages } });
  return response.text();
}

// Asks for an answer. Yields as they come: {content}, {reasoning}, {tokens: [{text, logprob, rivals: [{text, logprob}]}]},
// {finish}, {usage}. Ends after the last; throws ServerError, or what aborting `signal` throws.
export async function* answer(body, signal) {
  const response = await request("v1/chat/completions", {
    body: { ...body, stream: true, stream_options: { include_usage: true } }, signal,
  });
  let finished = false;
  try {
    for await (const data of readEvents(response.body)) {
      if (data === "[DONE]") return;
      let chunk;
      try {
        chunk = JSON.parse(data);
      } catch {
        throw new ServerError("refused", "The server sent something that is not JSON.");
      }
      if (chunk.error) throw errorOf(chunk.error, chunk.error.status ?? 500, 5);
      const choice = chunk.choices?.[0];
      if (choice?.delta?.reasoning_content) yield { reasoning: `${choice.delta.reasoning_content}` };
      if (choice?.delta?.content) yield { content: `${choice.delta.content}` };
      if (Array.isArray(choice?.logprobs?.content)) yield { tokens: choice.logprobs.content.map(token) };
      if (choice?.finish_reason) {
        finished = true;
        yield { finish: choice.finish_reason };
      }
      if (chunk.usage) yield { usage: chunk.usage };
    }
  } catch (error) {
    if (signal.aborted || error instanceof ServerError) throw error;
    throw new ServerError("broken", "The server went away before the answer was complete.");
  }
  if (!finished) throw new ServerError("broken", "The answer broke off.");
}

function token(one) {
  const slim = ({ token: text, logprob }) => ({ text: `${text ?? ""}`, logprob: Number.isFinite(logprob) ? Math.round(logprob * 1e4) / 1e4 : -Infinity });
  return { ...slim(one), rivals: Array.isArray(one.top_logprobs) ? one.top_logprobs.slice(0, 5).map(slim) : [] };
}
