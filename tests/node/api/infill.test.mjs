// infill.test.mjs: filling in the middle of a text, with prompts as llama.cpp's server makes them.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { writeModel } from './changed-model.mjs';
import { serve } from './server.mjs';

let folder, server;
const id = (name) => `tokenizer.ggml.${name}_token_id`;
const marks = { [id('fim_pre')]: 3, [id('fim_suf')]: 4, [id('fim_mid')]: 5 };

before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'engine-infill-'));
    const gap = writeModel(join(folder, 'gap.gguf'), marks);
    const project = writeModel(join(folder, 'project.gguf'), { ...marks, [id('fim_rep')]: 6, [id('fim_sep')]: 7 });
    server = await serve('-m', 'gap=' + gap, '-m', 'project=' + project);
});
after(async () => {
    assert.equal(await server.end(), 0);
    rmSync(folder, { recursive: true });
});

const post = async (path, body) => {
    const response = await fetch(server.url + path, {
        method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ temperature: 0, ...body }),
    });
    return { status: response.status, ...(await response.json()) };
};
const ids = async (content) => (await fetch(server.url + '/tokenize', {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ content, parse_special: false }),
}).then((r) => r.json())).tokens;

// What the model writes after these tokens, and how many they are.
const expect = async (body, prompt) => {
    const filled = await post('/infill', { input_prefix: 'Once upon', input_suffix: 'time', n_predict: 6, ...body });
    const plain = await post('/v1/completions', { model: body.model, prompt, max_tokens: 6 });
    assert.equal(filled.status, 200, JSON.stringify(filled));
    assert.equal(filled.content, plain.choices[0].text);
    assert.equal(filled.tokens_evaluated, prompt.length);
    assert.equal(filled.stop, true);
};
const BOS = 1;

test('between two texts', async () => {
    const gap = [BOS, 3, ...await ids('Once upon'), 4, ...await ids('time'), 5];
    await expect({ model: 'gap' }, gap);
    const suffix = await post('/v1/completions', { model: 'project', prompt: 'Once upon', suffix: 'time', max_tokens: 6 });
    const plain = await post('/v1/completions', { model: 'project', prompt: gap, max_tokens: 6 });
    assert.equal(suffix.choices[0].text, plain.choices[0].text);
});

test('the line that is begun goes on with the prefix, and no text is a special token', async () => {
    const begun = [...await ids('Once upon'), ...await ids(' <|im_end|>')];
    await expect({ model: 'gap', prompt: ' <|im_end|>' }, [BOS, 3, ...begun, 4, ...await ids('time'), 5]);
});

test('other files', async () => {
    const gap = [BOS, 3, ...await ids('Once upon'), 4, ...await ids('time'), 5];
    const extra = [{ filename: 'a.c', text: 'The cat' }, { text: 'The dog' }];
    const line = async (text) => [...await ids(text), ...await ids('\n')];
    const snippet = await ids('\n\n--- snippet ---\n\n');
    await expect({ model: 'gap', input_extra: extra },
        [...snippet, ...await ids('The cat'), ...snippet, ...await ids('The dog'), ...gap]);
    await expect({ model: 'project', input_extra: extra },
        [6, ...await line('myproject'), 7, ...await line('a.c'), ...await ids('The cat'),
            7, ...await line('tmp'), ...await ids('The dog'), 7, ...await line('filename'), ...gap]);
    await expect({ model: 'project' }, [6, ...await line('myproject'), 7, ...await line('filename'), ...gap]);
});

const lines = (text) => 'root ::= ' + JSON.stringify(text);
const fields = ['content', 'timings/prompt_n', 'timings/prompt_ms', 'timings/prompt_per_token_ms', 'timings/prompt_per_second',
    'timings/predicted_n', 'timings/predicted_ms', 'timings/predicted_per_token_ms', 'timings/predicted_per_second', 'truncated', 'tokens_cached'];

// As llama.vim and llama.vscode send it.
test("editors' requests", async () => {
    const vim = { model: 'project', id_slot: 0, input_prefix: 'Once upon', input_suffix: 'time', input_extra: [{ text: 'The cat', time: [1, 2], filename: 'a.c' }], prompt: ' a',
        n_predict: 4, stop: [], n_indent: 0, top_k: 40, top_p: 0.9, stream: false, samplers: ['top_k', 'top_p', 'infill'], cache_prompt: true, t_max_prompt_ms: 500, t_max_predict_ms: 1000, response_fields: fields };
    const answer = await post('/infill', vim);
    assert.deepEqual(Object.keys(answer), ['status', ...fields], JSON.stringify(answer));
    assert.deepEqual([answer.status, answer.truncated], [200, false]);
    assert.ok(answer['timings/predicted_n'] >= 1 && answer['timings/predicted_n'] <= 4);
    assert.ok(answer['timings/prompt_per_second'] > 0 && answer['timings/predicted_ms'] > 0);
    // The first one only fills the cache.
    const warm = await post('/infill', { ...vim, prompt: '', n_predict: 0, samplers: [], t_max_prompt_ms: 1, t_max_predict_ms: 1, response_fields: [''] });
    assert.deepEqual(warm, { status: 200 });
    const code = await post('/infill', { model: 'gap', input_prefix: 'a', input_suffix: 'b', input_extra: [], prompt: '', n_predict: 4, top_k: 40, top_p: 0.99, stream: false,
        samplers: ['top_k', 'top_p', 'infill'], cache_prompt: true, t_max_prompt_ms: 500, t_max_predict_ms: 2500, n_indent: 4 });
    assert.ok(code.timings.predicted_n > 0 && code.stop && code.tokens_predicted === code.timings.predicted_n);
});

test('a text ends with a line that is indented less, or when its time is over', async () => {
    const body = { model: 'gap', input_prefix: 'a', input_suffix: 'b', grammar: lines('x\n    y\n   z\n  w\n') };
    const ended = async (more) => {
        const whole = await post('/infill', { ...body, ...more });
        assert.equal(whole.status, 200, JSON.stringify(whole));
        const stream = await (await fetch(server.url + '/infill', { method: 'POST', body: JSON.stringify({ temperature: 0, ...body, ...more, stream: true }) })).text();
        const parts = stream.split('\n').filter((line) => line.startsWith('data: ')).map((line) => JSON.parse(line.slice(6)));
        assert.equal(parts.map((part) => part.content).join(''), whole.content);
        assert.equal(parts.at(-1).stop_type, whole.stop_type);
        return [whole.content, whole.stop_type];
    };
    assert.deepEqual(await ended({}), ['x\n    y\n   z\n  w\n', 'eos']);
    assert.deepEqual(await ended({ n_indent: 2 }), ['x\n    y\n   z\n  w\n', 'eos']);
    assert.deepEqual(await ended({ n_indent: 3 }), ['x\n    y\n   z\n  ', 'limit']);
    assert.deepEqual(await ended({ n_indent: 5 }), ['x\n    ', 'limit']);
    assert.deepEqual(await ended({ t_max_predict_ms: 0.0001 }), ['x\n', 'limit']);
    assert.deepEqual(await ended({ t_max_predict_ms: -1, n_indent: 0 }), ['x\n    y\n   z\n  w\n', 'eos']);
    for (const wrong of [{ n_indent: -1 }, { n_indent: 'x' }, { t_max_predict_ms: 'x' }, { response_fields: 'content' }, { timings_per_token: 1 }]) {
        const answer = await post('/infill', { ...body, ...wrong });
        assert.deepEqual([answer.status, answer.error?.param], [400, Object.keys(wrong)[0]]);
    }
});

test('/completion, as in llama.cpp', async () => {
    const plain = await post('/v1/completions', { prompt: 'Once upon a time', max_tokens: 6 });
    const answer = await post('/completion', { prompt: 'Once upon a time', n_predict: 6, n_probs: 2, cache_prompt: false, id_slot: -1, return_tokens: false });
    assert.equal(answer.content, plain.choices[0].text);
    assert.deepEqual([answer.stop, answer.stop_type, answer.tokens_predicted], [true, 'limit', 6]);
    assert.equal(answer.completion_probabilities.length, 6);
    assert.equal(answer.completion_probabilities[0].top_logprobs.length, 2);
    const stopped = await post('/completion', { prompt: 'Once upon a time', stop: [','], n_predict: 20 });
    assert.deepEqual([stopped.stop_type, stopped.stopping_word], ['word', ',']);
    const several = await post('/completion', { prompt: ['a', 'b'] });
    assert.deepEqual([several.status, several.error.param], [400, 'prompt']);
    const timed = await post('/v1/chat/completions', { messages: [{ role: 'user', content: 'x' }], max_tokens: 2, timings_per_token: true });
    assert.equal(timed.timings.predicted_n, 2);
});

test('errors', async () => {
    const none = await post('/infill', { model: 'demo', input_prefix: 'a', input_suffix: 'b' });
    assert.deepEqual([none.status, none.error.param], [400, 'input_prefix']);
    const extra = await post('/infill', { model: 'gap', input_prefix: 'a', input_suffix: 'b', input_extra: [{ filename: 'x' }] });
    assert.deepEqual([extra.status, extra.error.param], [400, 'input_extra']);
});
