import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Store } from '../src/store';
import { backoff, Lines } from '../src/stream';
import type { Node, Pod } from '../src/types';

export const pod = (key: string, more: Partial<Pod> = {}): Pod => ({
  key, uid: key, profile: 'batch', node: '', phase: 'Pending', cpu: 1000, memory: 1024, created: '2026-03-01T10:00:00Z', bound: null, ...more,
});
const node = (name: string, more: Partial<Node> = {}): Node => ({
  name, zone: 'a', ready: true, cordoned: false, cpu: 8000, memory: 8192, pods: 110, devices: 0, ...more,
});

function newStore(): { store: Store; flush: () => void } {
  const queue: (() => void)[] = [];
  const store = new Store((f) => queue.push(f));
  return { store, flush: () => { for (const f of queue.splice(0)) f(); } };
}

test('a snapshot in parts replaces the state when it is complete', () => {
  const { store } = newStore();
  store.receive({ type: 'snapshot', nodes: [node('n1')], pods: [pod('d/a', { node: 'n1' })] });
  assert.equal(store.nodes.size, 0);
  assert.deepEqual(store.connection, { status: 'connecting', objects: 2 });
  store.receive({ type: 'snapshot', pods: [pod('d/b')] });
  store.receive({ type: 'synced', notes: ['You may not list profiles.'] });
  assert.equal(store.pods.size, 2);
  assert.deepEqual([...store.pending], ['d/b']);
  assert.equal(store.usage.get('n1')!.cpu, 1000);
  assert.deepEqual(store.notes, ['You may not list profiles.']);
  store.beginSnapshot();
  store.receive({ type: 'snapshot', nodes: [node('n2')] });
  assert.equal(store.pods.size, 2, 'the old state stays until the new one is complete');
  store.receive({ type: 'synced', notes: null });
  assert.equal(store.pods.size, 0);
  assert.equal(store.usage.size, 0);
});

test('usage follows pods that are bound, change and go', () => {
  const { store } = newStore();
  store.receive({ type: 'snapshot', nodes: [node('n1'), node('n2')], pods: [pod('d/a')] });
  store.receive({ type: 'synced' });
  const seen: [Set<string> | 'all', Set<string>][] = [];
  store.watchNodes((changed, bound) => seen.push([changed, bound]));
  store.receive({ type: 'delta', pods: [pod('d/a', { node: 'n1', extended: { gpu: 2 }, devices: 1 })] });
  assert.deepEqual(seen.pop(), [new Set(['n1']), new Set(['n1'])]);
  assert.deepEqual({ ...store.usage.get('n1')! }, {
    cpu: 1000, memory: 1024, pods: 1, devices: 1, extended: new Map([['gpu', 2]]), profiles: new Map([['batch', 1]]), keys: new Set(['d/a']),
  });
  store.receive({ type: 'delta', pods: [pod('d/a', { node: 'n1', cpu: 3000 })] });
  assert.deepEqual(seen.pop(), [new Set(['n1']), new Set()]);
  assert.equal(store.usage.get('n1')!.cpu, 3000);
  assert.equal(store.usage.get('n1')!.extended.size, 0);
  store.receive({ type: 'delta', gone: { pods: ['d/a'] } });
  assert.equal(store.usage.has('n1'), false);
  assert.equal(store.pending.size, 0);
  store.receive({ type: 'delta', gone: { nodes: ['n2'] } });
  assert.equal(seen.pop()![0], 'all');
});

test('a change calls only those who show it, once', () => {
  const { store, flush } = newStore();
  store.receive({ type: 'snapshot' });
  store.receive({ type: 'synced' });
  flush();
  const calls: string[] = [];
  const both = (): void => { calls.push('both'); };
  store.subscribe('pods', both);
  store.subscribe('pod:d/a', both);
  store.subscribe('pod:d/b', () => calls.push('b'));
  const end = store.subscribe('nodes', () => calls.push('nodes'));
  store.receive({ type: 'delta', pods: [pod('d/a'), pod('d/c')] });
  assert.deepEqual(calls, []);
  flush();
  assert.deepEqual(calls, ['both']);
  end();
  store.receive({ type: 'delta', nodes: [node('n1')] });
  flush();
  assert.deepEqual(calls, ['both']);
  const version = store.version('pods');
  store.receive({ type: 'ping' });
  assert.equal(store.version('pods'), version);
});

test('lines come whole', () => {
  const lines = new Lines();
  assert.deepEqual(lines.push('{"a"'), []);
  assert.deepEqual(lines.push(':1}\n{"b":2}\n\n{"c"'), ['{"a":1}', '{"b":2}']);
  assert.deepEqual(lines.push(':3}'), []);
  assert.deepEqual(lines.push('\n'), ['{"c":3}']);
});

test('the backoff grows to 15 s', () => {
  assert.equal(backoff(0, 1), 1000);
  assert.equal(backoff(2, 1), 4000);
  assert.equal(backoff(0, 0), 750);
  assert.equal(backoff(50, 1), 15_000);
});
