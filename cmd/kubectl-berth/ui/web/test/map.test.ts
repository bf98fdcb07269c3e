import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hit, layout, maxPitch, natural, next } from '../src/map/layout';
import { keepFirst } from '../src/map/resource';
import { sideBySide } from '../src/sides';

const nodes = (zones: Record<string, number>) => Object.entries(zones).flatMap(([zone, n]) => Array.from({ length: n }, (_, i) => ({ name: `${zone}-${i}`, zone })));

test('5,000 nodes fit into a window, and each is hit where it is', () => {
  const l = layout(nodes({ a: 1700, b: 1650, c: 1650 }), 1000, 700);
  assert.ok(l.height <= 700 && l.pitch >= 9, `${l.height} ${l.pitch}`);
  assert.equal(l.tiles.size, 5000);
  for (const [name, tile] of l.tiles) {
    assert.equal(hit(l, tile.x + 1, tile.y + 1), name);
    assert.ok(tile.x >= 0 && tile.x + l.size <= 1000);
  }
  assert.equal(hit(l, 5, 2), '');
});

test('few nodes are large, many zones go below each other', () => {
  assert.equal(layout(nodes({ a: 3 }), 800, 600).pitch, maxPitch);
  const l = layout(nodes(Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`z${i}`, 3]))), 390, 300);
  assert.equal(l.tiles.size, 90);
  assert.ok(l.height > 300);
  assert.equal(layout([], 100, 100).height, 0);
});

test('profiles keep their colours while the same ones have some', () => {
  assert.deepEqual(keepFirst(2, [], ['a', 'b', 'c']), ['a', 'b', 'c']);
  assert.deepEqual(keepFirst(2, ['a', 'b', 'c'], ['b', 'a', 'd', 'c']), ['a', 'b', 'd', 'c'], 'b has more pods now');
  assert.deepEqual(keepFirst(2, ['a', 'b', 'c'], ['c', 'b', 'a']), ['b', 'c', 'a'], 'c takes the place of a');
  assert.deepEqual(keepFirst(2, ['a', 'b'], ['b']), ['b']);
});

test('arrow keys reach every node', () => {
  const l = layout(nodes({ a: 40, b: 7 }), 400, 300);
  let at = next(l, '', 'ArrowRight');
  assert.equal(at, 'a-0');
  assert.equal(next(l, at, 'ArrowLeft'), 'a-0');
  assert.equal(next(l, at, 'ArrowUp'), 'a-0');
  for (let i = 1; i < 47; i++) at = next(l, at, 'ArrowRight');
  assert.equal(at, 'b-6');
  assert.equal(next(l, 'a-0', 'ArrowDown'), `a-${l.blocks[0].columns}`);
  assert.equal(next(l, at, 'Home'), 'a-0');
});

test('names with numbers are in the order of the numbers', () => {
  assert.deepEqual(['n10', 'n2', 'a', 'n2-b', 'n02'].sort(natural), ['a', 'n02', 'n2', 'n2-b', 'n10']);
});

test('removed lines are beside added ones', () => {
  const line = (sign: string, text: string) => ({ sign, text });
  const equal = line(' ', 'x');
  assert.deepEqual(sideBySide([equal, line('-', 'a'), line('-', 'b'), line('+', 'c'), equal, line('+', 'd')]), [
    [equal, equal], [line('-', 'a'), line('+', 'c')], [line('-', 'b'), null], [equal, equal], [null, line('+', 'd')],
  ]);
});
