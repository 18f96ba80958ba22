// changed-model.mjs: writes the demo model with more metadata.
import { readFileSync, writeFileSync } from 'node:fs';
import { model } from './server.mjs';

const U32 = 4, F32 = 6, STRING = 8;
const text = (value) => {
    const size = Buffer.alloc(8);
    size.writeBigUInt64LE(BigInt(Buffer.byteLength(value)));
    return Buffer.concat([size, Buffer.from(value)]);
};
const number = (value) => {
    const bytes = Buffer.alloc(4);
    if (Number.isInteger(value)) bytes.writeUInt32LE(value);
    else bytes.writeFloatLE(value);
    return bytes;
};
const entry = (key, type, value) => Buffer.concat([text(key), number(type), value]);

// `metadata`: by GGUF's keys, in place of the model's, texts (or their bytes) and numbers; whole ones are stored as integers.
export function writeModel(path, metadata) {
    const file = readFileSync(model);
    const entries = Object.entries(metadata).map(([key, value]) =>
        typeof value === 'number' ? entry(key, Number.isInteger(value) ? U32 : F32, number(value)) : entry(key, STRING, text(value)));
    for (const key of Object.keys(metadata)) {
        const at = file.indexOf(text(key));
        if (at >= 0) file.write('~', at + 8 + key.length - 1); // another name
    }
    // Weights stay aligned if what is added takes a multiple of 32 bytes.
    const size = Buffer.concat(entries).length + entry('fill', STRING, text('')).length;
    entries.push(entry('fill', STRING, text(' '.repeat(31 - ((size + 31) % 32)))));
    const head = Buffer.from(file.subarray(0, 24));
    head.writeBigUInt64LE(head.readBigUInt64LE(16) + BigInt(entries.length), 16);
    writeFileSync(path, Buffer.concat([head, ...entries, file.subarray(24)]));
    return path;
}
