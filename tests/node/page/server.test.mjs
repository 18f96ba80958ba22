// The page with the program that serves it, engine-serve, and the demo model: what page.test.mjs takes from a mock.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { request } from "node:http";
import { writeEncoder } from "../api/encoder-model.mjs";
import { serve } from "../api/server.mjs";
import { answered, openAt, ready, say, texts } from "./browser.mjs";

async function start(t, ...options) {
  const server = await serve(...options);
  t.after(() => server.end());
  return server;
}

const get = (url, headers = {}, method = "GET") => new Promise((resolve, reject) =>
  request(url, { headers, method }, async response => {
    const parts = [];
    for await (const part of response) parts.push(part);
    resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(parts) });
  }).on("error", reject).end());

test("its files: types, policy, compression, and nothing sent twice", async t => {
  const { url } = await start(t, "--api-key", "secret"); // the page itself needs no key
  const page = await get(url);
  assert.equal(page.status, 200);
  assert.match(page.headers["content-type"], /^text\/html/);
  assert.match(page.headers["content-security-policy"], /script-src 'self';.*require-trusted-types-for 'script'/);
  assert.equal(page.headers["x-content-type-options"], "nosniff");
  const names = [...page.body.toString().matchAll(/(?:href|src)="([^"#]+)"/g)].map(([, name]) => name);
  assert.ok(names.length > 5);
  for (const name of names) {
    const plain = await get(`${url}/${name}`), packed = await get(`${url}/${name}`, { "Accept-Encoding": "gzip" });
    assert.equal(plain.status, 200, name);
    assert.equal(packed.headers["content-encoding"], "gzip", name);
    assert.deepEqual(gunzipSync(packed.body), plain.body, name);
    assert.equal((await get(`${url}/${name}`, { "If-None-Match": plain.headers.etag })).status, 304, name);
    assert.equal((await get(`${url}/${name}`, {}, "HEAD")).body.length, 0, name);
  }
  assert.match((await get(`${url}/attention-frame`)).headers["content-security-policy"], /^sandbox allow-scripts;/);
  assert.equal((await get(`${url}/v1/models`)).status, 401);
});

test("a chat with the demo model", async t => {
  const server = await start(t);
  const { page, problems, outside } = await openAt(t, `${server.url}/`, { preferences: { tokens: true, settings: { temperature: 0 } } });
  await ready(page);
  await say(page, "What is 27 plus 38?");
  assert.deepEqual(await texts(page), ["What is 27 plus 38?", "27 + 38 = 65."]);
  assert.match(await page.locator("#usage").innerText(), /^\d+ of 512 tokens of context$/);
  await page.getByRole("button", { name: "Token probabilities" }).click();
  assert.equal(await page.locator(".token").allInnerTexts().then(all => all.join("")), "27 + 38 = 65.");
  await page.locator(".token").last().hover();
  assert.match(await page.locator(".token-card").innerText(), /%/);
  // Stopping ends the work on the server, not only the drawing.
  await page.getByRole("button", { name: "New conversation", exact: true }).click();
  await page.locator("#text").fill("Tell me a story about a fox.");
  await page.locator("#text").press("Enter");
  await page.locator("article.assistant .body", { hasText: /Once/ }).waitFor();
  await page.keyboard.press("Escape");
  await answered(page);
  // A context that is full is said plainly.
  await page.getByRole("button", { name: "New conversation", exact: true }).click();
  await say(page, "word ".repeat(700));
  assert.match(await page.locator(".error").innerText(), /no longer fits into the model's context/);
  await page.reload();
  await ready(page);
  assert.equal(await page.locator("#list .open").count(), 3);
  await server.end();
  await say(page, "Still there?");
  await page.locator("#notice", { hasText: "does not answer" }).waitFor();
  assert.deepEqual(problems, []);
  assert.deepEqual(outside, []);
});

test("an answer that was cut is gone on with, as if it had not been", async t => {
  const server = await start(t), { page, problems } = await openAt(t, `${server.url}/`, { preferences: { settings: { temperature: 0, max_tokens: 4 } } });
  await ready(page);
  await say(page, "What is 27 plus 38?");
  assert.match((await texts(page))[1], /^27/);
  assert.notEqual((await texts(page))[1], "27 + 38 = 65.");
  for (let i = 0; i < 9 && (await page.getByRole("button", { name: "Continue" }).count()) > 0; i++) {
    await page.getByRole("button", { name: "Continue" }).click();
    await answered(page);
  }
  assert.equal((await texts(page))[1], "27 + 38 = 65.");
  assert.deepEqual(problems, []);
});

test("attention weights in their frame", async t => {
  const server = await start(t, "--attention-tokens", "100"), { page, problems } = await openAt(t, `${server.url}/`, { preferences: { settings: { temperature: 0 } } });
  await ready(page);
  await say(page, "What is </script> <b> 3 plus 4?");
  await page.getByRole("button", { name: "Attention weights" }).click();
  const frame = page.frameLocator("iframe.attention");
  assert.match(await frame.locator("h1").innerText(), /^Attention of .*: \d+ tokens$/);
  assert.match(await frame.locator("#text").innerText(), /<\/script> <b> 3 plus 4/);
  assert.ok((await frame.locator("#text span").count()) > 4);
  await frame.locator("#layer-more").click();
  assert.ok((await frame.locator("#keys tr").count()) > 0);
  if (process.env.SCREENSHOTS) await page.screenshot({ path: join(process.env.SCREENSHOTS, "attention.png") });
  const [saved] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save as a file" }).click()]);
  assert.match(readFileSync(await saved.path(), "utf8"), /^<!DOCTYPE html>/);
  await page.getByRole("button", { name: "Close", exact: true }).click();
  // What is too long for it is said.
  await say(page, "word ".repeat(200));
  await page.getByRole("button", { name: "Attention weights" }).last().click();
  await page.locator("dialog .error-text", { hasText: "too long" }).waitFor();
  assert.deepEqual(problems.filter(problem => !/400/.test(problem)), []);
});

test("the page lists no encoders", async t => {
  const folder = mkdtempSync(join(tmpdir(), "page-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const server = await start(t, "-m", `encoder=${writeEncoder(folder)}`);
  await fetch(`${server.url}/v1/embeddings`, { method: "POST", body: JSON.stringify({ model: "encoder", input: "tea" }) });
  const { page } = await openAt(t, `${server.url}/`);
  await ready(page);
  assert.deepEqual(await page.locator("#model option").evaluateAll(all => all.map(one => one.value)), ["demo"]);
});

test("a server with a key", async t => {
  const server = await start(t, "--api-key", "secret");
  const { page } = await openAt(t, `${server.url}/`);
  await page.getByLabel("API key").fill("secret");
  await page.keyboard.press("Enter");
  await ready(page);
  await say(page, "What is the opposite of big?");
  assert.match((await texts(page))[1], /small/i);
});
