// forced-model.mjs: writes a directory with a model whose replies are given. It is a small Mistral that knows one thing: which
// token follows which. The template ends each prompt with the token that begins the reply: the first one to a conversation
// without an answer, the second after one answer, and so on. Its vocabulary is the 256 bytes, so it can read any prompt, and
// one token for each piece of a reply.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const END = '<|im_end|>';

// The letters by which byte-level vocabularies write the 256 bytes: printable ones as they are, others from U+0100 on.
const letters = (() => {
    const isPlain = (b) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    let next = 256;
    return Array.from({ length: 256 }, (_, b) => String.fromCodePoint(isPlain(b) ? b : next++));
})();
const spelled = (text) => Array.from(Buffer.from(text), (b) => letters[b]).join('');

// Cuts a text into pieces of one length, of which none is a single byte or used by a reply before.
function pieces(text, used) {
    for (let length = 6; length <= text.length + 6; length++) {
        const list = text.match(new RegExp(`[^]{1,${length}}`, 'gu'));
        if (new Set(list).size < list.length || list.some((piece) => used.has(piece) || piece.length < 2)) continue;
        list.forEach((piece) => used.add(piece));
        return list;
    }
    throw new Error(`a reply is there already: ${text}`);
}

function safetensors(tensors) {
    const header = {}, data = [];
    let offset = 0;
    for (const [name, shape, values] of tensors) {
        header[name] = { dtype: 'F32', shape, data_offsets: [offset, (offset += values.byteLength)] };
        data.push(Buffer.from(values.buffer));
    }
    const text = Buffer.from(JSON.stringify(header));
    const size = Buffer.alloc(8);
    size.writeBigUInt64LE(BigInt(text.length));
    return Buffer.concat([size, text, ...data]);
}

// `template` is that of a conversation without what begins the reply.
export function writeForced(folder, template, replies) {
    const vocabulary = [...letters], used = new Set(), special = [END];
    const follows = new Map(); // token by the one before it
    const endOf = 256;
    vocabulary.push(END);
    replies.forEach((reply, i) => {
        let before = vocabulary.push(`<|reply ${i}|>`) - 1;
        special.push(vocabulary[before]);
        for (const piece of pieces(reply, used)) {
            const token = vocabulary.push(spelled(piece)) - 1;
            follows.set(before, token);
            before = token;
        }
        follows.set(before, endOf);
    });

    // A token's vector is 1 at its own place. Attention and feed-forward add nothing to it.
    const size = vocabulary.length, width = Math.ceil(size / 16) * 16, head = 16;
    const matrix = (rows, columns, ...ones) => {
        const values = new Float32Array(rows * columns);
        for (const [row, column] of ones) values[row * columns + column] = 1;
        return [[rows, columns], values];
    };
    const ones = [[width], new Float32Array(width).fill(1)];
    const layer = 'model.layers.0.';
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'model.safetensors'), safetensors([
        ['model.embed_tokens.weight', ...matrix(size, width, ...vocabulary.map((_, i) => [i, i]))],
        ['model.norm.weight', ...ones],
        ['lm_head.weight', ...matrix(size, width, ...Array.from(follows, ([before, token]) => [token, before]))],
        [layer + 'input_layernorm.weight', ...ones],
        [layer + 'post_attention_layernorm.weight', ...ones],
        ...['q_proj', 'k_proj', 'v_proj'].map((name) => [`${layer}self_attn.${name}.weight`, ...matrix(head, width)]),
        [layer + 'self_attn.o_proj.weight', ...matrix(width, head)],
        [layer + 'mlp.gate_proj.weight', ...matrix(32, width)],
        [layer + 'mlp.up_proj.weight', ...matrix(32, width)],
        [layer + 'mlp.down_proj.weight', ...matrix(width, 32)],
    ]));
    writeFileSync(join(folder, 'config.json'), JSON.stringify({
        model_type: 'mistral', architectures: ['MistralForCausalLM'], vocab_size: size, hidden_size: width, num_hidden_layers: 1,
        num_attention_heads: 1, num_key_value_heads: 1, head_dim: head, intermediate_size: 32, max_position_embeddings: 131072,
        sliding_window: 64, rms_norm_eps: 1e-6, rope_theta: 10000, hidden_act: 'silu', tie_word_embeddings: false,
        eos_token_id: endOf, bos_token_id: null,
    }));
    writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify({
        version: '1.0',
        added_tokens: special.map((content) => ({ id: vocabulary.indexOf(content), content, special: true, single_word: false,
            lstrip: false, rstrip: false, normalized: false })),
        normalizer: null,
        pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
        post_processor: null,
        decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
        model: { type: 'BPE', vocab: Object.fromEntries(vocabulary.map((text, i) => [text, i])), merges: [] },
    }));
    const begin = "{%- if add_generation_prompt %}{{- '<|reply ' ~ (messages | selectattr('role', 'equalto', 'assistant') | list | length) ~ '|>' }}{%- endif %}";
    writeFileSync(join(folder, 'tokenizer_config.json'), JSON.stringify({
        tokenizer_class: 'PreTrainedTokenizerFast', eos_token: END, chat_template: template + begin,
    }));
    return folder;
}
