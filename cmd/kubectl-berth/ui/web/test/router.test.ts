import assert from 'node:assert/strict';
import { test } from 'node:test';
import { format, parse, podLink, title } from '../src/router';

test('routes survive a round trip', () => {
  for (const fragment of ['#/profiles', '#/profiles/batch', '#/waiting', '#/waiting?profile=batch&namespace=shop&text=web+1&kind=Held',
    '#/pods/shop/web-1', '#/map', '#/try', '#/compare/batch/9f3c/spec']) {
    assert.equal(format(parse(fragment)), fragment);
  }
});

test('names are encoded', () => {
  const route = { view: 'profile', name: 'a/b?c#d%"><script>' } as const;
  const fragment = format(route);
  assert.ok(!/[<>"]/.test(fragment));
  assert.deepEqual(parse(fragment), route);
  assert.deepEqual(parse(podLink('ns/x%2Fy')), { view: 'pod', namespace: 'ns', name: 'x%2Fy' });
});

test('the empty fragment is the profiles; others are unknown', () => {
  assert.equal(parse('').view, 'profiles');
  assert.equal(parse('#').view, 'profiles');
  assert.equal(parse('#/').view, 'profiles');
  assert.equal(parse('#/pods/only-a-namespace').view, 'unknown');
  assert.equal(parse('#/nothing').view, 'unknown');
  assert.equal(parse('#/profiles/%E0%A4%A').view, 'profile'); // not decodable: as it is
  assert.equal(title(parse('#/pods/a/b')), 'Pod a/b');
});
