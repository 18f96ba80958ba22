// server.test.mjs: servers that tests start end with the tests, whatever happens to these.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { serve } from './server.mjs';

const program = fileURLToPath(new URL('./left-server.mjs', import.meta.url));
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const lives = (pid) => existsSync(`/proc/${pid}/stat`) && !/^\d+ \(.*\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));

for (const [way, signal] of [['return'], ['throw'], ['stay', 'SIGTERM'], ['stay', 'SIGKILL']]) {
    test(`the program that started it ends: ${signal ?? way}`, async () => {
        const child = spawn(process.execPath, [program, way], { stdio: ['ignore', 'pipe', 'ignore'] });
        const ended = new Promise((end) => child.once('exit', end));
        const pid = await new Promise((resolve) => child.stdout.on('data', (data) => resolve(Number(/pid (\d+)/.exec(data)[1]))));
        if (signal) child.kill(signal);
        await ended;
        while (lives(pid)) await pause(20); // for as long as ctest allows
    });
}

test('a server that ends by itself has a status', async () => {
    const server = await serve();
    assert.equal(await server.end(), 0);
    assert.equal(await server.end(), 0);
    assert.ok(!lives(server.pid));
    await assert.rejects(serve('--no-such-option'), /ended with 2/);
});
