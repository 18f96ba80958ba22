// fim-model.mjs: writes the demo model as one that knows tokens for filling in the middle of a text.
import { readFileSync, writeFileSync } from 'node:fs';
import { model } from './server.mjs';

const U32 = 4, STRING = 8;
const text = (value) => {
    const size = Buffer.alloc(8);
    size.writeBigUInt64LE(BigInt(Buffer.byteLength(value)));
    return Buffer.concat([size, Buffer.from(value)]);
};
const number = (value) => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value);
    return bytes;
};
const entry = (key, type, value) => Buffer.concat([text(key), number(type), value]);

// `tokens`: GGUF's names and the ids: { fim_pre: 3 }.
export function writeFimModel(path, tokens) {
    const file = readFileSync(model);
    const entries = Object.entries(tokens).map(([name, id]) => entry(`tokenizer.ggml.${name}_token_id`, U32, number(id)));
    // Weights stay aligned if what is added takes a multiple of 32 bytes.
    const size = Buffer.concat(entries).length + entry('fill', STRING, text('')).length;
    entries.push(entry('fill', STRING, text(' '.repeat(31 - ((size + 31) % 32)))));
    const head = Buffer.from(file.subarray(0, 24));
    head.writeBigUInt64LE(head.readBigUInt64LE(16) + BigInt(entries.length), 16);
    writeFileSync(path, Buffer.concat([head, ...entries, file.subarray(24)]));
    return path;
}
