// server.mjs: starts engine-serve for a test, and ends it. ENGINE_SERVE names the program, ENGINE_SOURCE the repository.
import { spawn } from 'node:child_process';
import { join } from 'node:path';

const source = process.env.ENGINE_SOURCE;
export const model = join(source, 'models/demo/demo.gguf');
// A template of tests/data/FOLDER.
export const template = (name, folder = 'server') => join(source, 'tests/data', folder, name + '.jinja');

// Kills a process when this one is gone, however it ended: then a pipe closes. A server that a test left running, because an
// assertion failed before its end, neither outlives the tests nor keeps them waiting. Of a `detached` process its children
// end, too, and when it ends itself.
export function tie(child, detached = false) {
    const whom = detached ? -child.pid : child.pid;
    const keeper = spawn('sh', ['-c', 'read -r line; kill -KILL "$1"', 'sh', String(whom)], { stdio: ['pipe', 'ignore', 'ignore'] });
    child.once('exit', () => (detached ? keeper.stdin.end() : keeper.kill()));
    for (const handle of [keeper, keeper.stdin]) handle.unref();
}

// Resolves to { url, pid, log(), end() } once the server listens on a port of its own. end() resolves to its status.
export function serve(...options) {
    const child = spawn(process.env.ENGINE_SERVE, ['-m', 'demo=' + model, '--port', '0', '--threads', '2', ...options], {
        stdio: ['ignore', 'inherit', 'pipe'],
    });
    let log = '';
    return new Promise((resolve, reject) => {
        child.once('error', reject);
        child.once('spawn', () => tie(child));
        const ended = new Promise((end) => child.once('exit', (status) => end(status)));
        ended.then((status) => reject(new Error(`engine-serve ended with ${status}: ${log}`)));
        child.stderr.on('data', (data) => {
            log += data;
            const url = /listening on (http:\/\/\S+)/.exec(log);
            if (!url) return;
            for (const handle of [child, child.stderr]) handle.unref();
            resolve({
                url: url[1],
                pid: child.pid,
                log: () => log,
                end: async () => {
                    child.ref();
                    child.kill('SIGTERM');
                    const timer = setTimeout(() => child.kill('SIGKILL'), 60_000); // its status is then null
                    const status = await ended;
                    clearTimeout(timer);
                    return status;
                },
            });
        });
    });
}
