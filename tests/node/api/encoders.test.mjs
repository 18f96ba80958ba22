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
});

test('what is wrong with a request is said', async () => {
    const wrong = [
        [{ ...rank, query: undefined }, 'query'], [{ ...rank, query: ['a'] }, 'query'], [{ ...rank, documents: [] }, 'documents'],
        [{ ...rank, documents: 'tea' }, 'documents'], [{ ...rank, documents: ['tea', 7] }, 'documents'],
        [{ ...rank, top_n: 0 }, 'top_n'], [{ ...rank, return_documents: 1 }, 'return_documents'], [{ ...rank, foo: 1 }, 'foo'],
        [{ ...rank, documents: [{ text: 'tea', title: 'x' }] }, 'documents[0].title'],
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
