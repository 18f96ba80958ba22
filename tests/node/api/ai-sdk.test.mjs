// ai-sdk.test.mjs: the AI SDK's provider for OpenAI-compatible servers against engine-serve with the demo model.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { embedMany, generateObject, generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';
import { serve, template } from './server.mjs';

let server, reasoning, engine;

before(async () => {
    server = await serve('--chat-template', template('hermes'));
    reasoning = await serve('--chat-template', template('reasoning'));
    engine = createOpenAICompatible({ name: 'engine', baseURL: server.url + '/v1', includeUsage: true, supportsStructuredOutputs: true });
});
after(async () => {
    assert.equal(await server.end(), 0);
    assert.equal(await reasoning.end(), 0);
});

const question = { prompt: 'What is 27 plus 38?', temperature: 0, maxRetries: 0 };

test('text, and a stream of it', async () => {
    const whole = await generateText({ model: engine('demo'), ...question });
    assert.match(whole.text, /65/);
    const stream = streamText({ model: engine('demo'), ...question });
    let text = '';
    for await (const piece of stream.textStream) text += piece;
    assert.equal(text, whole.text);
    assert.equal(await stream.finishReason, 'stop');
    assert.ok((await stream.usage).outputTokens > 3);
});

test('an object', async () => {
    const { object } = await generateObject({
        model: engine('demo'), schema: z.object({ color: z.enum(['red', 'blue']) }), prompt: 'A color.', maxRetries: 0,
    });
    assert.ok(['red', 'blue'].includes(object.color));
});

test('a tool, and the answer after it', async () => {
    const called = [];
    const weather = tool({
        description: 'The weather',
        inputSchema: z.object({ city: z.enum(['Oslo', 'Rome']) }),
        execute: async ({ city }) => called.push(city) && 'rain',
    });
    const result = await generateText({
        model: engine('demo'), tools: { weather }, prompt: 'The weather?', maxRetries: 0, maxOutputTokens: 150, temperature: 0,
        stopWhen: stepCountIs(2),
        prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? { type: 'tool', toolName: 'weather' } : 'none' }),
    });
    assert.equal(called.length, 1);
    assert.equal(result.steps.length, 2);
    assert.equal(result.steps[0].finishReason, 'tool-calls');
});

test('embeddings', async () => {
    const { embeddings } = await embedMany({ model: engine.embeddingModel('demo'), values: ['a', 'b'], maxRetries: 0 });
    assert.deepEqual(embeddings.map((e) => e.length), [192, 192]);
});

// The template begins the reasoning, and only a grammar makes the demo model end it.
test('reasoning stands apart', async () => {
    const post = async (body) => (await fetch(reasoning.url + '/v1/chat/completions', {
        method: 'POST', headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ messages: [{ role: 'user', content: 'x' }], ...body }),
    })).json();
    const grammar = 'root ::= "Hm.\\n</think>\\n\\nYes."';
    const answer = await post({ grammar });
    assert.equal(answer.choices[0].message.reasoning_content, 'Hm.');
    assert.equal(answer.choices[0].message.content, 'Yes.');
    assert.ok(answer.usage.completion_tokens_details.reasoning_tokens > 0);
    const off = await post({ max_tokens: 4, reasoning_effort: 'none' });
    assert.equal(off.choices[0].message.reasoning_content, undefined);
    const model = createOpenAICompatible({ name: 'engine', baseURL: reasoning.url + '/v1' })('demo');
    const result = await generateText({ model, prompt: 'x', maxRetries: 0, providerOptions: { engine: { grammar } } });
    assert.equal(result.reasoningText, 'Hm.');
    assert.equal(result.text, 'Yes.');
    const tagged = await post({ grammar, reasoning_format: 'none' });
    assert.equal(tagged.choices[0].message.content, 'Hm.\n</think>\n\nYes.');
});

// The demo model would go on with the letters, or end by chance: the limit ends them, in each choice, and whoever says it.
test('reasoning is limited', async () => {
    const ask = (path, body) => fetch(reasoning.url + path, {
        method: 'POST', headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ messages: [{ role: 'user', content: 'x' }], grammar: 'root ::= [b-d]{0,60} "</think>Yes."', max_tokens: 100, ...body }),
    });
    const post = async (path, body) => (await ask(path, body)).json();
    for (const budget of [{ reasoning_budget: 4 }, { reasoning_budget: 4, reasoning_effort: 'none' }, { thinking: { type: 'enabled', budget_tokens: 4 } }]) {
        const { choices } = await post('/v1/chat/completions', { ...budget, n: 2, temperature: 1 });
        assert.equal(choices.length, 2);
        for (const { message } of choices) {
            assert.equal(message.content, 'Yes.');
            assert.match(message.reasoning_content ?? '', /^[b-d]*$/);
            assert.ok((message.reasoning_content ?? '').length <= 12, message.reasoning_content);
        }
    }
    const none = (await post('/v1/chat/completions', { reasoning_budget: 0, reasoning_effort: 'high' })).choices[0].message;
    assert.equal(none.reasoning_content, undefined);
    const stream = await (await ask('/v1/chat/completions', { reasoning_budget: 3, stream: true })).text();
    const deltas = stream.split('\n').filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)).choices[0]?.delta ?? {});
    assert.equal(deltas.map((delta) => delta.content ?? '').join(''), 'Yes.');
    const claude = await post('/v1/messages', { thinking: { type: 'enabled', budget_tokens: 3 } });
    assert.equal(claude.content.at(-1).text, 'Yes.');
    const response = await post('/v1/responses', { messages: undefined, max_tokens: undefined, input: 'x', reasoning_budget: 3 });
    assert.equal(response.output.at(-1).content[0].text, 'Yes.');
    assert.equal((await ask('/v1/chat/completions', { reasoning_budget: -2 })).status, 400);
});
