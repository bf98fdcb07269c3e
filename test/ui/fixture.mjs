// A server that implements the contract of `kubectl berth ui` with made-up data, the same headers
// and the same content policy. Tests change its data and its faults while it runs.
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { diff, matrix, podDetails, revisions, tryResult } from './answers.mjs';
import { ago, boundPod, pendingPod, random, waiting } from './data.mjs';

const dist = join(dirname(fileURLToPath(import.meta.url)), '../../cmd/kubectl-berth/ui/web/dist');
export const token = 'fixture-token_0123456789abcdefghijklmnopqrstuv';

export const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

const headers = {
  'Content-Security-Policy': policy, 'X-Content-Type-Options': 'nosniff', 'Referrer-Policy': 'no-referrer', 'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin', 'X-Frame-Options': 'DENY', 'Cache-Control': 'no-store',
};

const types = { '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.html': 'text/html; charset=utf-8', '.txt': 'text/plain; charset=utf-8' };

const byName = (list, key) => new Map(list.map((x) => [x[key], x]));

export async function start(initial, { port = 0 } = {}) {
  const fixture = {
    token, data: {}, faults: [], streams: new Set(), requests: [], delay: 0,
    /** fail answers requests whose path matches with a status, until clear(). */
    fail(pattern, status, error, more = {}) { this.faults.push({ pattern, status, error, ...more }); },
    clear() { this.faults = []; this.delay = 0; },
    load(data) {
      this.data = { profiles: byName(data.profiles, 'name'), nodes: byName(data.nodes, 'name'), pods: byName(data.pods, 'key'), decisions: byName(data.decisions, 'key'), notes: data.notes };
      this.drop();
    },
    drop() { for (const stream of this.streams) stream.destroy(); },
    send(message) { for (const stream of this.streams) stream.write(JSON.stringify(message) + '\n'); },
    /** delta changes the data and tells the streams. */
    delta(message) {
      for (const p of message.profiles ?? []) this.data.profiles.set(p.name, p);
      for (const n of message.nodes ?? []) this.data.nodes.set(n.name, n);
      for (const p of message.pods ?? []) this.data.pods.set(p.key, p);
      for (const d of message.decisions ?? []) this.data.decisions.set(d.key, d);
      for (const [kind, keys] of Object.entries(message.gone ?? {})) for (const key of keys) this.data[kind].delete(key);
      this.send({ type: 'delta', ...message });
    },
    /** churn sends a delta of about 100 pods four times a second. It returns a function that ends that. */
    churn() {
      const r = random(3);
      let n = 0;
      const timer = setInterval(() => {
        const nodes = [...this.data.nodes.values()], pods = [], decisions = [], gone = { pods: [], decisions: [] };
        const pending = [...this.data.pods.values()].filter((p) => !p.node).slice(0, 30);
        for (const p of pending) {
          pods.push({ ...p, node: nodes[Math.floor(r() * nodes.length)].name, phase: 'Running', bound: ago(0), reason: '', message: '' });
          if (this.data.decisions.has(p.key)) gone.decisions.push(p.key);
        }
        let i = 0;
        for (const p of this.data.pods.values()) {
          if (!p.node || i++ % 400 !== n % 400) continue;
          gone.pods.push(p.key);
          if (gone.pods.length === 40) break;
        }
        for (let j = 0; j < 40; j++) {
          const key = `churn/app${n % 50}-${n}-${j}`;
          if (j < 30) {
            pods.push(pendingPod(key, { created: ago(0) }));
            decisions.push(waiting(key, { total: nodes.length }));
          } else {
            pods.push(boundPod(key, nodes[Math.floor(r() * nodes.length)], r, ['batch', 'web']));
          }
        }
        n++;
        this.delta({ pods, decisions, gone });
      }, 250);
      return () => clearInterval(timer);
    },
    close() {
      this.drop();
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
  const server = createServer((request, response) => {
    handle(fixture, request, response).catch((error) => {
      if (!response.headersSent) json(response, 500, { error: String(error) });
      else response.destroy();
    });
  });
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  fixture.origin = `http://127.0.0.1:${server.address().port}`;
  fixture.url = `${fixture.origin}/#token=${token}`;
  fixture.load(initial);
  return fixture;
}

function json(response, status, body, more = {}) {
  response.writeHead(status, { ...headers, 'Content-Type': 'application/json', ...more });
  response.end(JSON.stringify(body));
}

async function handle(fixture, request, response) {
  const url = new URL(request.url, fixture.origin), path = url.pathname;
  fixture.requests.push(`${request.method} ${path}`);
  if (request.headers.host !== fixture.origin.slice(7)) return json(response, 421, { error: `Use the address that is printed: ${fixture.origin}.` });
  if (request.headers.origin && request.headers.origin !== fixture.origin) return json(response, 403, { error: 'Requests of other origins are not served.' });
  if (request.method !== 'GET' && request.method !== 'HEAD' && !(request.method === 'POST' && path === '/api/try')) return json(response, 405, { error: 'Only GET, HEAD and POST /api/try are served.' });
  if (!path.startsWith('/api/')) return asset(path, response);
  if (request.headers['x-berth-token'] !== fixture.token) return json(response, 401, { error: 'The token is missing or is that of another run.' });
  const fault = fixture.faults.find((f) => f.pattern.test(path));
  if (fault) return json(response, fault.status, { error: fault.error }, fault.headers);
  if (fixture.delay > 0 && path !== '/api/stream' && path !== '/api/session') await new Promise((resolve) => setTimeout(resolve, fixture.delay));
  const { data } = fixture, parts = path.split('/').slice(2).map(decodeURIComponent);
  const orMissing = (body, what) => body ? json(response, 200, body) : json(response, 404, { error: `${what} not found.` });
  switch (`${parts[0]} ${parts.length}`) {
    case 'session 1': return json(response, 200, { version: 'v0.1.0', kubernetes: 'v1.37.1', context: 'kind-dev', server: 'https://127.0.0.1:6443', namespace: 'default', berthNamespace: 'berth-system', started: ago(30) });
    case 'stream 1': return stream(fixture, response);
    case 'pods 3': return orMissing(podDetails(data, `${parts[1]}/${parts[2]}`), `Pod ${parts[1]}/${parts[2]}`);
    case 'pods 4': return orMissing(matrix(data, `${parts[1]}/${parts[2]}`), `Pod ${parts[1]}/${parts[2]}`);
    case 'profiles 3': return parts[2] === 'revisions' ? orMissing(revisions(data, parts[1]), `SchedulingProfile ${parts[1]}`) : orMissing(diff(data, parts[1], url.searchParams.get('from'), url.searchParams.get('to')), `SchedulingProfile ${parts[1]}`);
    case 'try 1': {
      if (!/^application\/(yaml|json)$/.test(request.headers['content-type'] ?? '')) return json(response, 415, { error: 'Content-Type must be application/yaml or application/json.' });
      let body = '';
      for await (const chunk of request) body += chunk;
      const result = tryResult(data, body, url.searchParams);
      return json(response, result.status, result.body ?? { error: result.error });
    }
  }
  return json(response, 404, { error: 'No such path.' });
}

async function asset(path, response) {
  const name = path === '/' ? 'index.html' : /^\/assets\/[\w.-]+$/.test(path) ? join('assets', basename(path)) : null;
  const content = name ? await readFile(join(dist, name)).catch(() => null) : null;
  if (!content) return json(response, 404, { error: 'No such path.' });
  response.writeHead(200, { ...headers, 'Content-Type': types[/\.\w+$/.exec(name)[0]], ...name === 'index.html' ? {} : { 'Cache-Control': 'public, max-age=31536000, immutable' } });
  response.end(content);
}

function stream(fixture, response) {
  response.writeHead(200, { ...headers, 'Content-Type': 'application/x-ndjson' });
  const { data } = fixture, write = (message) => response.write(JSON.stringify(message) + '\n');
  for (const kind of ['profiles', 'nodes', 'pods', 'decisions']) {
    const all = [...data[kind].values()];
    for (let i = 0; i < all.length; i += 2000) write({ type: 'snapshot', [kind]: all.slice(i, i + 2000) });
  }
  write({ type: 'synced', notes: data.notes });
  fixture.streams.add(response);
  const ping = setInterval(() => write({ type: 'ping' }), 15000);
  response.on('close', () => {
    clearInterval(ping);
    fixture.streams.delete(response);
  });
}
