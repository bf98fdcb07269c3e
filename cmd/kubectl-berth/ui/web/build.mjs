// Writes dist/: index.html, assets/app-HASH.js, assets/app-HASH.css and assets/LICENSES.txt.
// The same sources give the same bytes: no source maps, no times, no absolute paths.
import { build } from 'esbuild';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, 'dist');

await rm(dist, { recursive: true, force: true });
const result = await build({
  absWorkingDir: here,
  entryPoints: { app: 'src/main.tsx', style: 'src/style/app.css' },
  outdir: 'dist/assets',
  entryNames: 'app-[hash]',
  bundle: true,
  minify: true,
  format: 'esm',
  target: ['chrome123', 'firefox121', 'safari17.5'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  charset: 'utf8',
  metafile: true,
  logLevel: 'warning',
});

const outputs = Object.entries(result.metafile.outputs);
const asset = (ending) => basename(outputs.find(([path]) => path.endsWith(ending))[0]);
const icon = await readFile(join(here, 'src/icon.svg'), 'utf8');
const iconURL = 'data:image/svg+xml,' + encodeURIComponent(icon.replace(/\s*\n\s*/g, ' ').trim());
const page = await readFile(join(here, 'src/index.html'), 'utf8');
await writeFile(join(dist, 'index.html'), page
  .replace('%ICON%', () => iconURL)
  .replace('%STYLE%', () => '/assets/' + asset('.css'))
  .replace('%SCRIPT%', () => '/assets/' + asset('.js')));

// The licences of what is bundled. A package of which no source is in the bundle is not listed.
const packages = new Set();
for (const input of Object.keys(result.metafile.inputs)) {
  const match = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
  if (match) packages.add(match[1]);
}
let licences = 'The page of `kubectl berth ui` contains these packages.\n';
for (const name of [...packages].sort()) {
  const root = join(here, 'node_modules', name);
  const { version, license } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
  const text = await readFile(join(root, 'LICENSE'), 'utf8');
  licences += `\n${name} ${version} (${license})\n\n${text.trim()}\n`;
}
await mkdir(join(dist, 'assets'), { recursive: true });
await writeFile(join(dist, 'assets', 'LICENSES.txt'), licences);

for (const [path, { bytes }] of outputs) console.log(`${path}  ${(bytes / 1024).toFixed(1)} KiB`);
