// template.test.mjs: templates that write calls as no reader knows them.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { serve, template } from './server.mjs';

const folder = mkdtempSync(join(tmpdir(), 'engine-template-'));
after(() => rmSync(folder, { recursive: true }));

const post = async (server, path, body) => {
    const answer = await fetch(server.url + path, { method: 'POST', body: JSON.stringify(body) });
    return { status: answer.status, body: await answer.json() };
};
const messages = [{ role: 'user', content: 'What is 3 plus 4?' }];

test('tools are refused by templates whose calls nobody reads', async (t) => {
    const turns = (call) => `{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}${call}{% endfor %}<|im_end|>\n{% endfor %}<|im_start|>assistant\n`;
    const form = join(folder, 'other.jinja'), tools = [{ type: 'function', function: { name: 'f' } }];
    writeFileSync(form, turns('<tool_call>{{ c.function.name }}{% for k, v in c.function.arguments.items() %}<arg_key>{{ k }}</arg_key><arg_value>{{ v }}</arg_value>{% endfor %}</tool_call>'));
    for (const chosen of [form, 'gpt-oss']) { // the named templates know no tools
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
