// openai.test.mjs: OpenAI's official client against engine-serve with the demo model.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { serve, template } from './server.mjs';

let server, client, strict;

before(async () => {
    server = await serve('--chat-template', template('hermes'));
    strict = await serve('--chat-template', template('hermes'), '--strict');
    client = new OpenAI({ baseURL: server.url + '/v1', apiKey: 'none', maxRetries: 0 });
});
after(async () => {
    assert.equal(await server.end(), 0);
    assert.equal(await strict.end(), 0);
});

const ask = (text, more) => ({ model: 'demo', messages: [{ role: 'user', content: text }], ...more });
const sum = 'What is 27 plus 38?';
const weather = {
    type: 'function',
    function: {
        name: 'weather',
        description: 'The weather of a city',
        parameters: {
            type: 'object',
            properties: { city: { type: 'string', enum: ['Oslo', 'Rome'] }, days: { type: 'integer', minimum: 1, maximum: 9 } },
            required: ['city', 'days'],
            additionalProperties: false,
        },
    },
};
const time = { type: 'function', function: { name: 'time' } };

const collect = async (stream) => {
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    return chunks;
};
const refused = async (promise, status, param, message) => {
    const error = await promise.then(() => assert.fail('it was not refused'), (e) => e);
    assert.equal(error.status, status, error.message);
    assert.equal(error.param ?? null, param);
    if (message) assert.match(error.message, message);
    return error;
};

test('chat', async () => {
    const answer = await client.chat.completions.create(ask(sum, { temperature: 0 }));
    assert.match(answer.id, /^chatcmpl-/);
    assert.equal(answer.object, 'chat.completion');
    assert.equal(answer.model, 'demo');
    assert.ok(Math.abs(answer.created - Date.now() / 1000) < 600);
    assert.match(answer.system_fingerprint, /^fp_/);
    assert.equal(answer.choices.length, 1);
    assert.equal(answer.choices[0].finish_reason, 'stop');
    assert.equal(answer.choices[0].logprobs, null);
    assert.deepEqual(Object.keys(answer.choices[0].message), ['role', 'content', 'refusal']);
    assert.match(answer.choices[0].message.content, /65/);
    const usage = answer.usage;
    assert.equal(usage.prompt_tokens + usage.completion_tokens, usage.total_tokens);
    assert.ok(usage.completion_tokens > 3 && usage.prompt_tokens > 10);
});

test('content in parts, a system message, a name', async () => {
    const messages = [
        { role: 'developer', content: 'Answer.' },
        { role: 'user', name: 'ann', content: [{ type: 'text', text: sum }] },
    ];
    const answer = await client.chat.completions.create({ model: 'demo', messages, temperature: 0, max_tokens: 3 });
    assert.equal(answer.choices[0].finish_reason, 'length');
    assert.equal(answer.usage.completion_tokens, 3);
});

test('a stream says what the answer says', async () => {
    const options = ask(sum, { temperature: 0 });
    const whole = await client.chat.completions.create(options);
    const chunks = await collect(
        await client.chat.completions.create({ ...options, stream: true, stream_options: { include_usage: true } }),
    );
    assert.deepEqual(chunks[0].choices[0].delta, { role: 'assistant', content: '' });
    const text = chunks.map((c) => c.choices[0]?.delta.content ?? '').join('');
    assert.equal(text, whole.choices[0].message.content);
    const last = chunks.at(-1);
    assert.deepEqual(last.choices, []);
    assert.deepEqual(
        { ...last.usage, prompt_tokens_details: null },
        { ...whole.usage, prompt_tokens_details: null },
    );
    assert.ok(chunks.slice(0, -1).every((c) => c.usage === null && c.id === last.id && c.object === 'chat.completion.chunk'));
    assert.equal(chunks.at(-2).choices[0].finish_reason, 'stop');
    assert.deepEqual(chunks.at(-2).choices[0].delta, {});
    const without = await collect(await client.chat.completions.create({ ...options, stream: true }));
    assert.ok(without.every((c) => !('usage' in c) && c.choices.length === 1));
});

test('a common beginning is found in the cache', async () => {
    const story = 'Tell me of a cat, a dog, a bird and a fish who went to the park. '.repeat(6);
    await client.chat.completions.create(ask(story + 'One.', { max_tokens: 1 }));
    const again = await client.chat.completions.create(ask(story + 'Two.', { max_tokens: 1 }));
    assert.ok(again.usage.prompt_tokens_details.cached_tokens >= 32, JSON.stringify(again.usage));
});

test('an answer that is begun already', async () => {
    const begun = { ...ask(sum, { temperature: 0, continue_final_message: true }) };
    begun.messages.push({ role: 'assistant', content: '27 + 38 =' });
    assert.equal((await client.chat.completions.create(begun)).choices[0].message.content, ' 65.');
    const whole = await client.chat.completions.create({ ...begun, continue_final_message: false });
    assert.notEqual(whole.choices[0].message.content, ' 65.');
    await refused(client.chat.completions.create(ask(sum, { continue_final_message: true })), 400, 'messages');
    await refused(client.chat.completions.create({ ...begun, response_format: { type: 'json_object' } }), 400, 'response_format');
});

test('stop texts, and a limit', async () => {
    const answer = await client.chat.completions.create(ask(sum, { temperature: 0, stop: ['='] }));
    assert.equal(answer.choices[0].message.content.includes('='), false);
    assert.equal(answer.choices[0].finish_reason, 'stop');
    const cut = await client.chat.completions.create(ask(sum, { temperature: 0, max_completion_tokens: 2 }));
    assert.equal(cut.choices[0].finish_reason, 'length');
});

test('seeds', async () => {
    const story = (seed) => client.chat.completions.create(ask('Tell a story.', { seed, max_tokens: 20, temperature: 1.2 }));
    const [a, b, c] = await Promise.all([story(7), story(7), story(8)]);
    assert.equal(a.choices[0].message.content, b.choices[0].message.content);
    assert.notEqual(a.choices[0].message.content, c.choices[0].message.content);
});

test('four choices', async () => {
    const options = ask('Tell a story.', { n: 4, max_tokens: 12, temperature: 1.5, seed: 3 });
    const answer = await client.chat.completions.create(options);
    assert.deepEqual(answer.choices.map((c) => c.index), [0, 1, 2, 3]);
    assert.ok(new Set(answer.choices.map((c) => c.message.content)).size > 1);
    assert.equal(answer.usage.completion_tokens, 48);
    const chunks = await collect(await client.chat.completions.create({ ...options, stream: true }));
    const texts = ['', '', '', ''];
    for (const { choices } of chunks) texts[choices[0].index] += choices[0].delta.content ?? '';
    assert.deepEqual(texts, answer.choices.map((c) => c.message.content));
});

test('logprobs', async () => {
    const options = ask(sum, { temperature: 0, logprobs: true, top_logprobs: 3 });
    const answer = await client.chat.completions.create(options);
    const { content } = answer.choices[0].logprobs;
    assert.equal(content.length, answer.usage.completion_tokens);
    assert.equal(content.map((t) => t.token).join(''), answer.choices[0].message.content);
    for (const token of content) {
        assert.equal(token.top_logprobs.length, 3);
        assert.equal(token.top_logprobs[0].token, token.token);
        assert.ok(token.logprob <= 0);
        assert.equal(Buffer.from(token.bytes).toString(), token.token);
    }
    const chunks = await collect(await client.chat.completions.create({ ...options, stream: true }));
    const streamed = chunks.flatMap((c) => c.choices[0].logprobs.content);
    assert.deepEqual(streamed, content);
    const plain = await client.chat.completions.create(ask(sum, { temperature: 0, logprobs: true, max_tokens: 1 }));
    assert.deepEqual(plain.choices[0].logprobs.content[0].top_logprobs, []);
});

test('a bias bans a token', async () => {
    const options = ask(sum, { temperature: 0, logprobs: true, max_tokens: 1 });
    const first = (await client.chat.completions.create(options)).choices[0].logprobs.content[0];
    const other = await client.chat.completions.create({ ...options, logit_bias: { [first.id]: -100 } });
    assert.notEqual(other.choices[0].logprobs.content[0].token, first.token);
});

test('a strict JSON schema', async () => {
    const Person = z.object({ name: z.enum(['Mia', 'Finn']), age: z.number().int().min(0).max(99), tags: z.array(z.enum(['a', 'b'])).max(2) });
    const answer = await client.chat.completions.parse(
        ask('A person.', { response_format: zodResponseFormat(Person, 'person'), seed: 1 }),
    );
    assert.ok(['Mia', 'Finn'].includes(answer.choices[0].message.parsed.name));
    const object = await client.chat.completions.create(
        ask('JSON.', { response_format: { type: 'json_object' }, max_tokens: 40, seed: 1, stop: ['}'] }),
    );
    assert.match(object.choices[0].message.content, /^\{/);
    await refused(
        client.chat.completions.create(
            ask('x', { response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'fish' } } } }),
        ),
        400, 'response_format', /type/,
    );
});

test('tools in two rounds', async () => {
    const messages = [{ role: 'user', content: 'The weather in Oslo?' }];
    const options = { model: 'demo', tools: [weather, time], seed: 1 };
    const first = await client.chat.completions.create({
        ...options, messages, tool_choice: { type: 'function', function: { name: 'weather' } },
    });
    const [choice] = first.choices;
    assert.equal(choice.finish_reason, 'tool_calls');
    assert.equal(choice.message.content, null);
    assert.equal(choice.message.tool_calls.length, 1);
    const [call] = choice.message.tool_calls;
    assert.match(call.id, /^call_/);
    assert.equal(call.type, 'function');
    assert.equal(call.function.name, 'weather');
    const made = JSON.parse(call.function.arguments);
    assert.ok(['Oslo', 'Rome'].includes(made.city) && made.days >= 1 && made.days <= 9);
    messages.push(choice.message, { role: 'tool', tool_call_id: call.id, content: 'rain' });
    const second = await client.chat.completions.create({ ...options, messages, max_tokens: 20, tool_choice: 'auto' });
    assert.ok(['stop', 'length'].includes(second.choices[0].finish_reason));
    assert.ok(second.choices[0].message.content.length > 0);
});

test('tools that are required, in a stream, one at most', async () => {
    const stream = client.chat.completions.stream(
        ask('Weather?', { tools: [weather, time], tool_choice: 'required', parallel_tool_calls: false, seed: 5 }),
    );
    const { choices } = await stream.finalChatCompletion();
    assert.equal(choices[0].message.tool_calls.length, 1);
    assert.ok(['weather', 'time'].includes(choices[0].message.tool_calls[0].function.name));
    JSON.parse(choices[0].message.tool_calls[0].function.arguments);
    const none = await client.chat.completions.create(ask('Weather?', { tools: [weather], tool_choice: 'none', max_tokens: 5 }));
    assert.equal(none.choices[0].message.tool_calls, undefined);
});

// A grammar makes the demo model write two calls.
test('calls that the model may make, several or one', async () => {
    const call = (city) => `<tool_call>\\n{\\"name\\": \\"weather\\", \\"arguments\\": {\\"city\\": \\"${city}\\"}}\\n</tool_call>`;
    const options = ask('Weather?', { tools: [weather], grammar: `root ::= "Well.\\n${call('Oslo')}\\n${call('Rome')}"` });
    const both = (await client.chat.completions.create(options)).choices[0];
    assert.deepEqual(both.message.tool_calls.map((c) => JSON.parse(c.function.arguments).city), ['Oslo', 'Rome']);
    assert.equal(both.message.content, 'Well.');
    assert.equal(both.finish_reason, 'tool_calls');
    assert.notEqual(both.message.tool_calls[0].id, both.message.tool_calls[1].id);
    const chunks = await collect(await client.chat.completions.create({ ...options, stream: true }));
    const calls = chunks.flatMap((c) => c.choices[0].delta.tool_calls ?? []);
    assert.deepEqual(calls.filter((c) => c.id).map((c) => [c.index, c.function.name]), [[0, 'weather'], [1, 'weather']]);
    const one = await client.chat.completions.create({ ...options, parallel_tool_calls: false });
    assert.equal(one.choices[0].message.tool_calls.length, 1);
    assert.equal(one.choices[0].finish_reason, 'tool_calls');
    assert.ok(one.usage.completion_tokens < (await client.chat.completions.create(options)).usage.completion_tokens);
    const none = (await client.chat.completions.create({ ...options, tool_choice: 'none' })).choices[0];
    assert.match(none.message.content, /<tool_call>/);
});

test('completions', async () => {
    const options = { model: 'demo', prompt: 'Once upon a time', temperature: 0, max_tokens: 5 };
    const answer = await client.completions.create({ ...options, echo: true, logprobs: 2 });
    assert.equal(answer.object, 'text_completion');
    assert.match(answer.choices[0].text, /^Once upon a time/);
    const { tokens, token_logprobs: logprobs, top_logprobs: top, text_offset: offsets } = answer.choices[0].logprobs;
    assert.equal(tokens.length, answer.usage.total_tokens);
    assert.equal(logprobs[0], null);
    assert.ok(logprobs.slice(1).every((l) => l <= 0));
    assert.equal(Object.keys(top.at(-1)).length, 2);
    for (let i = 1; i < tokens.length; i++)
        assert.equal(answer.choices[0].text.substring(offsets[i], offsets[i] + tokens[i].length), tokens[i]);
    const accents = await client.completions.create({ ...options, prompt: 'Füße', echo: true, logprobs: 20 });
    const { tokens: pieces, text_offset: places, top_logprobs: rivals } = accents.choices[0].logprobs;
    const characters = [...accents.choices[0].text];
    pieces.forEach((piece, i) => piece.startsWith('bytes:') || piece === '<s>' ||
        assert.equal(characters.slice(places[i], places[i] + piece.length).join(''), piece));
    assert.ok(pieces.includes('bytes:\\xc3'));
    assert.ok(rivals.slice(1).every((top) => Object.keys(top).length === 20));
    const plain = await client.completions.create(options);
    const chunks = await collect(await client.completions.create({ ...options, stream: true }));
    assert.equal(chunks.map((c) => c.choices[0].text).join(''), plain.choices[0].text);
    assert.equal(answer.choices[0].text, 'Once upon a time' + plain.choices[0].text);
    const scored = await client.completions.create({ ...options, echo: true, logprobs: 0, max_tokens: 0 });
    assert.equal(scored.choices[0].text, 'Once upon a time');
    assert.equal(scored.usage.completion_tokens, 0);
    const several = await client.completions.create({ ...options, prompt: ['The cat', 'The dog'], n: 2 });
    assert.deepEqual(several.choices.map((c) => c.index), [0, 1, 2, 3]);
    assert.equal(several.choices[0].text, several.choices[1].text);
    const ids = (await post('/tokenize', { content: 'Once upon a time', add_special: true })).tokens;
    const byIds = await client.completions.create({ ...options, prompt: ids });
    assert.equal(byIds.choices[0].text, plain.choices[0].text);
    assert.equal((await client.completions.create({ model: 'demo', prompt: 'Once' })).usage.completion_tokens, 16);
    await refused(client.completions.create({ ...options, suffix: 'end' }), 400, 'suffix', /FIM/);
    await refused(client.completions.create({ ...options, best_of: 3 }), 400, 'best_of');
});

const post = async (path, body) => (await fetch(server.url + path, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body),
})).json();

test('embeddings', async () => {
    const input = ['a cat', 'a dog', 'a cat'];
    const answer = await client.embeddings.create({ model: 'demo', input });
    assert.deepEqual(answer.data.map((e) => e.index), [0, 1, 2]);
    assert.deepEqual(answer.data[0].embedding, answer.data[2].embedding);
    assert.equal(answer.data[0].embedding.length, 192);
    const norm = Math.hypot(...answer.data[1].embedding);
    assert.ok(Math.abs(norm - 1) < 1e-5, norm);
    const floats = await client.embeddings.create({ model: 'demo', input, encoding_format: 'float' });
    floats.data.forEach((e, i) => assert.deepEqual(e.embedding.map(Math.fround), [...answer.data[i].embedding].map(Math.fround)));
    assert.equal(floats.usage.prompt_tokens, floats.usage.total_tokens);
    const ids = (await post('/tokenize', { content: 'a cat', add_special: true })).tokens;
    const byIds = await client.embeddings.create({ model: 'demo', input: ids });
    assert.deepEqual(byIds.data[0].embedding, answer.data[0].embedding);
    await refused(client.embeddings.create({ model: 'demo', input: 'x', dimensions: 8 }), 400, 'dimensions');
    await refused(client.embeddings.create({ model: 'demo', input: '' }), 400, 'input');
    assert.equal((await client.embeddings.create({ model: 'demo', input: Array(200).fill('a') })).data.length, 200);
});

test('models', async () => {
    const list = await client.models.list();
    assert.deepEqual(list.data.map((m) => [m.id, m.object]), [['demo', 'model']]);
    assert.equal((await client.models.retrieve('demo')).id, 'demo');
    assert.deepEqual(await (await fetch(server.url + '/v1/models/')).json(), await (await fetch(server.url + '/v1/models')).json());
    const error = await client.models.retrieve('other').catch((e) => e);
    assert.equal(error.status, 404);
});

test('errors name what is wrong', async () => {
    const client = new OpenAI({ baseURL: strict.url + '/v1', apiKey: 'none', maxRetries: 0 });
    const create = (body) => client.chat.completions.create({ ...ask('x'), ...body });
    assert.equal((await refused(create({ model: 'gpt-9' }), 404, 'model')).code, 'model_not_found');
    await refused(create({ messages: [] }), 400, 'messages');
    await refused(create({ messages: [{ role: 'robot', content: 'x' }] }), 400, 'messages[0]');
    await refused(create({ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] }), 400, 'messages[0].content[0].type', /image_url/);
    await refused(create({ messages: [{ role: 'tool', tool_call_id: 'c', content: 'x' }] }), 400, 'messages[0]');
    await refused(create({ frobnicate: 1 }), 400, 'frobnicate');
    await refused(create({ temperature: 'hot' }), 400, 'temperature');
    await refused(create({ n: 0 }), 400, 'n');
    await refused(create({ top_logprobs: 2 }), 400, 'top_logprobs');
    await refused(create({ tools: [{ type: 'web_search' }] }), 400, 'tools[0]');
    await refused(create({ tool_choice: 'required' }), 400, 'tool_choice');
    await refused(create({ store: true }), 400, 'store');
    await refused(create({ functions: [] }), 400, 'functions');
    await refused(create({ reasoning_effort: 'high' }), 400, 'reasoning_effort');
    const long = await refused(create({ messages: [{ role: 'user', content: 'cat '.repeat(3000) }] }), 400, 'messages');
    assert.equal(long.code, 'context_length_exceeded');
    const bad = await fetch(strict.url + '/v1/chat/completions', { method: 'POST', body: '{"a":', headers: { 'Content-Type': 'application/json' } });
    assert.equal(bad.status, 400);
    assert.ok((await bad.json()).error.message);
});

test('fields with null count as absent', async () => {
    const answer = await client.chat.completions.create(ask('x', {
        max_tokens: 2, stop: null, tools: null, tool_choice: null, response_format: null, logit_bias: null, user: null, seed: null,
    }));
    assert.equal(answer.usage.completion_tokens, 2);
});

test('abort in mid-stream frees the place', async () => {
    const stream = await client.chat.completions.create(ask('Tell a story.', { stream: true, ignore_eos: true }));
    let n = 0;
    for await (const chunk of stream) if (++n === 5) break;
    assert.equal(n, 5);
    const controller = new AbortController();
    const whole = client.chat.completions.create(ask('Tell a story.', { ignore_eos: true, n: 8 }), { signal: controller.signal });
    setTimeout(() => controller.abort(), 100);
    await assert.rejects(whole);
    for (let i = 0; ; i++) {
        const metrics = await (await fetch(server.url + '/metrics')).text();
        if (/^engine_requests_running\S* 0$/m.test(metrics) || !/requests_running/.test(metrics)) break;
        assert.ok(i < 200, metrics);
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const answer = await client.chat.completions.create(ask(sum, { max_tokens: 2 }));
    assert.equal(answer.usage.completion_tokens, 2);
});

test('responses', async () => {
    const options = { model: 'demo', input: sum, temperature: 0, instructions: 'Answer.' };
    const answer = await client.responses.create(options);
    assert.equal(answer.status, 'completed');
    assert.ok(answer.output_text.length > 0);
    assert.equal(answer.usage.input_tokens + answer.usage.output_tokens, answer.usage.total_tokens);
    const events = await collect(await client.responses.create({ ...options, stream: true }));
    assert.deepEqual(events.map((e) => e.sequence_number), events.map((e, i) => i));
    const types = [...new Set(events.map((e) => e.type))];
    assert.deepEqual(types, [
        'response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added',
        'response.output_text.delta', 'response.output_text.done', 'response.content_part.done',
        'response.output_item.done', 'response.completed',
    ]);
    assert.equal(events.filter((e) => e.delta).map((e) => e.delta).join(''), answer.output_text);
    const cut = await client.responses.create({ ...options, max_output_tokens: 2 });
    assert.equal(cut.status, 'incomplete');
    assert.equal(cut.incomplete_details.reason, 'max_output_tokens');
    await refused(client.responses.create({ ...options, previous_response_id: 'resp_1' }), 400, 'previous_response_id');
});

test('responses with functions in two rounds', async () => {
    const tools = [{ type: 'function', strict: true, ...weather.function }];
    const input = [{ role: 'user', content: [{ type: 'input_text', text: 'Weather?' }] }];
    const stream = client.responses.stream({ model: 'demo', input, tools, tool_choice: { type: 'function', name: 'weather' }, seed: 2 });
    const first = await stream.finalResponse();
    const call = first.output.find((item) => item.type === 'function_call');
    assert.equal(call.name, 'weather');
    assert.ok(JSON.parse(call.arguments).city);
    input.push(...first.output, { type: 'function_call_output', call_id: call.call_id, output: 'rain' });
    const second = await client.responses.create({ model: 'demo', input, max_output_tokens: 8 });
    assert.ok(second.output_text.length > 0);
    const format = { type: 'json_schema', name: 'n', strict: true, schema: { type: 'object', properties: { n: { enum: [1, 2] } }, required: ['n'], additionalProperties: false } };
    const json = await client.responses.create({ model: 'demo', input: 'x', text: { format } });
    assert.ok([1, 2].includes(JSON.parse(json.output_text).n));
});
