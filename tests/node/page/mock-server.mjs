// A server for the page's tests: the files of web/, and the few paths of the API that the page uses, with answers as the
// test scripts them. It says what a model might say, hostile texts included; nothing here is part of the product.
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

export const web = fileURLToPath(new URL("../../../web/", import.meta.url));
const types = { ".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml" };
const policyOf = name => readFileSync(join(web, `${name}.policy`), "utf8").split("\n").filter(line => line && !line.startsWith("#")).join("; ");
const pause = ms => new Promise(resolve => setTimeout(resolve, ms));

function sendFile(response, path) {
  const name = path === "/" ? "index.html" : path === "/attention-frame" ? "attention-frame.html" : normalize(path).slice(1);
  try {
    const data = readFileSync(join(web, name));
    const page = extname(name) === ".html" ? name.slice(0, -5) : null;
    response.writeHead(200, { "Content-Type": types[extname(name)] ?? "text/plain", "Content-Security-Policy": page ? policyOf(page) : "default-src 'none'",
      "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache" });
    response.end(data);
  } catch {
    sendError(response, 404, "not found");
  }
}

function sendError(response, status, message, code = null, headers = {}) {
  response.writeHead(status, { "Content-Type": "application/json", ...headers });
  response.end(JSON.stringify({ error: { message, type: "invalid_request_error", code } }));
}

// server.script: what comes next, or always: {text, reasoning, tokens, delay (ms between pieces), hold (stay open at the
// end), last (a promise that the last piece waits for, or the break in its place), breakAfter or endAfter (pieces), status, code, retryAfter, finish}. server.requests: the bodies that came.
export async function startServer({ port = 0, models = ["demo"], key = "" } = {}) {
  const server = { requests: [], queue: [], script: { text: "Hello!" }, key, gone: [], attention: [] };
  const http = createServer(async (request, response) => {
    const path = new URL(request.url, "http://x").pathname;
    let body = "";
    for await (const part of request) body += part;
    const api = path.startsWith("/v1/") || path === "/props" || path === "/attention";
    if (!api && path !== "/health") return sendFile(response, path);
    if (path === "/health") return response.end('{"status":"ok"}');
    if (server.key && request.headers.authorization !== `Bearer ${server.key}`) return sendError(response, 401, "The key is wrong or missing.", "invalid_api_key");
    response.setHeader("Content-Type", "application/json");
    if (path === "/v1/models") return response.end(JSON.stringify({ object: "list", data: models.map(id => ({ id, object: "model" })) }));
    if (path === "/props") return response.end(JSON.stringify({ default_generation_settings: { n_ctx: 2048, params: { temperature: 0.8, top_k: 40 } }, attention: { max_tokens: 512 } }));
    if (path === "/attention") {
      server.attention.push(JSON.parse(body));
      response.setHeader("Content-Type", "text/html");
      return response.end("<!DOCTYPE html><h1 id=x>Weights</h1><script>document.getElementById('x').textContent += ' shown'; if (origin === 'null') document.getElementById('x').textContent += ' apart';</script>");
    }
    if (path === "/v1/chat/completions") return complete(server, JSON.parse(body), request, response);
    sendError(response, 404, "not found");
  });
  await new Promise((resolve, reject) => http.once("error", reject).listen(port, "127.0.0.1", resolve));
  server.url = `http://127.0.0.1:${http.address().port}/`;
  server.port = http.address().port;
  server.close = () => new Promise(resolve => (http.close(resolve), http.closeAllConnections()));
  return server;
}

async function complete(server, body, request, response) {
  server.requests.push(body);
  const script = server.queue.shift() ?? server.script;
  if (script.status) return sendError(response, script.status, script.message ?? "refused", script.code, script.retryAfter ? { "Retry-After": `${script.retryAfter}` } : {});
  let open = true;
  response.on("close", () => {
    open = response.writableEnded;
    if (!open) server.gone.push(body);
  });
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  const send = (delta, more = {}) => open && response.write(`data: ${JSON.stringify({ object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason: null, ...more }] })}\n\n`);
  send({ role: "assistant", content: "" });
  const pieces = script.pieces ?? (typeof script.text === "function" ? script.text(body) : script.text).match(/\s*\S+\s*$|\s*\S+|\s+/g) ?? [];
  for (const piece of script.reasoning?.match(/\s*\S+/g) ?? []) {
    send({ reasoning_content: piece });
    if (script.delay) await pause(script.delay);
  }
  let n = 0;
  for (const piece of pieces) {
    if (!open) return;
    if (script.endAfter === n) return response.end(); // as a proxy may
    if (n === pieces.length - 1) await script.last; // a promise, if the test has one
    if (script.breakAfter === n++) return response.destroy();
    const rivals = [[piece, -0.4], [" other", -1.5], ["<b>", -2.5]].map(([token, logprob]) => ({ token, logprob, bytes: [...Buffer.from(token)] }));
    send({ content: piece }, body.logprobs ? { logprobs: { content: [{ ...rivals[0], logprob: -0.4 * n % 4, top_logprobs: rivals }] } } : {});
    if (script.delay) await pause(script.delay);
  }
  if (script.hold) return;
  send({}, { finish_reason: script.finish ?? "stop" });
  if (body.stream_options?.include_usage)
    response.write(`data: ${JSON.stringify({ object: "chat.completion.chunk", choices: [], usage: { prompt_tokens: 12 + body.messages.length, completion_tokens: pieces.length, total_tokens: 0 } })}\n\n`);
  response.end("data: [DONE]\n\n");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log((await startServer({ port: 8099 })).url);
