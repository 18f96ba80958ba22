// hostile-grammars.test.mjs: grammars that take long to read hold up nobody else, and neither the end of the server.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { serve } from './server.mjs';

let server;
before(async () => (server = await serve()));
after(async () => assert.equal(await server.end(), 0));

// What the text means is as large as the square of its length.
const names = (target) => Object.fromEntries([...Array(400).keys()].map((i) => [`a${i}`, { $ref: `#/$defs/${target}` }]));
const schema = { not: { properties: names('b') }, $defs: { b: { properties: names('c') }, c: { properties: names('d') }, d: { type: 'string' } } };
const post = (path, body, signal) => fetch(server.url + path, { method: 'POST', body: JSON.stringify(body), signal });

test('other requests are answered meanwhile', async () => {
    const hostile = [...Array(6)].map(() => post('/v1/completions', { prompt: 'a', max_tokens: 1, json_schema: schema }));
    for (const path of ['/health', '/v1/models', '/props']) assert.equal((await fetch(server.url + path)).status, 200);
    const text = await post('/v1/completions', { prompt: 'Once upon a time', max_tokens: 4 });
    assert.equal(text.status, 200);
    for (const answer of await Promise.all(hostile)) {
        assert.equal(answer.status, 400);
        const { error } = await answer.json();
        assert.equal(error.param, 'json_schema');
        assert.match(error.message, /too large once its parts are put together|steps to read/);
    }
});

test('a client that goes away takes its grammar with it', async () => {
    const controller = new AbortController();
    const gone = [...Array(6)].map(() => post('/v1/completions', { prompt: 'a', json_schema: schema }, controller.signal).catch(() => null));
    await fetch(server.url + '/health');
    controller.abort();
    await Promise.all(gone);
    const answer = await post('/v1/completions', { prompt: 'a', max_tokens: 3, json_schema: { const: 5 } });
    assert.equal((await answer.json()).choices[0].text, '5');
});

// The grammars that are still to be read when `after` ends the server are not read first.
test('the server ends', async () => {
    for (let i = 0; i < 6; i++) post('/v1/completions', { prompt: 'a', json_schema: schema }).catch(() => null);
    await fetch(server.url + '/health');
});
