import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Store } from '../src/store';
import type { Pod, Profile, Waiting } from '../src/types';
import { groupWaiting, matches, waitingPods, withoutNumbers } from '../src/waiting';

const pod = (key: string, more: Partial<Pod> = {}): Pod => ({
  key, uid: key, profile: 'batch', node: '', phase: 'Pending', cpu: 1, memory: 1, created: '2026-03-01T10:00:00Z', bound: null, ...more,
});
const decision = (key: string, more: Partial<Waiting> = {}): Waiting => ({
  key, result: 'Unschedulable', profile: 'batch', blockedBy: 'NodeResourcesFit 480', message: '0/500 nodes are available: 480 Insufficient cpu.',
  total: 500, feasible: 0, rejections: [{ plugin: 'NodeResourcesFit', code: 'Unschedulable', reason: 'Insufficient cpu', nodes: 480 }],
  fits: ['500m more cpu on n17'], requeue: [{ plugin: 'NodeResourcesFit', events: ['Node/Add'] }], where: 'Unschedulable',
  since: '2026-03-01T11:00:00Z', group: '', lastChange: '2026-03-01T11:00:00Z', ...more,
});
const store = (pods: Pod[], decisions: Waiting[]): Store => {
  const s = new Store(() => {});
  s.receive({ type: 'snapshot', pods, decisions, profiles: [{ name: 'batch' } as Profile] });
  s.receive({ type: 'synced' });
  return s;
};

test('pods with the same reasons are one group, whatever the numbers', () => {
  const s = store(
    [pod('d/a'), pod('d/b', { created: '2026-03-01T09:00:00Z' }), pod('d/c')],
    [decision('d/a'), decision('d/b', {
      rejections: [{ plugin: 'NodeResourcesFit', code: 'Unschedulable', reason: 'Insufficient cpu', nodes: 470 }], fits: [],
      requeue: [{ plugin: 'NodeResourcesFit', events: ['AssignedPod/Delete', 'Node/Add'] }],
    }), decision('d/c', { profile: 'web' })],
  );
  const groups = groupWaiting(waitingPods(s));
  assert.equal(groups.length, 2);
  const [first] = groups;
  assert.deepEqual(first.pods.map((p) => p.key), ['d/b', 'd/a']);
  assert.equal(first.oldest, '2026-03-01T09:00:00Z');
  assert.deepEqual(first.rejections, [{ plugin: 'NodeResourcesFit', code: 'Unschedulable', reason: 'Insufficient cpu', least: 470, most: 480 }]);
  assert.deepEqual(first.fits, [{ sentence: '500m more cpu on n17', pods: 1 }]);
  assert.deepEqual(first.requeue, [{ plugin: 'NodeResourcesFit', events: ['AssignedPod/Delete', 'Node/Add'] }]);
  assert.equal(first.total, 500);
});

test('pods of one group stay together', () => {
  const s = store([], [decision('d/a', { group: 'd/train' }), decision('d/b', { group: 'd/train', rejections: [], message: 'pod a explains why' }), decision('d/c')]);
  assert.deepEqual(groupWaiting(waitingPods(s)).map((g) => [g.group, g.pods.length]), [['d/train', 2], ['', 1]]);
});

test('bound pods do not wait; pods without a decision do', () => {
  const s = store([
    pod('d/bound', { node: 'n1' }), pod('d/new'), pod('d/gated', { reason: 'SchedulingGated' }), pod('d/paused', { reason: 'ProfilePaused', profile: 'night' }),
    pod('d/quarantined', { reason: 'Quarantined' }), pod('d/lost', { profile: 'bacth' }), pod('d/other', { profile: 'default-scheduler' }),
    pod('d/others', { profile: 'volcano', reason: 'Unschedulable' }), pod('d/going', { terminating: true }),
  ], [decision('d/bound'), decision('d/done', { result: 'Bound' })]);
  assert.deepEqual(waitingPods(s).map((p) => [p.key, p.kind, p.reason]), [
    ['d/new', 'Undecided', ''], ['d/gated', 'Gated', ''], ['d/paused', 'Held', 'ProfilePaused'],
    ['d/quarantined', 'Quarantined', ''], ['d/lost', 'Unserved', ''],
  ]);
});

test('held pods are grouped by their condition', () => {
  const s = store([pod('d/a', { reason: 'ProfilePaused' }), pod('d/b', { reason: 'Unsupported' })],
    [decision('d/a', { result: 'Held', rejections: [] }), decision('d/b', { result: 'Held', rejections: [] })]);
  assert.deepEqual(groupWaiting(waitingPods(s)).map((g) => g.reason).sort(), ['ProfilePaused', 'Unsupported']);
});

test('where profiles and decisions may not be listed, pending pods are shown by their condition', () => {
  const s = new Store(() => {});
  s.receive({ type: 'snapshot', pods: [
    pod('d/a', { reason: 'Unschedulable', message: '0/3 nodes are available: 3 Insufficient cpu.' }), pod('d/b'),
    pod('d/c', { profile: 'default-scheduler', reason: 'Unschedulable' }), pod('d/d', { node: 'n1' }),
  ] });
  s.receive({ type: 'synced', notes: ['You may not list schedulingprofiles.berth.dev: no profile is shown.'] });
  assert.deepEqual(waitingPods(s).map((p) => [p.key, p.kind]), [['d/a', 'Unschedulable'], ['d/b', 'Undecided']]);
  s.receive({ type: 'notes', notes: [] });
  assert.deepEqual(waitingPods(s), []);
});

test('the filter takes all words, anywhere', () => {
  const [waiting] = waitingPods(store([pod('shop/web-1', { owner: 'ReplicaSet/web' })], [decision('shop/web-1')]));
  const none = { profile: '', namespace: '', text: '', kind: '' };
  assert.ok(matches(waiting, none));
  assert.ok(matches(waiting, { ...none, text: 'WEB noderesourcesfit', namespace: 'shop', profile: 'batch', kind: 'Unschedulable' }));
  assert.ok(!matches(waiting, { ...none, text: 'web memory' }));
  assert.ok(!matches(waiting, { ...none, namespace: 'sho' }));
  assert.equal(withoutNumbers('0/500 nodes, 1.5 cpu'), '#/# nodes, # cpu');
});
