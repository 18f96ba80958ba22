// attention.test.mjs: POST /attention, beside `engine attention` on the same tokens.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { model, serve } from './server.mjs';

let server, folder;
before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'engine-attention-'));
    server = await serve('--attention-tokens', '60');
});
after(async () => {
    assert.equal(await server.end(), 0);
    rmSync(folder, { recursive: true });
});

const post = (body, path = '/attention') => fetch(server.url + path, { method: 'POST', body: JSON.stringify(body) });
const messages = [{ role: 'user', content: 'What is 3 plus 4?' }];

// A NumPy file of ids.
function npy(ids) {
    const head = `{'descr': '<i4', 'fortran_order': False, 'shape': (${ids.length},), }`.padEnd(117) + '\n';
    const magic = Buffer.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, head.length, 0]);
    return Buffer.concat([magic, Buffer.from(head), Buffer.from(new Int32Array(ids).buffer)]);
}

test('JSON as engine attention --json prints it', async () => {
    const json = await (await post({ messages, format: 'json' })).json();
    const engine = join(dirname(process.env.ENGINE_SERVE), 'engine');
    const file = join(folder, 'ids.npy');
    writeFileSync(file, npy(json.tokens.map((token) => token.id)));
    const printed = JSON.parse(execFileSync(engine, ['attention', '-m', model, '--tokens-file', file, '--json',
        '--layer', 'all', '--head', 'all', '--threads', '2'], { stdio: ['ignore', 'pipe', 'pipe'] }));
    assert.deepEqual(json.tokens, printed.tokens);
    assert.equal(json.token, printed.token);
    assert.equal(json.attention.length, printed.attention.length);
    for (const [i, head] of json.attention.entries()) {
        assert.equal(head.layer, printed.attention[i].layer);
        assert.equal(head.head, printed.attention[i].head);
        const sum = head.keys.reduce((all, key) => all + key.weight, 0);
        assert.ok(Math.abs(sum - 1) < 1e-4, `${sum}`);
        const theirs = new Map(printed.attention[i].keys.map((key) => [key.token, key.weight]));
        for (const key of head.keys) assert.ok(Math.abs(key.weight - theirs.get(key.token)) < 1e-5);
    }
    const first = await (await post({ messages, format: 'json', token: 0 })).json();
    assert.ok(first.attention.every((head) => head.keys.length === 1 && Math.abs(head.keys[0].weight - 1) < 1e-6));
});

test('a page, which ends with the last message', async () => {
    const answer = await post({ model: 'demo', messages: [...messages, { role: 'assistant', content: 'It is 7.' }] });
    assert.match(answer.headers.get('content-type'), /^text\/html/);
    const page = await answer.text();
    assert.match(page, /^<!DOCTYPE html>/);
    const list = await (await post({ messages: [...messages, { role: 'assistant', content: 'It is 7.' }], format: 'json' })).json();
    assert.match(list.tokens.map((token) => token.text).join(''), /It is 7\.(?!.*ssistant)/s);
});

test('what it takes is in /props, and more is refused', async () => {
    const props = await (await fetch(server.url + '/props')).json();
    assert.equal(props.attention.max_tokens, 60);
    const wrong = [
        [{ messages: [{ role: 'user', content: 'word '.repeat(80) }] }, 'messages', 'context_length_exceeded'],
        [{ messages, format: 'png' }, 'format'], [{ messages, token: 0 }, 'token'], [{ messages, format: 'json', token: 1000 }, 'token'],
        [{}, 'messages'],
    ];
    for (const [body, param, code] of wrong) {
        const answer = await post(body), { error } = await answer.json();
        assert.equal(answer.status, 400, JSON.stringify(body));
        assert.equal(error.param, param, error.message);
        if (code) assert.equal(error.code, code);
    }
    assert.equal((await post({ messages, format: 'json', foo: 1 })).status, 200);
});

test('one at a time, and chat goes on meanwhile', async () => {
    const several = await Promise.all([1, 2, 3, 4].map(async () => (await post({ messages })).status));
    assert.ok(several.every((status) => status === 200 || status === 429) && several.includes(200), several);
    const [chat, weights] = await Promise.all([post({ messages, max_tokens: 20 }, '/v1/chat/completions'), post({ messages })]);
    assert.equal(chat.status, 200);
    assert.equal(weights.status, 200);
});

test('none if it is turned off', async (t) => {
    const other = await serve('--attention-tokens', '0');
    t.after(() => other.end());
    assert.equal((await (await fetch(other.url + '/props')).json()).attention, undefined);
    const answer = await fetch(other.url + '/attention', { method: 'POST', body: JSON.stringify({ messages }) });
    assert.equal(answer.status, 400);
});
