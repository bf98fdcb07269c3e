// Compiles the tests and what they import to a temporary directory, and runs them.
import { build } from 'esbuild';
import { spawnSync } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const tests = (await readdir(here)).filter((name) => name.endsWith('.test.ts'));
const out = await mkdtemp(join(tmpdir(), 'berth-ui-test-'));
try {
  await build({
    entryPoints: tests.map((name) => join(here, name)), outdir: out, outExtension: { '.js': '.mjs' }, bundle: true, platform: 'node',
    format: 'esm', target: 'node20', jsx: 'automatic', jsxImportSource: 'preact', logLevel: 'warning',
  });
  const files = tests.map((name) => join(out, name.replace(/\.ts$/, '.mjs')));
  process.exitCode = spawnSync(process.execPath, ['--test', '--test-reporter=spec', ...files], { stdio: 'inherit' }).status ?? 1;
} finally {
  await rm(out, { recursive: true, force: true });
}
