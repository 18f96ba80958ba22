// template.test.mjs: models whose chat template can't be parsed, and templates that write calls as no reader knows them.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { writeModel } from './changed-model.mjs';
import { serve, template } from './server.mjs';

const folder = mkdtempSync(join(tmpdir(), 'engine-template-'));
after(() => rmSync(folder, { recursive: true }));

const post = async (server, path, body) => {
    const answer = await fetch(server.url + path, { method: 'POST', body: JSON.stringify(body) });
    return { status: answer.status, body: await answer.json() };
};
const messages = [{ role: 'user', content: 'What is 3 plus 4?' }];
const faults = {
    include: ['{% include "x" %}{{ messages[0].content }}', "the model's template, line 1: the tag 'include' is not supported"],
    go: ['{{ if .System }}{{ .System }}{{ end }}\n{{ .Prompt }}', "the model's template, line 1: "],
    brace: ['{{ messages[0].content }', "the model's template, line 1: "],
    bytes: [Buffer.from('{{ messages[0].content }}\xff', 'latin1'), "the model's template: the template is not UTF-8 (byte 25)"],
};

for (const [name, [source, fault]] of Object.entries(faults)) {
    test(`a template that can't be parsed: ${name}`, async (t) => {
        const path = writeModel(join(folder, name + '.gguf'), { 'tokenizer.chat_template': source });
        // The first model is loaded at the start.
        const server = await serve('-m', 'own=' + path);
        t.after(async () => assert.equal(await server.end(), 0));
        const model = 'own';
        assert.equal((await post(server, '/v1/completions', { model, prompt: 'Once', max_tokens: 3 })).status, 200);
        assert.equal((await post(server, '/v1/embeddings', { model, input: 'tea' })).status, 200);
        assert.equal((await post(server, '/tokenize', { model, content: 'tea' })).status, 200);
        const props = await fetch(server.url + '/props?model=own');
        assert.equal(props.status, 200);
        assert.equal((await props.json()).loaded, true);
        const words = new Set();
        for (const [path, body] of [['/v1/chat/completions', { messages }], ['/v1/chat/completions', { messages, stream: true }],
            ['/v1/responses', { input: 'x' }], ['/v1/messages', { messages, max_tokens: 3 }],
            ['/v1/messages/count_tokens', { messages }], ['/apply-template', { messages }]]) {
            const { status, body: said } = await post(server, path, { model, ...body });
            assert.equal(status, 400, path);
            words.add(said.error.message);
        }
        assert.equal(words.size, 1);
        const [word] = words;
        assert.ok(word.startsWith(fault), word);
        assert.match(word, /--chat-template/);
        assert.equal(server.log().split('\n').filter((line) => /warning: model own: /.test(line) && line.includes(word)).length, 1, server.log());
    });
}

test('a template for tools that can\'t be parsed', async (t) => {
    const path = writeModel(join(folder, 'tools.gguf'), { 'tokenizer.chat_template': '{{ messages[0].content }}', 'tokenizer.chat_template.tool_use': '{% include "x" %}' });
    const server = await serve('-m', 'own=' + path);
    t.after(async () => assert.equal(await server.end(), 0));
    const ask = { model: 'own', messages, max_tokens: 2 }, tools = [{ type: 'function', function: { name: 'f' } }];
    assert.equal((await post(server, '/v1/chat/completions', ask)).status, 200);
    assert.equal((await post(server, '/v1/chat/completions', { ...ask, tools, tool_choice: 'none' })).status, 200);
    assert.equal((await post(server, '/v1/messages', ask)).status, 200);
    const fault = "the model's template tool_use, line 1: the tag 'include' is not supported";
    const { status, body } = await post(server, '/v1/chat/completions', { ...ask, tools });
    assert.deepEqual([status, body.error.param], [400, 'tools']);
    assert.ok(body.error.message.startsWith(fault) && body.error.message.includes('--chat-template'), body.error.message);
    assert.ok(server.log().includes(`warning: model own: ${fault}`), server.log());
});

test('a template that can\'t be parsed beside one for tools', async (t) => {
    const path = writeModel(join(folder, 'plain.gguf'), { 'tokenizer.chat_template': '{% include "x" %}', 'tokenizer.chat_template.tool_use': readFileSync(template('hermes')) });
    const server = await serve('-m', 'own=' + path);
    t.after(async () => assert.equal(await server.end(), 0));
    const ask = { model: 'own', messages, max_tokens: 2 }, tools = [{ type: 'function', function: { name: 'f' } }];
    assert.equal((await post(server, '/v1/chat/completions', { ...ask, tools })).status, 200);
    const fault = "the model's template, line 1: the tag 'include' is not supported";
    for (const without of [{}, { tools, tool_choice: 'none' }]) {
        const { status, body } = await post(server, '/v1/chat/completions', { ...ask, ...without });
        assert.deepEqual([status, body.error.param], [400, 'messages']);
        assert.ok(body.error.message.startsWith(fault) && body.error.message.includes('--chat-template'), body.error.message);
    }
    assert.ok(server.log().includes(`warning: model own: ${fault}`), server.log());
});

test('--chat-template stands in for one that can\'t be parsed, and is refused if it can\'t be parsed itself', async (t) => {
    const path = writeModel(join(folder, 'replaced.gguf'), { 'tokenizer.chat_template': '{% include "x" %}' });
    const server = await serve('-m', 'own=' + path, '--chat-template', 'chatml');
    t.after(() => server.end());
    assert.equal((await post(server, '/v1/chat/completions', { model: 'own', messages, max_tokens: 3 })).status, 200);
    assert.doesNotMatch(server.log(), /warning/);
    const broken = join(folder, 'broken.jinja');
    writeFileSync(broken, '{% include "x" %}');
    await assert.rejects(serve('--chat-template', broken), /broken\.jinja, line 1: the tag 'include'/);
});

test('tools are refused by templates whose calls nobody reads', async (t) => {
    const turns = (call) => `{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}${call}{% endfor %}<|im_end|>\n{% endfor %}<|im_start|>assistant\n`;
    const form = join(folder, 'other.jinja'), tools = [{ type: 'function', function: { name: 'f' } }];
    writeFileSync(form, turns(' Please run {{ c.function.name }}{% for k, v in c.function.arguments.items() %} with {{ v }} as {{ k }}{% endfor %}.'));
    for (const chosen of [form, 'gpt-oss']) { // the named templates know no tools, and gpt-oss has replies of its own
        const server = await serve('--chat-template', chosen);
        t.after(() => server.end());
        const ask = { model: 'demo', messages, max_tokens: 2 };
        const { status, body } = await post(server, '/v1/chat/completions', { ...ask, tools });
        assert.equal(status, 400);
        assert.equal(body.error.param, 'tools');
        assert.equal((await post(server, '/v1/chat/completions', { ...ask, tools, tool_choice: 'required' })).status, 400);
        assert.equal((await post(server, '/v1/chat/completions', { ...ask, tools, tool_choice: 'none' })).status, 200);
        assert.equal((await post(server, '/v1/chat/completions', ask)).status, 200);
    }
    const server = await serve('--chat-template', template('hermes'));
    t.after(() => server.end());
    assert.equal((await post(server, '/v1/chat/completions', { model: 'demo', messages, tools, max_tokens: 2 })).status, 200);
});

// A template that knows no tools: they are told in the system message, and calls come in Hermes' form.
test('tools in a plain form', async (t) => {
    const server = await serve('--chat-template', 'chatml');
    t.after(() => server.end());
    const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: { city: { enum: ['Oslo'] } }, required: ['city'] } } }];
    const ask = { model: 'demo', messages, tools, tool_choice: 'required', max_tokens: 400, temperature: 0 };
    const { status, body } = await post(server, '/v1/chat/completions', ask);
    assert.equal(status, 200);
    const call = body.choices[0].message.tool_calls[0];
    assert.deepEqual([call.function.name, JSON.parse(call.function.arguments)], ['weather', { city: 'Oslo' }]);
    const { prompt } = (await post(server, '/apply-template', { messages: [...messages, { role: 'assistant', content: null, tool_calls: [call] }, { role: 'tool', tool_call_id: call.id, content: 'Rain.' }], tools })).body;
    for (const part of ['{"name":"weather"', '<tool_call>{"name": "weather", "arguments": {"city":"Oslo"}}</tool_call><|im_end|>', '<|im_start|>user\n<tool_response>\nRain.\n</tool_response><|im_end|>'])
        assert.ok(prompt.includes(part), prompt);
});
