// What the page's tests in a browser share: Chromium, a server that says what a test wants, and a page that is open.
import { execFileSync } from "node:child_process";
import { after } from "node:test";
import { chromium } from "playwright-core";
import { startServer } from "./mock-server.mjs";

const executablePath = execFileSync("sh", ["-c", "command -v chromium"], { encoding: "utf8" }).trim();
// Tests run as root in containers, where Chromium's sandbox cannot; they load nothing but this tree's page.
export const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
after(() => browser.close());

// Opens `url` in a context of its own, in which nothing is stored. t: the test's context.
// problems: what the page threw, and what its policy forbade; outside: requests to anywhere but the server.
export async function openAt(t, url, { preferences = {}, ...contextOptions } = {}) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 760 }, acceptDownloads: true, ...contextOptions });
  const page = await context.newPage(), problems = [], outside = [];
  page.setDefaultTimeout(100_000); // a busy machine is no fault of the page
  page.on("pageerror", error => problems.push(error.message));
  page.on("console", message => message.type() === "error" && !/Failed to load resource/.test(message.text()) && problems.push(message.text()));
  context.on("request", request => !request.url().startsWith(url) && !/^(blob|data):/.test(request.url()) && outside.push(request.url()));
  if (Object.keys(preferences).length > 0)
    await page.addInitScript(wanted => {
      if (window !== top) return;
      for (const [name, value] of Object.entries(wanted)) if (localStorage.getItem(`engine.${name}`) === null) localStorage.setItem(`engine.${name}`, JSON.stringify(value));
    }, preferences);
  t.after(() => context.close());
  await page.goto(url);
  return { page, context, problems, outside };
}

// The same with a server of its own that says `script`.
export async function openPage(t, { server: serverOptions, script, ...options } = {}) {
  const server = await startServer(serverOptions);
  if (script) server.script = script;
  const opened = await openAt(t, server.url, options);
  t.after(() => server.close());
  if (!serverOptions?.key) await ready(opened.page);
  return { ...opened, server };
}

export const ready = page => page.waitForSelector("html[data-ready]");

// Sends a message by keyboard and waits until the answer is complete.
export async function say(page, text) {
  const before = await page.locator("article.assistant").count();
  await page.locator("#text").fill(text);
  await page.locator("#text").press("Enter");
  await page.locator("article.assistant").nth(before).waitFor();
  await answered(page);
}
export const answered = page => page.locator("#send[aria-label=Send]").waitFor();

export const texts = page => page.locator("article .body").allInnerTexts();
