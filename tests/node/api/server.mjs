// server.mjs: starts engine-serve for a test, and ends it. ENGINE_SERVE names the program, ENGINE_SOURCE the repository.
import { spawn } from 'node:child_process';
import { join } from 'node:path';

const source = process.env.ENGINE_SOURCE;
export const model = join(source, 'models/demo/demo.gguf');
// A template of tests/data/FOLDER.
export const template = (name, folder = 'server') => join(source, 'tests/data', folder, name + '.jinja');

// Resolves to { url, end() } once the server listens on a port of its own.
export function serve(...options) {
    const child = spawn(process.env.ENGINE_SERVE, ['-m', 'demo=' + model, '--port', '0', '--threads', '2', ...options], {
        stdio: ['ignore', 'inherit', 'pipe'],
    });
    let log = '';
    return new Promise((resolve, reject) => {
        const ended = new Promise((end) => child.once('exit', (status) => end(status)));
        ended.then((status) => reject(new Error(`engine-serve ended with ${status}: ${log}`)));
        child.stderr.on('data', (data) => {
            log += data;
            const url = /listening on (http:\/\/\S+)/.exec(log);
            if (!url) return;
            resolve({
                url: url[1],
                log: () => log,
                end: async () => {
                    child.kill('SIGTERM');
                    return ended;
                },
            });
        });
    });
}
