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

test('errors', async () => {
    const none = await post('/infill', { model: 'demo', input_prefix: 'a', input_suffix: 'b' });
    assert.deepEqual([none.status, none.error.param], [400, 'input_prefix']);
    const extra = await post('/infill', { model: 'gap', input_prefix: 'a', input_suffix: 'b', input_extra: [{ filename: 'x' }] });
    assert.deepEqual([extra.status, extra.error.param], [400, 'input_extra']);
});
