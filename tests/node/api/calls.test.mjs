// calls.test.mjs: tool calls in the forms of the families, as they are written, whole and cut, with OpenAI's client. A grammar
// makes the demo model write them; its tokenizer has no ▁, so it can't write DeepSeek's (test-reply has those).
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { writeModel } from './changed-model.mjs';
import { serve, template } from './server.mjs';

const folder = mkdtempSync(join(tmpdir(), 'engine-calls-'));
const given = '{"city": "Oslo, \\"centre\\"", "days": 3}';
const forms = {
    'qwen2.5': ['<tool_call>\n{"name": "weather", "arguments": ', '}\n</tool_call>'],
    llama3: ['{"name": "weather", "parameters": ', '}'],
    'mistral-v3-tools': ['[TOOL_CALLS] [{"name": "weather", "arguments": ', '}]'],
    'mistral-v7': ['[TOOL_CALLS][{"name": "weather", "arguments": ', '}]'],
    'gpt-oss': ['<|channel|>commentary to=functions.weather <|constrain|>json<|message|>', '<|call|>'],
};
const parameters = { type: 'object', properties: { city: { type: 'string' }, days: { type: 'integer' } }, required: ['city'], additionalProperties: false };
const grammar = (text) => 'root ::= ' + JSON.stringify(text);
// Bytes of the mark that begins a call. Llama 3 has none: what is cut before the arguments is the reply's text.
const opening = (before) => (/^(<tool_call>|\[TOOL_CALLS\]|<\|channel\|>)/.exec(before) ?? [before])[0].length;

async function collect(stream) {
    const items = [];
    for await (const item of stream) items.push(item);
    return items;
}

let server, client;

// One server for all forms: each is a model's template.
before(async () => {
    const models = ['hermes', ...Object.keys(forms)].map((name) => {
        const source = readFileSync(template(name, ['hermes', 'llama3'].includes(name) ? 'server' : 'templates'));
        return '--model=' + name + '=' + writeModel(join(folder, name + '.gguf'), { 'tokenizer.chat_template': source });
    });
    server = await serve('--parallel', '16', ...models);
    client = new OpenAI({ baseURL: server.url + '/v1', apiKey: 'none', maxRetries: 0 });
});
after(async () => {
    assert.equal(await server.end(), 0);
    rmSync(folder, { recursive: true });
});

// Every length from 1 on at which a text of `n` tokens may be cut, several at once; where each takes long, some of them and the
// last two.
const step = Number(process.env.ENGINE_TEST_STEP ?? 1);
async function cuts(n, work) {
    const lengths = Array.from({ length: n }, (_, i) => i + 1).filter((length) => length % step === 0 || length >= n - 1);
    const results = [];
    for (let from = 0; from < lengths.length; from += 16) results.push(...await Promise.all(lengths.slice(from, from + 16).map(work)));
    return results;
}

for (const [name, [before_, after_]] of Object.entries(forms)) {
    test(`a call as it is written: ${name}`, async () => {
        // The most likely tokens, so that the text is cut at the same places each time.
        const ask = { model: name, messages: [{ role: 'user', content: 'Weather?' }], grammar: grammar(before_ + given + after_), temperature: 0,
            tools: [{ type: 'function', function: { name: 'weather', description: 'It.', parameters } }] };
        const { choices: [whole], usage: { completion_tokens: n_tokens } } = await client.chat.completions.create(ask);
        assert.equal(whole.finish_reason, 'tool_calls');
        assert.equal(whole.message.content, null);
        assert.deepEqual(whole.message.tool_calls.map((c) => c.function), [{ name: 'weather', arguments: given }]);
        const chunks = await collect(await client.chat.completions.create({ ...ask, stream: true }));
        const calls = chunks.flatMap((c) => c.choices[0].delta.tool_calls ?? []);
        assert.ok(calls.length > 4, `${calls.length} pieces`);
        assert.equal(calls.map((c) => c.function.arguments).join(''), given);
        assert.deepEqual(calls.map((c) => [c.index, c.function.name, c.type]).slice(0, 2), [[0, 'weather', 'function'], [0, undefined, undefined]]);
        assert.equal(calls.filter((c) => c.id).length, 1);
        assert.equal(chunks.at(-1).choices[0].finish_reason, 'tool_calls');
        // Cut anywhere, it is a part of a call, never its marks, unless they are cut themselves: those are content.
        const ends = await cuts(n_tokens + 1, async (max_tokens) => {
            const { message, finish_reason } = (await client.chat.completions.create({ ...ask, max_tokens })).choices[0];
            const content = message.content ?? '', got = message.tool_calls?.[0].function.arguments;
            assert.ok(before_.startsWith(content) && (content.length < opening(before_) || !content), `${max_tokens}: ${content}`);
            assert.ok(given.startsWith(got ?? ''), `${max_tokens}: ${got}`);
            if (max_tokens % (4 * step) === 0) {
                const cut = await collect(await client.chat.completions.create({ ...ask, max_tokens, stream: true }));
                assert.equal(cut.map((c) => c.choices[0].delta.content ?? '').join(''), content);
                assert.equal(cut.flatMap((c) => c.choices[0].delta.tool_calls ?? []).map((c) => c.function.arguments).join(''), got ?? '');
                assert.equal(cut.at(-1).choices[0].finish_reason, finish_reason);
            }
            return { got, finish_reason, max_tokens };
        });
        const n_whole = ends.find((end) => end.finish_reason === 'tool_calls').max_tokens;
        assert.ok(n_whole >= n_tokens, `${n_whole} of ${n_tokens}`);
        assert.ok(ends.every((end) => end.finish_reason === (end.max_tokens < n_whole ? 'length' : 'tool_calls')));
        const lengths = ends.filter((end) => end.got !== undefined).map((end) => end.got.length);
        if (step === 1) assert.equal(lengths[0], 0);
        assert.ok(lengths.some((n) => n > 0 && n < given.length), `${lengths}`);
        assert.equal(lengths.at(-1), given.length);
    });
}

// The most likely tokens, as above.
const written = { temperature: 0, grammar: grammar(forms['qwen2.5'][0] + given + forms['qwen2.5'][1]) };

test('Responses: deltas, and a call that is cut', async () => {
    const ask = { model: 'hermes', input: 'Weather?', tools: [{ type: 'function', name: 'weather', strict: false, parameters }], ...written };
    const events = await collect(await client.responses.create({ ...ask, stream: true }));
    const deltas = events.filter((e) => e.type === 'response.function_call_arguments.delta');
    assert.ok(deltas.length > 4);
    assert.equal(deltas.map((e) => e.delta).join(''), given);
    assert.equal(new Set(deltas.map((e) => e.item_id)).size, 1);
    assert.equal(events.find((e) => e.type === 'response.function_call_arguments.done').arguments, given);
    assert.equal(events.at(-1).response.output[0].id, deltas[0].item_id);
    const cut = await client.responses.create({ ...ask, max_output_tokens: 60 });
    assert.equal(cut.status, 'incomplete');
    assert.equal(cut.output[0].type, 'function_call');
    assert.equal(cut.output[0].status, 'incomplete');
    assert.ok(given.startsWith(cut.output[0].arguments) && cut.output[0].arguments.length < given.length);
});

test('Messages: deltas, and a call that is cut', async () => {
    const anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
    const ask = { model: 'hermes', max_tokens: 300, messages: [{ role: 'user', content: 'Weather?' }],
        tools: [{ name: 'weather', input_schema: parameters }], ...written };
    const events = await collect(await anthropic.messages.create({ ...ask, stream: true }));
    const deltas = events.filter((e) => e.delta?.type === 'input_json_delta');
    assert.ok(deltas.length > 4);
    assert.equal(deltas.map((e) => e.delta.partial_json).join(''), given);
    const whole = await anthropic.messages.stream(ask).finalMessage();
    assert.deepEqual(whole.content[0].input, JSON.parse(given));
    const cut = await anthropic.messages.create({ ...ask, max_tokens: 60 });
    assert.equal(cut.stop_reason, 'max_tokens');
    const { type, input } = cut.content[0];
    assert.equal(type, 'tool_use');
    assert.ok(given.startsWith(input.INVALID_JSON) && input.INVALID_JSON.length < given.length, JSON.stringify(input));
});

// Mistakes of the model are not {}, which it has not written, wherever among the calls they are.
test('arguments between marks become JSON as they are written, in each API', async () => {
    const text = '<tool_call>\n<function=weather>\n<parameter=city>\nOslo, "centre"\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>';
    const messages = [{ role: 'user', content: 'Weather?' }], more = { model: 'hermes', grammar: grammar(text), temperature: 0 };
    const anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
    const chat = await collect(await client.chat.completions.create({ ...more, messages, stream: true, tools: [{ type: 'function', function: { name: 'weather', parameters } }] }));
    const responses = await collect(await client.responses.create({ ...more, input: 'Weather?', stream: true, tools: [{ type: 'function', name: 'weather', parameters }] }));
    const said = await collect(await anthropic.messages.create({ ...more, messages, stream: true, max_tokens: 300, tools: [{ name: 'weather', input_schema: parameters }] }));
    for (const pieces of [
        chat.flatMap((chunk) => chunk.choices[0].delta.tool_calls ?? []).map((call) => call.function.arguments),
        responses.filter((event) => event.type === 'response.function_call_arguments.delta').map((event) => event.delta),
        said.filter((event) => event.delta?.type === 'input_json_delta').map((event) => event.delta.partial_json),
    ]) {
        assert.equal(pieces.join(''), given);
        assert.ok(pieces.filter((piece) => piece).length > 4, JSON.stringify(pieces));
    }
});

test('calls with mistakes, beside others', async () => {
    const anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
    const whole = '{"city": "Oslo"}';
    for (const mistakes of [[whole, '{"city": "Oslo"'], ['{"city": "Oslo"', whole], ['{city: Oslo}'], ['{"city": "Oslo", ', '{"city": Rome}', whole]]) {
        const text = mistakes.map((one) => forms['qwen2.5'][0] + one + (one === whole || one.endsWith('}') ? '}' : '') + '\n</tool_call>').join('\n');
        const ask = { model: 'hermes', max_tokens: 600, messages: [{ role: 'user', content: 'Weather?' }], temperature: 0, grammar: grammar(text) };
        const { message, finish_reason } = (await client.chat.completions.create({ ...ask,
            tools: [{ type: 'function', function: { name: 'weather', parameters } }] })).choices[0];
        assert.equal(finish_reason, 'tool_calls');
        assert.deepEqual(message.tool_calls.map((call) => call.function.arguments.trim()), mistakes.map((one) => one.trim()));
        const said = await anthropic.messages.create({ ...ask, tools: [{ name: 'weather', input_schema: parameters }] });
        assert.equal(said.stop_reason, 'tool_use');
        assert.deepEqual(said.content.map((block) => block.input.INVALID_JSON?.trim() ?? JSON.stringify(block.input)),
            mistakes.map((one) => (one === whole ? JSON.stringify({ city: 'Oslo' }) : one.trim())));
    }
});

// The model has learned nothing of calls: it must be able to end after any of them.
test('calls that are asked for end, and nothing else is in the answer', async () => {
    const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: { city: { enum: ['Oslo', 'Rome'] } }, required: ['city'], additionalProperties: false } } }];
    const ask = { model: 'hermes', messages: [{ role: 'user', content: 'Weather?' }], tools, tool_choice: 'required' };
    for (let seed = 1; seed <= 4; seed++) {
        const { message, finish_reason } = (await client.chat.completions.create({ ...ask, seed })).choices[0];
        assert.equal(finish_reason, 'tool_calls');
        assert.equal(message.content, null);
        for (const call of message.tool_calls) assert.ok(['Oslo', 'Rome'].includes(JSON.parse(call.function.arguments).city));
    }
    for (let max_tokens = 1; max_tokens < 12; max_tokens += 2) {
        const { message } = (await client.chat.completions.create({ ...ask, max_tokens, temperature: 0 })).choices[0];
        assert.equal(message.content ?? '', '');
    }
});

test('a text that stops it cuts a call', async () => {
    const ask = { model: 'hermes', messages: [{ role: 'user', content: 'Weather?' }], stop: 'centre', ...written,
        tools: [{ type: 'function', function: { name: 'weather', parameters } }] };
    const { message, finish_reason } = (await client.chat.completions.create(ask)).choices[0];
    assert.equal(finish_reason, 'stop');
    assert.equal(message.tool_calls[0].function.arguments, '{"city": "Oslo, \\"');
    // Clients run what ends with tool_use: not a part of a call.
    const anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
    for (const text of ['centre', '{"city']) {
        const cut = { model: 'hermes', max_tokens: 300, messages: [{ role: 'user', content: 'Weather?' }], stop_sequences: [text],
            tools: [{ name: 'weather', input_schema: parameters }], ...written };
        for (const said of [await anthropic.messages.create(cut), await anthropic.messages.stream(cut).finalMessage()]) {
            assert.deepEqual([said.stop_reason, said.stop_sequence], ['stop_sequence', text]);
            assert.deepEqual(said.content.map((block) => block.type), ['tool_use']);
        }
    }
});
