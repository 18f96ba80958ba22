// encoder-model.mjs: writes a directory with a small BERT, for tests that need an encoder or a reranker.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const words = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', 'paris', 'is', 'the', 'capital', 'of', 'france', 'tea', 'what'];
const N = 16, FF = 24;

// The tensors of each part: [name, shape]. Norms are about 1, biases about 0.
const dense = (name, rows, columns) => [[name + '.weight', [rows, columns]], [name + '.bias', [rows]]];
const norm = (name) => [[name + '.weight', [N]], [name + '.bias', [N]]];
const layer = (i) => ['attention.self.query', 'attention.self.key', 'attention.self.value', 'attention.output.dense']
    .flatMap((name) => dense(`bert.encoder.layer.${i}.${name}`, N, N))
    .concat(norm(`bert.encoder.layer.${i}.attention.output.LayerNorm`),
        dense(`bert.encoder.layer.${i}.intermediate.dense`, FF, N), dense(`bert.encoder.layer.${i}.output.dense`, N, FF),
        norm(`bert.encoder.layer.${i}.output.LayerNorm`));
const tensors = (nLabels) => [['bert.embeddings.word_embeddings.weight', [words.length, N]],
    ['bert.embeddings.position_embeddings.weight', [32, N]], ['bert.embeddings.token_type_embeddings.weight', [2, N]],
    ...norm('bert.embeddings.LayerNorm'), ...layer(0), ...layer(1),
    ...(nLabels ? [...dense('bert.pooler.dense', N, N), ...dense('classifier', nLabels, N)] : [])];

// The same numbers on every machine.
function* numbers() {
    let state = 12345;
    for (;;) {
        state = (Math.imul(state, 1103515245) + 12345) >>> 0;
        yield state / 2 ** 32 - 0.5;
    }
}

function safetensors(list) {
    const random = numbers(), header = {}, values = [];
    for (const [name, shape] of list) {
        const count = shape.reduce((a, b) => a * b), begin = values.length * 4;
        const isNorm = name.includes('LayerNorm.weight');
        for (let i = 0; i < count; i++) values.push(isNorm ? 1 : random.next().value * 1.4);
        header[name] = { dtype: 'F32', shape, data_offsets: [begin, values.length * 4] };
    }
    const text = Buffer.from(JSON.stringify(header));
    const size = Buffer.alloc(8);
    size.writeBigUInt64LE(BigInt(text.length));
    return Buffer.concat([size, text, Buffer.from(new Float32Array(values).buffer)]);
}

// Without labels: an encoder without a head.
export function writeEncoder(folder, nLabels = 0) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'config.json'), JSON.stringify({
        model_type: 'bert', architectures: [nLabels ? 'BertForSequenceClassification' : 'BertModel'], vocab_size: words.length,
        hidden_size: N, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: FF, max_position_embeddings: 32,
        type_vocab_size: 2, id2label: Object.fromEntries(Array.from({ length: nLabels }, (_, i) => [i, 'LABEL_' + i])),
    }));
    writeFileSync(join(folder, 'model.safetensors'), safetensors(tensors(nLabels)));
    writeFileSync(join(folder, 'tokenizer_config.json'), JSON.stringify({ tokenizer_class: 'BertTokenizer' }));
    writeFileSync(join(folder, 'vocab.txt'), words.join('\n') + '\n');
    writeFileSync(join(folder, 'config_sentence_transformers.json'), JSON.stringify({ prompts: { query: 'what ' } }));
    return folder;
}
