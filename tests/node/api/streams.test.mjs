// streams.test.mjs: the official clients of OpenAI and Anthropic with streams that wait: they get the head at once, skip the
// pings, and see what they see without them.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { serve, template } from './server.mjs';

let server;

before(async () => (server = await serve('--chat-template', template('hermes'), '--parallel', '1', '--ping-interval', '1')));
after(async () => assert.equal(await server.end(), 0));

// Keeps the model busy, with far more texts than it gets to write, until the function that it returns is called.
const occupy = async () => {
    const leave = new AbortController();
    const body = { model: 'demo', prompt: Array(8).fill('Once'), n: 128, max_tokens: 400, ignore_eos: true, stream: true };
    const answer = await fetch(server.url + '/v1/completions', {
        method: 'POST', body: JSON.stringify(body), signal: leave.signal,
    });
    assert.equal(answer.status, 200);
    await answer.body.getReader().read();
    return () => leave.abort();
};

// As fetch, and resolves `pinged` once a ping is on its way to the client.
const watched = (ping) => {
    let saw;
    const pinged = new Promise((resolve) => (saw = resolve));
    const fetchIt = async (...args) => {
        const answer = await fetch(...args);
        let text = '';
        const watch = new TransformStream({
            transform(bytes, controller) {
                text += Buffer.from(bytes).toString('latin1');
                if (text.includes(ping)) saw();
                controller.enqueue(bytes);
            },
        });
        return new Response(answer.body.pipeThrough(watch), { status: answer.status, headers: answer.headers });
    };
    return { fetchIt, pinged };
};

// The events of a stream that `begin` asks a client for, once while it has to wait for pings.
const whileBusy = async (Client, baseURL, ping, begin) => {
    const { fetchIt, pinged } = watched(ping);
    const client = new Client({ baseURL, apiKey: 'none', maxRetries: 0, fetch: fetchIt });
    const leave = await occupy();
    const stream = await begin(client); // the head has come
    const events = (async () => {
        const all = [];
        for await (const event of stream) all.push(event);
        return all;
    })();
    await pinged;
    leave();
    return events;
};

const messages = [{ role: 'user', content: 'What is 27 plus 38?' }];
const openai = (begin) => whileBusy(OpenAI, server.url + '/v1', ': ping\n\n', begin);

test('chat', async () => {
    const events = await openai((client) =>
        client.chat.completions.create({ model: 'demo', messages, temperature: 0, stream: true }));
    assert.match(events.map((event) => event.choices[0].delta.content ?? '').join(''), /65/);
    assert.deepEqual(events[0].choices[0].delta, { role: 'assistant', content: '' });
});

test('completions', async () => {
    const events = await openai((client) =>
        client.completions.create({ model: 'demo', prompt: 'Once upon a', temperature: 0, max_tokens: 5, stream: true }));
    assert.match(events.map((event) => event.choices[0].text).join(''), /time/);
});

test('responses', async () => {
    const events = await openai((client) =>
        client.responses.create({ model: 'demo', input: messages[0].content, temperature: 0, stream: true }));
    assert.equal(events[0].type, 'response.created');
    assert.match(events.at(-1).response.output_text ?? events.at(-1).response.output[0].content[0].text, /65/);
});

test('messages', async () => {
    const events = await whileBusy(Anthropic, server.url, 'event: ping\n', (client) =>
        client.messages.create({ model: 'demo', max_tokens: 40, temperature: 0, messages, stream: true }));
    assert.equal(events[0].type, 'message_start');
    assert.match(events.map((event) => event.delta?.text ?? '').join(''), /65/);
    assert.equal(events.at(-1).type, 'message_stop');
});

test('requests that take longer than --timeout end with an error', async () => {
    const limited = await serve('--chat-template', template('hermes'), '--parallel', '6', '-c', '100000', '--timeout', '1');
    const ask = async (path, body) => {
        const answer = await fetch(limited.url + path, {
            method: 'POST', body: JSON.stringify({ model: 'demo', ignore_eos: true, max_tokens: 90000, ...body }),
        });
        const last = (await answer.text()).trimEnd().split('\n').at(-1).replace('data: ', '');
        assert.match(last, /^{/, path);
        return { status: answer.status, last: JSON.parse(last) };
    };
    const [completions, chat, anthropic, responses, whole, wholeAnthropic] = await Promise.all([
        ask('/v1/completions', { prompt: 'Once', stream: true }), ask('/v1/chat/completions', { messages, stream: true }),
        ask('/v1/messages', { messages, stream: true }), ask('/v1/responses', { input: 'x', stream: true }),
        ask('/v1/chat/completions', { messages }), ask('/v1/messages', { messages })]);
    for (const { status, last } of [completions, chat]) assert.deepEqual([status, last.error.type], [200, 'server_error'], JSON.stringify(last));
    assert.match(chat.last.error.message, /--timeout/);
    assert.deepEqual([anthropic.status, anthropic.last.type, anthropic.last.error.type], [200, 'error', 'timeout_error']);
    assert.deepEqual([responses.status, responses.last.type, responses.last.response.error.code], [200, 'response.failed', 'server_error']);
    assert.deepEqual([whole.status, whole.last.error.type], [504, 'server_error']);
    assert.deepEqual([wholeAnthropic.status, wholeAnthropic.last.error.type], [504, 'timeout_error']);
    assert.equal(await limited.end(), 0);
});
