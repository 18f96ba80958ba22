// foreign.test.mjs: requests in the form in which agents, libraries and other servers' clients send them, with fields that
// the server doesn't know or need. They are answered, and the log names what is ignored, once.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { serve, template } from './server.mjs';

let server;
before(async () => (server = await serve('--chat-template', template('hermes'))));
after(async () => assert.equal(await server.end(), 0));

const post = async (path, body, url = server.url) => {
    const answer = await fetch(url + path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
    const text = await answer.text();
    return { status: answer.status, text, json: text.startsWith('{') ? JSON.parse(text) : null };
};
const good = async (path, body, url) => {
    const answer = await post(path, body, url);
    assert.equal(answer.status, 200, `${JSON.stringify(body)}: ${answer.text}`);
    return answer.json ?? answer.text.split('\n').filter((line) => /^data: \{/.test(line)).map((line) => JSON.parse(line.slice(6)));
};
const refused = async (path, body, param) => {
    const answer = await post(path, body);
    assert.equal(answer.status, 400, `${JSON.stringify(body)}: ${answer.text}`);
    if (param) assert.equal(answer.json.error.param, param);
    return answer.json.error;
};
const messages = [{ role: 'user', content: 'What is 3 plus 4?' }];
const call = (name, given) => 'root ::= ' + JSON.stringify(`<tool_call>\n${JSON.stringify({ name, arguments: given })}\n</tool_call>`);
const schema = { type: 'object', properties: { id: { type: 'string', enum: ['a', 'b'] } }, required: ['id'], additionalProperties: false };
const fn = (name, more) => ({ type: 'function', name, description: 'It.', strict: false, parameters: schema, ...more });
const grammar = call('close', { id: 'a' });

test('chat, as libraries and other servers have it', async () => {
    for (const body of [
        // Ollama's, vLLM's and llama-server's fields
        { repetition_penalty: 1.1, think: false, keep_alive: '5m', options: { num_ctx: 4096 } },
        { think: 'high', enable_thinking: true, n_probs: 2, timings_per_token: true, n_keep: -1, cache_prompt: false, id_slot: -1 },
        { chat_template_kwargs: { enable_thinking: false }, min_tokens: 0, skip_special_tokens: true, top_a: 0 },
        { max_tokens: 3.0, temperature: 1, seed: 5.0, top_k: 20.0, n: 1.0 },
        // OpenAI's and its libraries'
        { stream_options: { include_usage: true }, tool_choice: 'auto', parallel_tool_calls: true, reasoning_effort: 'high' },
        { store: true, service_tier: 'flex', metadata: { a: 1 }, prediction: { type: 'content', content: 'x' }, verbosity: 'low' },
        { messages: [{ role: 'user', content: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral' }, providerOptions: {} }], id: 'm1' }] },
        { response_format: { type: 'json_object', schema_name: 'x' }, tools: [], thinking: { type: 'disabled' }, reasoning: { effort: 'low' } },
    ]) {
        await good('/v1/chat/completions', { messages, max_tokens: 3, ...body });
        await good('/v1/chat/completions', { messages, max_tokens: 3, ...body, stream: true });
    }
    const two = { messages, max_tokens: 8, seed: 1 };
    const alias = await good('/v1/chat/completions', { ...two, repetition_penalty: 1.8 });
    const own = await good('/v1/chat/completions', { ...two, repeat_penalty: 1.8 });
    assert.equal(alias.choices[0].message.content, own.choices[0].message.content);
    const probable = await good('/v1/chat/completions', { ...two, n_probs: 2 });
    assert.equal(probable.choices[0].logprobs.content[0].top_logprobs.length, 2);
    assert.equal((await good('/v1/chat/completions', { messages, max_tokens: 3.0 })).usage.completion_tokens, 3);
});

test('what is ignored is logged once', async () => {
    for (let i = 0; i < 3; i++) await good('/v1/chat/completions', { messages, max_tokens: 1, mood_of_the_day: i });
    assert.equal(server.log().split('mood_of_the_day').length, 2, server.log());
});

test('what would change no text is ignored', async () => {
    const functions = [{ name: 'f', parameters: schema }], most = { messages, max_tokens: 1 };
    const rivals = await good('/v1/chat/completions', { ...most, top_logprobs: 2 });
    assert.equal(rivals.choices[0].logprobs, null);
    await good('/v1/responses', { input: 'x', max_output_tokens: 1, top_logprobs: 2 });
    await good('/v1/chat/completions', { ...most, functions, function_call: 'none' });
    for (const name of ['top_logprobs', 'functions']) assert.match(server.log(), new RegExp(`"${name}" of a request`));
    for (const more of [{}, { function_call: 'auto' }]) await refused('/v1/chat/completions', { ...most, functions, ...more }, 'functions');
    await refused('/v1/chat/completions', { ...most, functions, function_call: { name: 'f' } });
    await refused('/v1/chat/completions', { ...most, functions: 5, function_call: 'none' }, 'functions');
});

test('numbers of calls, tools and metadata keep their digits', async () => {
    const number = 1234567890.55;
    const parameters = { type: 'object', properties: { n: { type: 'number', maximum: number } } };
    const { content } = await good('/v1/messages', { messages, max_tokens: 60, grammar: call('f', { n: number }), tools: [{ name: 'f', input_schema: parameters }] });
    assert.deepEqual(content[0].input, { n: number });
    const tools = [{ type: 'function', name: 'f', parameters }];
    const whole = await good('/v1/responses', { input: 'x', max_output_tokens: 1, tools, temperature: 0.7 });
    const [first] = await good('/v1/responses', { input: 'x', max_output_tokens: 1, tools, temperature: 0.7, stream: true });
    for (const response of [whole, first.response]) {
        assert.equal(response.tools[0].parameters.properties.n.maximum, number);
        assert.equal(response.temperature, 0.7);
    }
});

test('integers that no double holds are refused where a schema lists them', async () => {
    const ask = (field) => `{"messages": [{"role": "user", "content": "x", "enum": 18446744073709551615}], "max_tokens": 1, ${field}}`;
    const tools = (schema) => `"tools": [{"type": "function", "function": {"name": "f", "parameters": ${schema}}}]`;
    const answer = async (field) => {
        const { status, json } = await (async (body) => {
            const got = await fetch(server.url + '/v1/chat/completions', { method: 'POST', body });
            return { status: got.status, json: await got.json() };
        })(ask(field));
        return `${status} ${json.error?.message ?? ''}`;
    };
    for (const schema of ['{"const": 18446744073709551615}', '{"properties": {"a": {"enum": ["x", -9223372036854775809]}}}']) {
        assert.match(await answer(tools(schema)), /^400 "(const|enum)" of a schema has an integer of more than 64 bits/);
        assert.match(await answer(`"json_schema": ${schema}`), /^400 "(const|enum)" of a schema has an integer/);
    }
    for (const schema of ['{"const": 1e300}', '{"enum": [18446744073709551616, 0.1]}', '{"maximum": 18446744073709551615, "type": "integer"}'])
        assert.match(await answer(tools(schema)), /^200/);
});

test('what is logged is bounded', async () => {
    const other = await serve('--chat-template', template('hermes'));
    const names = Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`${i}`.repeat(40), i]));
    await good('/v1/chat/completions', { messages, max_tokens: 1, ...names }, other.url);
    await good('/v1/completions', { prompt: 'x', max_tokens: 1, ...names, one_more: 1 }, other.url);
    assert.equal(await other.end(), 0);
    const lines = other.log().split('\n').filter((line) => /unknown, and ignored/.test(line));
    assert.ok(lines.length > 0 && lines.length <= 256, `${lines.length}`); // fewer if they are read slowly
    assert.ok(lines.every((line) => line.length < 63 + 60), lines.at(-1));
});

// Values that are accepted, and some of the wrong type.
const everywhere = {
    repetition_penalty: [[1.1, 2], ['x', true, {}]], n_probs: [[2, 0, 1.0], ['x', true, -1]], think: [[true, 'high'], [3, 'a lot', {}]], enable_thinking: [[false], ['x', 1]],
    keep_alive: [['5m', 300, -1], [[], true]], n_keep: [[-1, 5], ['x', {}]], id_slot: [[-1, 0], ['x', []]], timings_per_token: [[true], [1, 'x']],
    store: [[true, false], ['x', 1]], service_tier: [['flex'], [5, {}]], client_metadata: [[{ a: 'b' }], ['x', []]], context_management: [[{ edits: [] }, []], ['x', 5]],
    n_indent: [[0, 4.0], [-1, 'x', 1.5]], t_max_prompt_ms: [[500], ['x', true]], t_max_predict_ms: [[1000, -1], ['x', []]], response_fields: [[[], ['content']], ['content', [5]]],
    samplers: [[['top_k', 'infill']], [5, {}]], parallel_tool_calls: [[true], ['x', 1]], stream_options: [[{}], ['x', true]], cache_control: [[{ type: 'ephemeral' }], ['x']],
    user: [['x'], [5]], metadata: [[{}], ['x', 5]], temperature: [[1, 0.5], ['x', true]], seed: [[3.0, 7], ['x', 1.5]], thinking: [[{ type: 'enabled' }, { type: 'disabled' }], ['x', {}, { type: 5 }]],
};

// Anthropic's errors name a field in their text.
const wrongly = async (path, body, name) => {
    const { message, param } = await refused(path, body);
    assert.ok(param === name || (/messages/.test(path) && message.includes(name)), `${path}: ${name}: ${message}`);
};

test('fields of other servers in every API, with the right type and with wrong ones', async () => {
    const apis = [['/v1/chat/completions', { messages, max_tokens: 1.0 }], ['/v1/completions', { prompt: 'x', max_tokens: 1.0 }], ['/v1/responses', { input: 'x', max_output_tokens: 1.0 }],
        ['/v1/messages', { messages, max_tokens: 1.0 }], ['/v1/messages/count_tokens', { messages }], ['/completion', { prompt: 'x', n_predict: 1.0 }], ['/apply-template', { messages }]];
    for (const [path, body] of apis) {
        for (const [name, [right, wrong]] of Object.entries(everywhere)) {
            for (const value of right) await good(path, { ...body, [name]: value });
            await good(path, { ...body, [name]: null });
            for (const value of wrong) await wrongly(path, { ...body, [name]: value }, name);
        }
        if (!/count|template/.test(path)) await wrongly(path, { ...body, [Object.keys(body)[1]]: 1.5 }, Object.keys(body)[1]);
    }
    // The same text as by the name that the API has for it.
    const text = { '/v1/completions': (a) => a.choices[0].text, '/v1/responses': (a) => a.output[0].content[0].text, '/v1/messages': (a) => a.content[0].text, '/completion': (a) => a.content };
    for (const [path, body] of apis.filter(([path]) => text[path])) {
        const write = async (more) => text[path](await good(path, { ...body, [Object.keys(body)[1]]: 20.0, temperature: 0, ...more }));
        assert.equal(await write({ repetition_penalty: 0.3 }), await write({ repeat_penalty: 0.3 }), path);
        assert.notEqual(await write({ repetition_penalty: 0.3 }), await write({}), path);
    }
});

// As Codex sends it: functions in a namespace, a tool whose input is a text, one that only OpenAI's servers have.
const codex = {
    stream: false, store: false, include: ['reasoning.encrypted_content'], prompt_cache_key: 'k', parallel_tool_calls: true, tool_choice: 'auto',
    reasoning: { effort: 'medium', summary: 'auto', context: null }, client_metadata: { session_id: 's' }, text: { verbosity: 'low' },
    tools: [fn('run'), { type: 'namespace', name: 'agents', description: 'Agents.', tools: [fn('close'), fn('wait', { defer_loading: true })] },
        { type: 'custom', name: 'patch', description: 'Edits.', format: { type: 'grammar', syntax: 'lark', definition: 'start: "x"' } },
        { type: 'web_search', external_web_access: true }],
    input: [
        { type: 'message', id: 'msg_1', role: 'developer', content: [{ type: 'input_text', text: 'Be brief.' }] },
        { type: 'message', id: 'msg_2', role: 'user', content: [{ type: 'input_text', text: 'Close it.' }], internal_chat_message_metadata_passthrough: {} },
    ],
};

test('a namespace: its functions are offered, and calls carry it', async () => {
    const small = { ...codex, tools: codex.tools.slice(1, 2) };
    const answer = await good('/v1/responses', { ...small, grammar });
    const [item] = answer.output;
    assert.deepEqual([item.type, item.namespace, item.name, item.arguments], ['function_call', 'agents', 'close', '{"id":"a"}']);
    const events = await good('/v1/responses', { ...small, grammar, stream: true });
    const items = events.filter((e) => e.item).map((e) => [e.type, e.item.namespace, e.item.name]);
    assert.deepEqual(items, [['response.output_item.added', 'agents', 'close'], ['response.output_item.done', 'agents', 'close']]);
    const forced = await good('/v1/responses', { ...small, tool_choice: { type: 'function', name: 'close', namespace: 'agents' }, seed: 1 });
    assert.deepEqual([forced.output[0].namespace, forced.output[0].name], ['agents', 'close']);
    const next = [...small.input, item, { type: 'function_call_output', id: 'fco', call_id: item.call_id, output: 'ok' }];
    await good('/v1/responses', { ...small, input: next, max_output_tokens: 2 });
    const allowed = await good('/v1/responses', { ...small, tool_choice: { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'close', namespace: 'agents' }] }, seed: 1 });
    assert.equal(allowed.output[0].name, 'close');
});

test('functions of the same name in two namespaces', async () => {
    const tools = ['left', 'right'].map((name) => ({ type: 'namespace', name, description: '', tools: [fn('close')] }));
    for (const space of ['left', 'right']) {
        const answer = await good('/v1/responses', { input: 'x', tools, grammar: call(`${space}__close`, { id: 'b' }) });
        assert.deepEqual([answer.output[0].namespace, answer.output[0].name], [space, 'close']);
        const forced = await good('/v1/responses', { input: 'x', tools, tool_choice: { type: 'function', name: 'close', namespace: space }, seed: 1 });
        assert.deepEqual([forced.output[0].namespace, forced.output[0].name], [space, 'close']);
    }
});

// The second name of each is what the first would become.
test('names in namespaces that clash with others', async () => {
    const space = (name, ...tools) => ({ type: 'namespace', name, description: '', tools });
    const forced = async (tools, tool_choice) => {
        const { output: [item] } = await good('/v1/responses', { input: 'x', tools, tool_choice, seed: 1 });
        return [item.name, item.namespace ?? null];
    };
    const small = (name) => ({ type: 'function', name });
    const choice = (name, namespace) => ({ type: 'function', name, ...(namespace && { namespace }) });
    const top = [small('close'), space('agents', small('close')), small('agents__close')];
    for (const wanted of [['close', null], ['close', 'agents'], ['agents__close', null]]) assert.deepEqual(await forced(top, choice(...wanted)), wanted);
    for (const spaces of [['a.b', 'a_b', 'ä', 'ö'], [1, 2].map((i) => 'there was a big dog '.repeat(8) + i)]) {
        const many = spaces.map((name) => space(name, small('f')));
        for (const name of spaces) assert.deepEqual(await forced(many, choice('f', name)), ['f', name]);
    }
    // Calls of before are shown by the same names; a namespace that isn't there is not another one.
    const { prompt_tokens: one } = await turn(top, 'close'), { prompt_tokens: other } = await turn(top, 'close', 'agents');
    assert.ok(other > one, `${one} ${other}`);
    await refused('/v1/responses', { input: 'x', tools: top, tool_choice: choice('close', 'elsewhere') }, 'tool_choice');
    const allowed = { type: 'allowed_tools', mode: 'required', tools: [{ type: 'namespace', name: 'agents' }] };
    assert.deepEqual(await forced(top, allowed), ['close', 'agents']);
    assert.deepEqual(await forced(top, { ...allowed, tools: [small('close')] }), ['close', null]);
});

const turn = async (tools, name, namespace) => {
    const called = { type: 'function_call', call_id: 'c', name, arguments: '{}', ...(namespace && { namespace }) };
    const { usage } = await good('/v1/responses', { tools, max_output_tokens: 1, input: [{ role: 'user', content: 'x' }, called, { type: 'function_call_output', call_id: 'c', output: 'r' }] });
    return { prompt_tokens: usage.input_tokens };
};

test('a tool whose input is a text', async () => {
    const tools = codex.tools.slice(2), input = '*** Begin "x"\n+ two\n';
    const answer = await good('/v1/responses', { input: 'x', tools, grammar: call('patch', { input }) });
    const [item] = answer.output;
    assert.deepEqual([item.type, item.name, item.input], ['custom_tool_call', 'patch', input]);
    const events = await good('/v1/responses', { input: 'x', tools, grammar: call('patch', { input }), stream: true });
    assert.equal(events.filter((e) => e.type === 'response.custom_tool_call_input.delta').map((e) => e.delta).join(''), input);
    assert.equal(events.find((e) => e.type === 'response.custom_tool_call_input.done').input, input);
    assert.ok(!events.some((e) => /function_call/.test(e.type)));
    const cut = await good('/v1/responses', { input: 'x', tools, grammar: call('patch', { input }), max_output_tokens: 60 });
    assert.equal(cut.output[0].status, 'incomplete');
    assert.ok(cut.output[0].input.length > 0 && input.startsWith(cut.output[0].input), cut.output[0].input);
    await good('/v1/responses', { tools, max_output_tokens: 2, input: [{ role: 'user', content: 'x' }, item, { type: 'custom_tool_call_output', call_id: item.call_id, output: 'ok' }] });
    const custom = [{ type: 'custom', custom: { name: 'patch', description: 'Edits.', format: { type: 'text' } } }];
    const chat = (await good('/v1/chat/completions', { messages, tools: custom, grammar: call('patch', { input }) })).choices[0];
    assert.deepEqual([chat.finish_reason, chat.message.tool_calls[0].type, chat.message.tool_calls[0].custom], ['tool_calls', 'custom', { name: 'patch', input }]);
    const forced = (await good('/v1/chat/completions', { messages, tools: custom, tool_choice: { type: 'custom', custom: { name: 'patch' } }, max_tokens: 200, seed: 1 })).choices[0];
    assert.equal(forced.message.tool_calls[0].custom.name, 'patch');
    await good('/v1/chat/completions', { messages: [...messages, chat.message, { role: 'tool', tool_call_id: chat.message.tool_calls[0].id, content: 'ok' }], max_tokens: 2 });
});

test('hosted tools are left out, and cannot be forced', async () => {
    for (const type of ['web_search', 'web_search_preview', 'file_search', 'code_interpreter', 'image_generation', 'computer_use_preview', 'mcp', 'local_shell', 'tool_search']) {
        const answer = await good('/v1/responses', { input: 'x', tools: [{ type }], max_output_tokens: 1 });
        assert.equal(answer.usage.input_tokens, (await good('/v1/responses', { input: 'x', max_output_tokens: 1 })).usage.input_tokens);
        await refused('/v1/responses', { input: 'x', tools: [{ type }], tool_choice: { type } }, 'tool_choice');
        await refused('/v1/responses', { input: 'x', tools: [{ type }], tool_choice: 'required' }, 'tool_choice');
    }
    await good('/v1/chat/completions', { messages, tools: [{ type: 'web_search' }], web_search_options: {}, max_tokens: 1 });
    await refused('/v1/chat/completions', { messages, tools: [{ type: 'web_search' }], tool_choice: { type: 'web_search' } }, 'tool_choice');
});

test('items of hosted tools in a conversation are left out', async () => {
    await good('/v1/responses', { max_output_tokens: 1, input: [{ role: 'user', content: 'x' },
        { type: 'reasoning', id: 'r', summary: [], encrypted_content: 'zzz' }, { type: 'web_search_call', id: 'w', status: 'completed', action: {} },
        { type: 'compaction', encrypted_content: 'z' }, { role: 'assistant', content: [{ type: 'output_text', text: 'y' }] }, { role: 'user', content: 'x' }] });
    // Also those of tools that are left out and that clients run.
    for (const kind of ['computer_call', 'local_shell_call', 'shell_call', 'apply_patch_call'])
        await good('/v1/responses', { max_output_tokens: 1, input: [{ role: 'user', content: 'x' }, { type: kind, id: 'i', call_id: 'c', status: 'completed', action: {} }, { type: `${kind}_output`, call_id: 'c', output: 'y' }] });
    await refused('/v1/responses', { input: [{ type: 'item_reference', id: 'x' }] }, 'input[0]');
});

// As instructor asks for a structure.
test('a format together with a call that is forced', async () => {
    const answer = await good('/v1/responses', { input: 'x', tools: [fn('close')], tool_choice: { type: 'function', name: 'close' }, seed: 1,
        text: { format: { type: 'json_schema', name: 'close', schema, strict: true } } });
    assert.equal(answer.output[0].name, 'close');
    assert.ok(['a', 'b'].includes(JSON.parse(answer.output[0].arguments).id));
    const tools = [{ type: 'function', function: { name: 'close', parameters: schema } }];
    const chat = await good('/v1/chat/completions', { messages, tools, tool_choice: { type: 'function', function: { name: 'close' } }, response_format: { type: 'json_object' }, seed: 1 });
    assert.equal(chat.choices[0].message.tool_calls[0].function.name, 'close');
    await refused('/v1/chat/completions', { messages, tools, tool_choice: 'required', grammar: 'root ::= "x"' }, 'grammar');
});

// As Claude Code sends it.
const claude = {
    max_tokens: 2, thinking: { type: 'adaptive' }, output_config: { effort: 'high' }, metadata: { user_id: 'u' },
    context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
    system: [{ type: 'text', text: 'You are an agent.', cache_control: { type: 'ephemeral', ttl: '1h' } }],
    tools: [{ name: 'Bash', description: 'Runs.', input_schema: schema, defer_loading: false, input_examples: [] }],
    messages: [{ role: 'user', content: [{ type: 'text', text: 'Say hello', cache_control: { type: 'ephemeral' } }] }, { role: 'system', content: 'Agents: none.' }],
};

test('messages, as Claude Code sends them', async () => {
    const first = await good('/v1/messages?beta=true', claude);
    assert.equal(first.role, 'assistant');
    await good('/v1/messages?beta=true', { ...claude, messages: [...claude.messages,
        { role: 'assistant', content: [{ type: 'thinking', thinking: 'Hm.', signature: '' }, { type: 'redacted_thinking', data: 'z' }, { type: 'tool_use', id: 'toolu_1', name: 'Bash', input: { id: 'a' }, caller: { type: 'direct' } }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', is_error: false, content: [{ type: 'text', text: 'hello' }, { type: 'tool_reference', tool_name: 'Read' }], cache_control: { type: 'ephemeral' } }] }] });
    await good('/v1/messages/count_tokens?beta=true', { messages: claude.messages, tools: claude.tools, thinking: { type: 'enabled', budget_tokens: 1024 } });
    for (const body of [{ thinking: { type: 'disabled' } }, { thinking: { type: 'adaptive', display: 'omitted' } }, { container: 'x', mcp_servers: [], betas: ['x'], speed: 'fast' },
        { output_config: { effort: 'max', task_budget: { type: 'tokens', total: 9 } } }, { output_format: { type: 'json_schema', schema }, max_tokens: 40 }])
        await good('/v1/messages', { ...claude, ...body });
});

test("Anthropic's tools: its clients' own have a schema, its servers' are left out", async () => {
    const counted = async (tools) => (await good('/v1/messages/count_tokens', { messages, tools })).input_tokens;
    const none = await counted([]);
    for (const [type, name] of [['bash_20250124', 'bash'], ['text_editor_20250728', 'str_replace_based_edit_tool'], ['memory_20250818', 'memory']])
        assert.ok(await counted([{ type, name }]) > none + 20, type);
    for (const [type, name] of [['web_search_20250305', 'web_search'], ['web_fetch_20250910', 'web_fetch'], ['code_execution_20250825', 'code_execution'], ['computer_20250124', 'computer']])
        assert.equal(await counted([{ type, name, display_width_px: 1, max_uses: 3 }]), none, type);
    const answer = await good('/v1/messages', { messages, max_tokens: 60, tools: [{ type: 'bash_20250124', name: 'bash' }], grammar: call('bash', { command: 'ls' }) });
    assert.deepEqual([answer.content[0].type, answer.content[0].name, answer.content[0].input], ['tool_use', 'bash', { command: 'ls' }]);
});

test('a thread is refused so that clients send the whole conversation', async () => {
    for (const thread of [{ type: 'create' }, { type: 'continue', previous_message_id: 'msg_1' }]) {
        const error = await refused('/v1/messages', { ...claude, thread });
        assert.equal(error.type, 'invalid_request_error');
        assert.deepEqual(error.details, { error_code: 'thread_unsupported_request', unsupported: ['thread'] });
    }
});

// All ways to say whether to reason, on templates that call it differently, and on one that knows nothing of it.
test('reasoning, on and off', async () => {
    for (const [name, own] of [['qwen3', 'enable_thinking'], ['granite3', 'thinking'], ['chatml', null]]) {
        const other = await serve('--chat-template', template(name, 'templates'));
        const prompt = async (body) => (await good('/apply-template', { messages, ...body }, other.url)).prompt;
        for (const on of [true, false]) {
            const expected = await prompt(own ? { chat_template_kwargs: { [own]: on } } : {});
            for (const body of [{ think: on }, { enable_thinking: on }, { chat_template_kwargs: { enable_thinking: on } }, { thinking: { type: on ? 'enabled' : 'disabled' } },
                { reasoning: { enabled: on } }, { reasoning: { effort: on ? 'high' : 'none' } }, { reasoning_effort: on ? 'high' : 'none' }])
                assert.equal(await prompt(body), expected, `${name}: ${JSON.stringify(body)}`);
        }
        if (own) assert.notEqual(await prompt({ think: true }), await prompt({ think: false }));
        assert.equal(await other.end(), 0);
    }
    const oss = await serve('--chat-template', template('gpt-oss', 'templates'));
    const prompt = async (body) => (await good('/apply-template', { messages, ...body }, oss.url)).prompt;
    assert.equal(await prompt({ think: 'high' }), await prompt({ reasoning_effort: 'high' }));
    assert.equal(await prompt({ think: false }), await prompt({}));
    assert.equal(await oss.end(), 0);
});

// Templates that take system messages anywhere, that refuse them in the middle or at all, and that leave them out in silence.
const places = { 'qwen2.5': 'takes', gemma2: 'refuses', gemma3: 'refuses', llama2: 'refuses', 'mistral-v3-tools': 'refuses', 'gpt-oss': 'leaves out', smollm3: 'leaves out', 'command-r': 'leaves out' };
const [system, user, assistant] = ['system', 'user', 'assistant'].map((role) => (content) => ({ role, content }));
const contents = (given) => given.map((message) => message.content).filter(Boolean);

test('system messages where templates have no place for them', async () => {
    const several = [[system('S1'), { role: 'developer', content: 'S2' }, user('U1'), system('S3'), assistant('A1'), user('U2'), system('S4')], [user('U1'), system('S1'), user('U2')]];
    for (const [name, does] of Object.entries(places)) {
        const other = await serve('--chat-template', template(name, 'templates'));
        const prompt = async (given) => {
            const { prompt } = await good('/apply-template', { messages: given }, other.url);
            for (const text of contents(given)) assert.ok(prompt.includes(text), `${name}: ${text} in ${prompt}`);
            return prompt;
        };
        for (const given of [...several, [system('S1'), user('U1')]]) assert.equal(await prompt(given), await prompt(given));
        assert.equal(other.log().split('no place for some system messages').length - 1, does === 'takes' ? 0 : 1, other.log());
        // Nothing but system messages, and other APIs' ways to have several.
        if (name !== 'command-r') await prompt([system('S1'), system('S2')]);
        const all = await good('/v1/messages/count_tokens', { system: 'S1', messages: [user('U1'), system('S2')] }, other.url);
        const half = await good('/v1/messages/count_tokens', { system: 'S1', messages: [user('U1')] }, other.url);
        assert.ok(all.input_tokens > half.input_tokens, name);
        await good('/v1/responses', { instructions: 'S1', input: [{ role: 'developer', content: 'S2' }, user('U1'), system('S3')], max_output_tokens: 1 }, other.url);
        assert.equal(await other.end(), 0);
        const strict = await serve('--chat-template', template(name, 'templates'), '--strict');
        assert.equal((await post('/apply-template', { messages: several[0] }, strict.url)).status, does === 'refuses' ? 400 : 200);
        assert.equal(await strict.end(), 0);
    }
});

// A text that a template changes is not one that it leaves out.
test('a system message that says how to reason stays where it is', async () => {
    const other = await serve('--chat-template', template('smollm3', 'templates'));
    const { prompt } = await good('/apply-template', { messages: [system('/no_think'), user('U1')] }, other.url);
    assert.ok(prompt.includes('user\nU1<|im_end|>'), prompt);
    assert.ok(!other.log().includes('no place'), other.log());
    assert.equal(await other.end(), 0);
});

// As Claude Code has it: texts of the user, and system messages, beside and after results of tools.
test('what follows the results of tools', async () => {
    const tools = [{ name: 'f', input_schema: { type: 'object', properties: {} } }];
    const use = { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu0001', name: 'f', input: {} }] };
    const result = (...more) => ({ role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu0001', content: 'R1' }, ...more] });
    for (const name of ['mistral-v3-tools', 'qwen3', 'llama3', 'gpt-oss']) {
        const other = await serve('--chat-template', template(name, 'templates'), '-c', '512');
        const count = async (given) => (await good('/v1/messages/count_tokens', { system: 'S1', tools, messages: given }, other.url)).input_tokens;
        const base = await count([user('U1'), use, result()]);
        for (const given of [
            [user('U1'), use, result({ type: 'text', text: 'U2' })],
            [user('U1'), use, result(), system('S2')],
            [user('U1'), use, result({ type: 'text', text: 'U2' }), assistant('A1'), user('U3'), user('U4')],
            [user('U1'), system('S2'), use, result(), user('U2')],
            [user('U1'), use, system('S2'), result(), assistant('A1'), user('U2')],
        ]) assert.ok(await count(given) > base, `${name}: ${JSON.stringify(given)}`);
        assert.equal(await other.end(), 0);
    }
});
