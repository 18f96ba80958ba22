// agents.test.mjs: coding agents hold a conversation with the server, with tools, as their users start them. The model's
// replies are given (forced-model.mjs); the agents send what they send, and do what the replies ask for.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { serve, template, tie } from '../api/server.mjs';
import { writeForced } from './forced-model.mjs';

const programs = join(dirname(fileURLToPath(import.meta.url)), 'node_modules', '.bin');
const call = (name, args) => `<tool_call>\n{"name": "${name}", "arguments": ${JSON.stringify(args)}}\n</tool_call>`;
const hermes = readFileSync(template('hermes'), 'utf8');

// A folder for each agent with its home and what it works on, so that nothing of this machine's user is read or changed.
const root = mkdtempSync(join(tmpdir(), 'engine-agents-'));
after(() => rmSync(root, { recursive: true, force: true }));

async function start(name, replies) {
    const folder = join(root, name);
    const work = join(folder, 'work'), home = join(folder, 'home');
    for (const path of [work, home]) mkdirSync(path, { recursive: true });
    const model = writeForced(join(folder, 'model'), hermes, replies(work));
    return { work, home, server: await serve('-m', `forced=${model}`, '-c', '131072') };
}

// Runs an agent to its end: its standard output and error.
function run(program, options, { cwd, env }) {
    return new Promise((resolve, reject) => {
        const child = spawn(join(programs, program), options, {
            cwd, env: { PATH: process.env.PATH, ...env }, stdio: ['ignore', 'pipe', 'pipe'], detached: true,
        });
        child.once('spawn', () => tie(child, true));
        let out = '', err = '';
        child.stdout.on('data', (data) => (out += data));
        child.stderr.on('data', (data) => (err += data));
        child.once('error', reject);
        child.once('exit', (status, signal) => resolve({ status, signal, out, err }));
    });
}

async function end(server, name) {
    assert.equal(await server.end(), 0);
    const { ENGINE_AGENT_LOGS: logs } = process.env; // a folder, to look at what the server said
    if (logs) writeFileSync(join(logs, name + '.log'), server.log());
}

test('Codex', async () => {
    const { work, home, server } = await start('codex', () => [
        call('exec_command', { cmd: 'echo from the shell > note.txt' }),
        'Now I read it. ' + call('exec_command', { cmd: 'cat note.txt' }),
        'The note is written.',
        'It was the first question.',
    ]);
    try {
        writeFileSync(join(home, 'config.toml'), [
            'model = "forced"', 'model_provider = "engine"', 'check_for_update_on_startup = false',
            '[model_providers.engine]', 'name = "engine"', `base_url = "${server.url}/v1"`, 'wire_api = "responses"',
            'request_max_retries = 0', 'stream_max_retries = 0', '[analytics]', 'enabled = false', '[otel]', 'exporter = "none"',
        ].join('\n'));
        const how = { cwd: work, env: { HOME: home, CODEX_HOME: home } };
        const options = ['--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox'];
        const first = await run('codex', ['exec', ...options, 'Write a note.'], how);
        assert.equal(first.status, 0, first.err + server.log());
        assert.equal(readFileSync(join(work, 'note.txt'), 'utf8'), 'from the shell\n');
        assert.equal(first.out, 'The note is written.\n');
        assert.match(first.err, /Now I read it\.[^]*cat note\.txt[^]*from the shell/);
        const second = await run('codex', ['exec', 'resume', '--last', ...options, 'What was it?'], how);
        assert.equal(second.out, 'It was the first question.\n', second.err + server.log());
    } finally {
        await end(server, 'codex');
    }
});

test('Claude Code', async () => {
    const { work, home, server } = await start('claude', (folder) => [
        'First the shell.\n' + call('Bash', { command: 'echo from the shell > note.txt', description: 'Write' }),
        call('Write', { file_path: join(folder, 'more.txt'), content: 'more\n' }),
        'Both are written.',
        'It was the first question.',
    ]);
    try {
        const how = { cwd: work, env: {
            HOME: home, ANTHROPIC_BASE_URL: server.url, ANTHROPIC_API_KEY: 'none', ANTHROPIC_MODEL: 'forced', ANTHROPIC_SMALL_FAST_MODEL: 'forced',
            DISABLE_TELEMETRY: '1', DISABLE_ERROR_REPORTING: '1', DISABLE_AUTOUPDATER: '1', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
            CLAUDE_CODE_MAX_RETRIES: '0',
        } };
        const options = ['--allowedTools', 'Bash', 'Write', '--output-format', 'json'];
        const first = await run('claude', ['-p', 'Write two notes.', ...options], how);
        assert.equal(first.status, 0, first.out + first.err + server.log());
        const result = JSON.parse(first.out);
        assert.equal(result.result, 'Both are written.');
        assert.equal(result.is_error, false);
        assert.equal(result.num_turns, 3);
        assert.equal(readFileSync(join(work, 'note.txt'), 'utf8'), 'from the shell\n');
        assert.equal(readFileSync(join(work, 'more.txt'), 'utf8'), 'more\n');
        const second = await run('claude', ['-c', '-p', 'What was it?', ...options], how);
        assert.equal(second.status, 0, second.out + second.err + server.log());
        assert.equal(JSON.parse(second.out).result, 'It was the first question.');
    } finally {
        await end(server, 'claude');
    }
});
