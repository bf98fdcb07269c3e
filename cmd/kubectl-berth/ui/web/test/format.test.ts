import assert from 'node:assert/strict';
import { test } from 'node:test';
import { absolute, age, count, cpu, duration, memory, missing, percent, preemption, shortMissing, splitKey } from '../src/format';

test('durations are those of kubectl', () => {
  const s = 1000, m = 60 * s, h = 60 * m, d = 24 * h;
  for (const [ms, text] of [
    [-5 * s, '0s'], [0, '0s'], [119 * s, '119s'], [2 * m, '2m'], [3 * m + 20 * s, '3m20s'], [45 * m, '45m'], [179 * m, '179m'],
    [3 * h, '3h'], [5 * h + 30 * m, '5h30m'], [9 * h + 30 * m, '9h'], [47 * h, '47h'], [2 * d, '2d'], [2 * d + 4 * h, '2d4h'], [90 * d, '90d'], [800 * d, '2y70d'],
  ] as const) assert.equal(duration(ms), text);
});

test('ages and absolute times', () => {
  assert.equal(age('2026-03-01T11:50:00Z', Date.parse('2026-03-01T11:50:42Z')), '42s');
  assert.equal(age(null, 0), '');
  assert.equal(age('nonsense', 0), '');
  assert.match(absolute('2026-03-01T11:50:00Z'), /^2026-0\d-\d\d \d\d:\d0:00 [+-]\d\d:\d\d$/);
  assert.equal(absolute(''), '');
});

test('quantities have units', () => {
  assert.equal(cpu(1000), '1 core');
  assert.equal(cpu(500), '0.5 cores');
  assert.equal(cpu(250), '0.25 cores');
  assert.equal(cpu(2750), '2.75 cores');
  assert.equal(cpu(50), '50m cores');
  assert.equal(cpu(0), '0 cores');
  assert.equal(cpu(6_200_000), '6,200 cores');
  assert.equal(memory(0), '0 B');
  assert.equal(memory(6.5 * 2 ** 30), '6.5 Gi');
  assert.equal(count(1, 'pod'), '1 pod');
  assert.equal(count(1200, 'pod'), '1,200 pods');
});

test('a percentage does not hide what there is', () => {
  assert.equal(percent(0), '0 %');
  assert.equal(percent(0.001), '< 1 %');
  assert.equal(percent(0.999), '> 99 %');
  assert.equal(percent(1), '100 %');
  assert.equal(percent(1.2), '120 %');
  assert.equal(percent(NaN), 'none');
});

test('what is missing, and preemption', () => {
  const cpuMissing = { resource: 'cpu', requested: '4', free: '3500m' };
  assert.equal(missing(cpuMissing), 'cpu: 4 requested, 3500m free');
  assert.equal(shortMissing(cpuMissing), 'cpu 4 > 3500m free');
  assert.equal(shortMissing({ plugin: 'TaintToleration', reason: 'node(s) had untolerated taint(s)' }), 'had untolerated taint(s)');
  assert.equal(preemption({ candidates: 2, victims: 3, outcome: 'VictimsChosen' }), '3 victims chosen on one of 2 candidate nodes');
  assert.deepEqual(splitKey('shop/web/1'), ['shop', 'web/1']);
});
