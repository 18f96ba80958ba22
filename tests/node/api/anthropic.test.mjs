// anthropic.test.mjs: Anthropic's official client against engine-serve with the demo model.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import { z } from 'zod';
import { serve, template } from './server.mjs';

let server, client;

before(async () => {
    server = await serve('--chat-template', template('hermes'));
    client = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
});
after(async () => assert.equal(await server.end(), 0));

const ask = (more) => ({
    model: 'demo', max_tokens: 40, temperature: 0, messages: [{ role: 'user', content: 'What is 27 plus 38?' }], ...more,
});
const tool = {
    name: 'weather',
    input_schema: { type: 'object', properties: { city: { type: 'string', enum: ['Oslo', 'Rome'] } }, required: ['city'] },
};

test('a message', async () => {
    const message = await client.messages.create(ask());
    assert.match(message.id, /^msg_/);
    assert.equal(message.type, 'message');
    assert.equal(message.role, 'assistant');
    assert.equal(message.stop_reason, 'end_turn');
    assert.equal(message.content.length, 1);
    assert.match(message.content[0].text, /65/);
    assert.ok(message.usage.input_tokens > 0 && message.usage.output_tokens > 0);
    const counted = await client.messages.countTokens({ model: 'demo', messages: ask().messages });
    assert.equal(counted.input_tokens, message.usage.input_tokens + message.usage.cache_read_input_tokens);
});

test('blocks, a system text, a limit, stop sequences', async () => {
    const message = await client.messages.create(
        ask({ system: [{ type: 'text', text: 'Answer.' }], messages: [{ role: 'user', content: [{ type: 'text', text: 'What is 27 plus 38?' }] }], max_tokens: 2 }),
    );
    assert.equal(message.stop_reason, 'max_tokens');
    const stopped = await client.messages.create(ask({ stop_sequences: ['never', '='] }));
    assert.equal(stopped.stop_reason, 'stop_sequence');
    assert.equal(stopped.stop_sequence, '=');
});

test('a stream says what the message says', async () => {
    const whole = await client.messages.create(ask());
    const events = [];
    for await (const event of await client.messages.create(ask({ stream: true }))) events.push(event);
    assert.deepEqual([...new Set(events.map((e) => e.type))], [
        'message_start', 'content_block_start', 'content_block_delta', 'content_block_stop', 'message_delta', 'message_stop',
    ]);
    assert.equal(events.filter((e) => e.delta?.text).map((e) => e.delta.text).join(''), whole.content[0].text);
    assert.equal(events.at(-2).delta.stop_reason, 'end_turn');
    const final = await client.messages.stream(ask()).finalMessage();
    assert.deepEqual(final.content, whole.content);
});

test('tools in two rounds', async () => {
    const messages = [{ role: 'user', content: 'The weather?' }];
    const first = await client.messages
        .stream(ask({ messages, tools: [tool], tool_choice: { type: 'tool', name: 'weather' }, max_tokens: 200 }))
        .finalMessage();
    assert.equal(first.stop_reason, 'tool_use');
    const use = first.content.find((block) => block.type === 'tool_use');
    assert.ok(['Oslo', 'Rome'].includes(use.input.city));
    messages.push({ role: 'assistant', content: first.content }, {
        role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id, content: 'rain' }, { type: 'text', text: 'Well?' }],
    });
    const second = await client.messages.create(ask({ messages, tools: [tool], max_tokens: 10 }));
    assert.ok(['end_turn', 'max_tokens'].includes(second.stop_reason));
});

test('the tool runner', async () => {
    const asked = [];
    const runner = client.beta.messages.toolRunner({
        ...ask({ messages: [{ role: 'user', content: 'The weather?' }], tool_choice: { type: 'any' }, max_tokens: 200 }), max_iterations: 2,
        tools: [betaTool({ name: 'weather', description: 'The weather.', inputSchema: tool.input_schema, run: ({ city }) => (asked.push(city), 'rain') })],
    });
    const turns = [];
    for await (const message of runner) turns.push(message.stop_reason);
    assert.deepEqual(turns, ['tool_use', 'tool_use']);
    assert.ok(asked.length === 2 && asked.every((city) => ['Oslo', 'Rome'].includes(city)), asked.join());
    const results = runner.params.messages.flatMap(({ content }) => content).filter((block) => block.type === 'tool_result');
    assert.ok(results.length >= 1 && results.every((block) => block.content === 'rain'));
});

test('an answer that is begun already', async () => {
    const begun = (text, more) => ask({ messages: [...ask().messages, { role: 'assistant', content: text }], ...more });
    const message = await client.messages.create(begun('27 + 38 ='));
    assert.equal(message.content[0].text, ' 65.');
    const blocks = await client.messages.create(begun([{ type: 'text', text: '27 + 38' }]));
    assert.equal(blocks.content[0].text, ' = 65.');
    const format = zodOutputFormat(z.object({ color: z.enum(['red', 'blue']) }));
    for (const body of [begun(' '), begun('x', { output_config: { format } }), begun('x', { tools: [tool], tool_choice: { type: 'any' } })])
        assert.equal((await client.messages.create(body).catch((e) => e)).status, 400);
});

test('an answer that fits a schema', async () => {
    const format = zodOutputFormat(z.object({ color: z.enum(['red', 'blue']) }));
    const message = await client.messages.parse(ask({ output_config: { format }, temperature: 1, seed: 3 }));
    assert.ok(['red', 'blue'].includes(message.parsed_output.color));
});

test('errors', async () => {
    const strict = await serve('--chat-template', template('hermes'), '--strict');
    const client = new Anthropic({ baseURL: strict.url, apiKey: 'none', maxRetries: 0 });
    const refused = async (body, pattern) => {
        const error = await client.messages.create(body).then(() => assert.fail('it was not refused'), (e) => e);
        assert.equal(error.status, 400);
        assert.equal(error.error.type, 'error');
        assert.equal(error.error.error.type, 'invalid_request_error');
        assert.match(error.message, pattern);
    };
    await refused({ model: 'demo', messages: ask().messages }, /max_tokens/);
    await refused(ask({ messages: [{ role: 'user', content: [{ type: 'image', source: {} }] }] }), /image/);
    await refused(ask({ container: 'x' }), /container/);
    await refused(ask({ tools: [{ type: 'web_search_20250305', name: 'x' }] }), /web_search/);
    await refused(ask({ thinking: { type: 'enabled', budget_tokens: 1024 } }), /reason/);
    const error = await client.messages.create(ask({ model: 'other' })).catch((e) => e);
    assert.equal(error.status, 404);
    assert.equal(error.error.error.type, 'not_found_error');
    assert.equal(await strict.end(), 0);
});
