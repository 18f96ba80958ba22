// encoders.test.mjs: models that write no texts: /v1/rerank, embeddings, and what is refused.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { writeEncoder } from './encoder-model.mjs';
import { serve } from './server.mjs';

let server, folder;

before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'engine-encoders-'));
    server = await serve('-m', 'reranker=' + writeEncoder(join(folder, 'reranker'), 1),
        '-m', 'labels=' + writeEncoder(join(folder, 'labels'), 3), '-m', 'encoder=' + writeEncoder(join(folder, 'encoder')));
});
after(async () => {
    assert.equal(await server.end(), 0);
    rmSync(folder, { recursive: true });
});

const post = async (path, body) => {
    const answer = await fetch(server.url + path, { method: 'POST', body: JSON.stringify(body) });
    return { status: answer.status, json: await answer.json() };
};
const documents = ['tea is tea', 'paris is the capital of france', 'what'];
const rank = { model: 'reranker', query: 'what is the capital of france', documents };

test('documents come the best first, in the shape of Jina and Cohere', async () => {
    const { status, json } = await post('/v1/rerank', rank);
    assert.equal(status, 200);
    assert.equal(json.object, 'list');
    assert.equal(json.model, 'reranker');
    assert.deepEqual(json.results.map((result) => result.index).sort(), [0, 1, 2]);
    const scores = json.results.map((result) => result.relevance_score);
    assert.deepEqual(scores, [...scores].sort((a, b) => b - a));
    assert.notEqual(scores[0], scores[2]);
    assert.ok(json.results.every((result) => result.document === undefined));
    /* [CLS] and two [SEP] around six words, and around each document's */
    assert.equal(json.usage.prompt_tokens, 3 * 9 + 3 + 6 + 1);
    assert.equal(json.usage.total_tokens, json.usage.prompt_tokens);
    for (const result of json.results) {
        const alone = await post(result.index ? '/rerank' : '/v2/rerank', { ...rank, documents: [documents[result.index]] });
        assert.equal(alone.json.results[0].relevance_score, result.relevance_score);
    }
});

test('top_n, return_documents, documents as objects', async () => {
    const { json } = await post('/v1/rerank', { ...rank, top_n: 1, return_documents: true });
    const best = (await post('/v1/rerank', rank)).json.results[0];
    assert.deepEqual(json.results, [{ ...best, document: { text: documents[best.index] } }]);
    const objects = await post('/v1/rerank', { ...rank, documents: documents.map((text) => ({ text })), top_n: 10 });
    assert.equal(objects.json.results.length, 3);
    assert.deepEqual(objects.json.results[0], best);
});

test('a prompt is put before each text', async () => {
    /* a directory's, as sentence-transformers writes it */
    const input = (model, body) => post('/v1/embeddings', { model, ...body });
    const named = await input('encoder', { input: ['tea'], prompt_name: 'query' });
    assert.equal(named.status, 200, JSON.stringify(named.json));
    assert.deepEqual(named.json.data, (await input('encoder', { input: 'what tea' })).json.data);
    assert.notDeepEqual(named.json.data, (await input('encoder', { input: 'tea' })).json.data);
    const wrong = await input('encoder', { input: 'tea', prompt_name: 'answer' });
    assert.equal(wrong.status, 400);
    assert.equal(wrong.json.error.param, 'prompt_name');
    assert.match(wrong.json.error.message, /it has query/);
    /* A task needs its adapter. */
    const task = await input('encoder', { input: 'tea', task: 'retrieval.query' });
    assert.equal(task.status, 400);
    assert.equal(task.json.error.param, 'task');
});

test('what is wrong with a request is said', async () => {
    const wrong = [
        [{ ...rank, query: undefined }, 'query'], [{ ...rank, query: ['a'] }, 'query'], [{ ...rank, documents: [] }, 'documents'],
        [{ ...rank, documents: 'tea' }, 'documents'], [{ ...rank, documents: ['tea', 7] }, 'documents'],
        [{ ...rank, top_n: 0 }, 'top_n'], [{ ...rank, return_documents: 1 }, 'return_documents'],
        [{ ...rank, documents: ['tea '.repeat(40)] }, 'documents'], [{ ...rank, model: 'labels' }, 'model'],
        [{ ...rank, model: 'encoder' }, 'model'], [{ ...rank, model: 'demo' }, 'model'],
    ];
    for (const [body, param] of wrong) {
        const { status, json } = await post('/v1/rerank', body);
        assert.equal(status, 400, JSON.stringify(body));
        assert.equal(json.error.param, param, json.error.message);
        assert.doesNotMatch(json.error.message, /\n/);
    }
    assert.equal((await post('/v1/rerank', { ...rank, model: 'nobody' })).status, 404);
});

test('fields on which nothing depends may be there, with a value of their type', async () => {
    const ask = { model: 'encoder', input: 'tea' };
    const unlike = { user: 'x', store: true, keep_alive: '5m', metadata: {}, priority: 1, service_tier: 'auto', lora: [], input_type: 'query', mood: [1], dimensions: undefined };
    const plain = await post('/v1/embeddings', ask);
    assert.deepEqual((await post('/v1/embeddings', { ...ask, ...unlike })).json.data, plain.json.data);
    for (const name of ['input_type', 'mood']) assert.equal(server.log().split(`"${name}"`).length, 2, server.log());
    assert.ok(!/"(user|store|keep_alive|metadata|priority|service_tier|lora)"/.test(server.log()), server.log());
    for (const [name, value] of Object.entries({ user: 5, store: 'x', keep_alive: [], metadata: 'x', lora: [{ id: 0 }] })) {
        const { status, json } = await post('/v1/embeddings', { ...ask, [name]: value });
        assert.deepEqual([status, json.error.param], [400, name]);
    }
});

test('texts that are too long are refused by name, or cut', async () => {
    const long = 'tea '.repeat(40), cut = 'tea '.repeat(30); // the model reads 32 tokens, two of them special
    const refused = await post('/v1/embeddings', { model: 'encoder', input: ['tea', long] });
    assert.equal(refused.status, 400);
    assert.equal(refused.json.error.code, 'context_length_exceeded');
    assert.match(refused.json.error.message, /"input"\[1\] has 42 tokens, but the model reads at most 32/);
    const whole = (await post('/v1/embeddings', { model: 'encoder', input: ['tea', cut] })).json;
    for (const how of [{ truncate: true }, { truncate_prompt_tokens: -1 }, { truncate_prompt_tokens: 32 }]) {
        const { status, json } = await post('/v1/embeddings', { model: 'encoder', input: ['tea', long], ...how });
        assert.equal(status, 200, JSON.stringify(json));
        assert.deepEqual(json, whole);
    }
    const few = await post('/v1/embeddings', { model: 'encoder', input: 'tea paris what', truncate_prompt_tokens: 4 });
    assert.deepEqual(few.json, (await post('/v1/embeddings', { model: 'encoder', input: 'tea paris' })).json);
    const ranked = await post('/v1/rerank', { ...rank, documents: ['tea', long], truncate: true });
    assert.equal(ranked.status, 200);
    assert.equal(ranked.json.usage.prompt_tokens, 3 + 6 + 1 + 32);
    assert.match((await post('/v1/rerank', { ...rank, documents: ['tea', long], truncate: false })).json.error.message, /"documents"\[1\] has 49 tokens/);
    assert.match((await post('/v1/rerank', { ...rank, documents: undefined, texts: ['tea', long] })).json.error.message, /"texts"\[1\] has 49 tokens/);
    for (const [field, value] of [['truncate', 1], ['truncate', 'yes'], ['truncate_prompt_tokens', 0], ['truncate_prompt_tokens', 33]]) {
        const wrong = await post('/v1/embeddings', { model: 'encoder', input: 'tea', [field]: value });
        assert.equal(wrong.status, 400);
        assert.equal(wrong.json.error.param, field);
    }
});

test('engine serve --truncate cuts unless a request forbids it', async () => {
    const other = await serve('--truncate', '-m', 'encoder=' + join(folder, 'encoder'));
    const ask = async (body) => (await fetch(other.url + '/v1/embeddings', { method: 'POST', body: JSON.stringify({ model: 'encoder', input: 'tea '.repeat(40), ...body }) })).status;
    assert.equal(await ask({}), 200);
    assert.equal(await ask({ truncate: false }), 400);
    assert.equal(await other.end(), 0);
});

test('an encoder gives embeddings and writes no texts', async () => {
    for (const model of ['encoder', 'reranker']) {
        const { status, json } = await post('/v1/embeddings', { model, input: ['tea', 'paris'] });
        assert.equal(status, 200);
        assert.equal(json.data[0].embedding.length, 16);
        assert.ok(Math.abs(Math.hypot(...json.data[1].embedding) - 1) < 1e-5);
    }
    const messages = [{ role: 'user', content: 'tea' }];
    const bodies = {
        '/v1/chat/completions': { messages }, '/v1/completions': { prompt: 'tea' }, '/v1/responses': { input: 'tea' },
        '/v1/messages': { messages, max_tokens: 4 }, '/infill': { input_prefix: 'tea', input_suffix: 'what' },
        '/score': { prompt: 'tea', answers: [' is'] },
    };
    for (const [path, body] of Object.entries(bodies)) {
        for (const stream of [false, true]) {
            const { status, json } = await post(path, { ...body, model: 'encoder', ...(stream && path !== '/score' ? { stream } : {}) });
            assert.equal(status, 400, path + ' ' + JSON.stringify(json));
            assert.match(json.error.message, /encoder/, path);
        }
    }
});

test('the list of models says which are encoders', async () => {
    const list = (await (await fetch(server.url + '/v1/models')).json()).data;
    const is = (name) => list.find((model) => model.id === name).meta?.is_encoder;
    assert.equal(is('encoder'), true);
    assert.equal(is('demo'), false);
});
