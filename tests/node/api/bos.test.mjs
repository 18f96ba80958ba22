// bos.test.mjs: prompts that bring their own BOS: the text of a template that is sent again, and what /apply-template gives.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { serve } from './server.mjs';

let folder, server;
before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'engine-bos-'));
    writeFileSync(join(folder, 'template.jinja'), '{{ bos_token }}{{ messages[0].content }}');
    server = await serve('--chat-template', join(folder, 'template.jinja'));
});
after(async () => {
    assert.equal(await server.end(), 0);
    rmSync(folder, { recursive: true });
});

const post = async (path, body) => {
    const answer = await fetch(server.url + path, { method: 'POST', body: JSON.stringify(body) });
    assert.equal(answer.status, 200);
    return answer.json();
};
const tokens = async (prompt) => (await post('/v1/completions', { prompt, max_tokens: 1, temperature: 0 })).usage.prompt_tokens;

test('a prompt with BOS gets one', async () => {
    assert.equal(await tokens('<s>Hi'), 3);
    assert.equal(await tokens('<s>'), 1);
    assert.equal(await tokens([1, 1, 2522, 2497]), 4);
    assert.match(server.log(), /the prompt begins with BOS/);
});

test('/tokenize gives one, unless it adds none', async () => {
    assert.deepEqual((await post('/tokenize', { content: '<s>Hi', add_special: true })).tokens, [1, 2522, 2497]);
    assert.deepEqual((await post('/tokenize', { content: '<s>Hi' })).tokens, [1, 2522, 2497]);
    assert.deepEqual((await post('/tokenize', { content: '<s><s>Hi' })).tokens, [1, 1, 2522, 2497]);
});

test('/apply-template leaves out the BOS that /v1/completions adds', async () => {
    const { prompt, tokens: n } = await post('/apply-template', { messages: [{ role: 'user', content: 'Hi' }] });
    assert.equal(prompt, 'Hi');
    assert.equal(n, (await post('/v1/chat/completions', { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 1 })).usage.prompt_tokens);
});
