// odd.test.mjs: requests as clients write them that are legal but unusual: null for what is not set, defaults spelled out,
// parts instead of texts, fields on which nothing depends. Each is answered.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeModel } from './changed-model.mjs';
import { serve, template } from './server.mjs';

let server;
before(async () => (server = await serve('--chat-template', template('hermes'))));
after(async () => assert.equal(await server.end(), 0));

const messages = [{ role: 'user', content: 'What is 3 plus 4?' }];
const nothing = (names) => Object.fromEntries(names.split(' ').map((name) => [name, null]));
const bare = { type: 'function', function: { name: 'weather', description: null, parameters: null, strict: null } };
const called = { role: 'assistant', content: null, tool_calls: [{ id: 'a', type: 'function', index: 0, function: { name: 'weather', arguments: '{}' } }] };

const chats = [
    nothing('temperature top_p n stop stream stream_options max_tokens tools tool_choice response_format logit_bias user seed logprobs ' +
        'top_logprobs functions function_call audio prediction reasoning_effort parallel_tool_calls store metadata service_tier modalities'),
    { messages: [{ role: 'developer', content: 'x' }, { role: 'user', content: [{ type: 'text', text: 'a' }, { type: 'text', text: 'b' }], name: 'bob' }] },
    { messages: [{ role: 'system', content: [{ type: 'text', text: 's', cache_control: { type: 'ephemeral' } }] }, ...messages] },
    { messages: [...messages, { role: 'assistant', content: '7', refusal: null, annotations: [], audio: null, function_call: null, tool_calls: null }, ...messages] },
    { messages: [called, { role: 'tool', tool_call_id: 'a', name: 'weather', content: [{ type: 'text', text: 'sun' }] }, ...messages], tools: [bare] },
    { messages: [...messages, { role: 'assistant', content: '7', tool_calls: [] }, { role: 'user', content: '' }] },
    { messages: [...messages, { role: 'assistant', content: [{ type: 'text', text: '7', role: 'assistant', refusal: null }] }, ...messages] },
    { max_completion_tokens: 4, max_tokens: 4 },
    { tools: [], tool_choice: 'auto', parallel_tool_calls: true }, { tools: [bare], tool_choice: 'none' }, { tools: [bare] },
    { tools: [{ type: 'function', function: { name: 'w', strict: true, parameters: { type: 'object', properties: {}, additionalProperties: false,
        $schema: 'http://json-schema.org/draft-07/schema#' } } }] },
    { response_format: { type: 'text' }, stop: [], logit_bias: {}, modalities: ['text'], verbosity: 'medium', n: 1, top_logprobs: 0 },
    { user: 'u', metadata: { a: 'b' }, store: false, service_tier: 'auto', safety_identifier: 's', prompt_cache_key: 'k' },
    { n: 2, temperature: 0, top_k: -1, frequency_penalty: 0, presence_penalty: 0, logprobs: false },
];
const completions = [
    { prompt: 'a', ...nothing('logprobs echo suffix best_of n stop stream user') }, { prompt: [1, 2, 3], logprobs: 2, echo: true },
    { prompt: ['a', 'b'], n: 2, logprobs: 0 }, { prompt: [[1], [2]], suffix: '' }, { prompt: '', best_of: 1 },
];
const responses = [
    { input: 'a', store: false, truncation: null, metadata: {}, text: { format: { type: 'text' }, verbosity: 'medium' }, reasoning: null,
        include: [], tools: [], tool_choice: 'auto', parallel_tool_calls: true, top_logprobs: 0, background: false, service_tier: 'auto' },
    { input: 'a', include: ['reasoning.encrypted_content'], reasoning: { effort: null, summary: 'auto' } },
    { input: [{ role: 'user', content: 'a' }], ...nothing('instructions previous_response_id conversation max_tool_calls user') },
    { input: [{ type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'a' }] }, { role: 'user', content: 'b' }] },
];
const anthropic = [
    { system: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }], metadata: { user_id: 'x' }, stop_sequences: [], tools: [] },
    { thinking: { type: 'disabled' }, service_tier: 'auto', ...nothing('container mcp_servers top_k') },
    { tools: [{ name: 'w', input_schema: { type: 'object' }, type: 'custom', cache_control: null }], tool_choice: { type: 'auto' } },
    { tools: [{ name: 'w', input_schema: { type: 'object' }, eager_input_streaming: true }], thinking: { type: 'adaptive' } },
];

const good = async (path, body, written = JSON.stringify(body)) => {
    const answer = await fetch(server.url + path, { method: 'POST', body: written }), text = await answer.text();
    assert.equal(answer.status, 200, `${written}: ${text}`);
    return text;
};

test('integers beyond 64 bits are numbers like others', async () => {
    const limits = { type: 'integer', minimum: -1, maximum: '18446744073709551615', default: '9223372036854775808' };
    const tool = { ...bare, function: { name: 'weather', parameters: { type: 'object', properties: { n: limits } } } };
    const body = { messages, tools: [tool], seed: '18446744073709551615', max_tokens: 2, response_format: null };
    await good('/v1/chat/completions', body, JSON.stringify(body).replace(/"(\d{19,})"/g, '$1'));
    const answer = await fetch(server.url + '/v1/chat/completions', { method: 'POST', body: '{"seed": 1e400}' });
    assert.equal(answer.status, 400);
    assert.match((await answer.json()).error.message, /a number above 1\.8e308, the largest double near '1e400'/);
});

test('chat', async () => {
    for (const body of chats) {
        const limit = 'max_tokens' in body ? {} : { max_tokens: 4 };
        assert.ok(JSON.parse(await good('/v1/chat/completions', { messages, ...limit, ...body })).choices.length);
        assert.match(await good('/v1/chat/completions', { messages, ...limit, ...body, stream: true }), /data: \[DONE\]\n\n$/);
    }
});

test('completions', async () => {
    for (const body of completions) {
        assert.ok(JSON.parse(await good('/v1/completions', { max_tokens: 3, ...body })).choices.length);
        assert.match(await good('/v1/completions', { max_tokens: 3, ...body, stream: true }), /data: \[DONE\]\n\n$/);
    }
});

test('responses and messages', async () => {
    for (const body of responses) assert.ok(JSON.parse(await good('/v1/responses', { max_output_tokens: 4, ...body })).output);
    for (const body of anthropic) assert.ok(JSON.parse(await good('/v1/messages', { messages, max_tokens: 4, ...body })).content);
});

test('embeddings', async () => {
    const plain = JSON.parse(await good('/v1/embeddings', { input: 'tea', ...nothing('encoding_format dimensions user') }));
    const packed = JSON.parse(await good('/v1/embeddings', { input: ['tea'], encoding_format: 'base64', model: 'demo' }));
    const bytes = Buffer.from(packed.data[0].embedding, 'base64');
    assert.deepEqual([...new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)].map((x) => x.toPrecision(5)),
        plain.data[0].embedding.map((x) => x.toPrecision(5)));
});

// A call without a text, and a tool without a description, where the template takes both for granted.
test('what templates expect', async (t) => {
    for (const name of ['mistral-v7', 'gpt-oss']) {
        const other = await serve('--chat-template', template(name, 'templates'));
        t.after(() => other.end());
        const body = { messages: [...messages, { ...called, tool_calls: [{ ...called.tool_calls[0], id: 'abcdefghi' }] },
            { role: 'tool', tool_call_id: 'abcdefghi', content: 'sun' }], tools: [{ type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: {} } } }],
            max_tokens: 2 };
        const answer = await fetch(other.url + '/v1/chat/completions', { method: 'POST', body: JSON.stringify(body) });
        assert.equal(answer.status, 200, `${name}: ${await answer.text()}`);
        assert.equal(await other.end(), 0);
    }
});

test('a model may recommend how to sample, and /props says so', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'engine-odd-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const recommended = { 'general.sampling.temp': 0.25, 'general.sampling.top_k': 7 };
    const other = await serve('-m', 'own=' + writeModel(join(folder, 'own.gguf'), recommended));
    t.after(() => other.end());
    const params = async () => (await (await fetch(other.url + '/props?model=own')).json()).default_generation_settings.params;
    const before = await params(); // nothing is known of it
    assert.deepEqual([before.temperature, before.top_k], [0.8, 40]);
    const answer = await fetch(other.url + '/v1/responses', {
        method: 'POST', headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ model: 'own', input: 'x', max_output_tokens: 1 }),
    });
    assert.equal((await answer.json()).temperature, 0.25);
    const after = await params();
    assert.deepEqual([after.temperature, after.top_k, after.xtc_threshold], [0.25, 7, 0.1]);
    assert.equal(await other.end(), 0);
});
