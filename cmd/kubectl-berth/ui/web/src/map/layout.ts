// Where each node is on the map: zones as blocks of equal width, nodes as square tiles.

export interface Placed { name: string; zone: string }

export interface Block { zone: string; x: number; y: number; columns: number; names: string[] }

export interface Tile { x: number; y: number; block: number; index: number }

export interface Layout {
  /** pitch is the distance between tiles, size a tile's side, both in CSS pixels. */
  pitch: number; size: number; width: number; height: number;
  blocks: Block[]; tiles: Map<string, Tile>; order: string[];
}

export const headHeight = 22;
const blockGap = 18;
const minPitch = 9;
export const maxPitch = 66;
const minBlockWidth = 150;

const compare = (a: string, b: string): number => a < b ? -1 : a > b ? 1 : 0;

/** natural compares names with numbers in them: n2 before n10. */
export function natural(a: string, b: string): number {
  const as = a.match(/\d+|\D+/g) ?? [], bs = b.match(/\d+|\D+/g) ?? [];
  for (let i = 0; i < Math.min(as.length, bs.length); i++) {
    const x = as[i], y = bs[i];
    if (x === y) continue;
    const n = Number(x) - Number(y);
    return Number.isNaN(n) || n === 0 ? compare(x, y) : n;
  }
  return as.length - bs.length;
}

/** layout fits the nodes into width × height with the largest tiles; if they do not fit, it is higher. */
export function layout(nodes: Placed[], width: number, height: number): Layout {
  const zones = new Map<string, string[]>();
  for (const node of nodes) {
    const names = zones.get(node.zone);
    if (names) names.push(node.name);
    else zones.set(node.zone, [node.name]);
  }
  const sorted = [...zones].sort(([a], [b]) => natural(a, b));
  for (const [, names] of sorted) names.sort(natural);
  const sizes = sorted.map(([, names]) => names.length);
  const { pitch, across } = fit(sizes, width, height);
  const out: Layout = { pitch, size: pitch - gapOf(pitch), width, height: 0, blocks: [], tiles: new Map(), order: [] };
  const blockWidth = (width - (across - 1) * blockGap) / across;
  const columns = Math.max(1, Math.floor(blockWidth / pitch));
  let y = 0;
  for (let row = 0; row < sorted.length; row += across) {
    const inRow = sorted.slice(row, row + across);
    inRow.forEach(([zone, names], i) => {
      const block: Block = { zone, x: Math.round(i * (blockWidth + blockGap)), y, columns, names };
      names.forEach((name, index) => {
        out.tiles.set(name, {
          block: out.blocks.length, index,
          x: block.x + (index % columns) * pitch, y: y + headHeight + Math.floor(index / columns) * pitch,
        });
        out.order.push(name);
      });
      out.blocks.push(block);
    });
    y += headHeight + Math.ceil(Math.max(...inRow.map(([, names]) => names.length)) / columns) * pitch + blockGap;
  }
  out.height = Math.max(0, y - blockGap);
  return out;
}

const gapOf = (pitch: number): number => pitch >= 24 ? 3 : pitch >= 13 ? 2 : 1;

function fit(sizes: number[], width: number, height: number): { pitch: number; across: number } {
  const most = Math.max(1, Math.min(sizes.length, Math.floor((width + blockGap) / (minBlockWidth + blockGap))));
  let best = { pitch: minPitch, across: 1, height: Infinity };
  for (let pitch = maxPitch; pitch >= minPitch; pitch--) {
    best = { pitch, across: 1, height: Infinity };
    for (let across = 1; across <= most; across++) {
      const needed = heightOf(sizes, width, pitch, across);
      if (needed < best.height) best = { pitch, across, height: needed };
    }
    if (best.height <= height) break;
  }
  return best;
}

function heightOf(sizes: number[], width: number, pitch: number, across: number): number {
  const columns = Math.max(1, Math.floor((width - (across - 1) * blockGap) / across / pitch));
  let sum = -blockGap;
  for (let row = 0; row < sizes.length; row += across) {
    sum += headHeight + Math.ceil(Math.max(...sizes.slice(row, row + across)) / columns) * pitch + blockGap;
  }
  return sum;
}

/** hit returns the node at a point; '' for none. */
export function hit(l: Layout, x: number, y: number): string {
  for (const block of l.blocks) {
    const column = Math.floor((x - block.x) / l.pitch), row = Math.floor((y - block.y - headHeight) / l.pitch);
    if (column < 0 || column >= block.columns || row < 0) continue;
    const index = row * block.columns + column;
    if (index < block.names.length) return block.names[index];
  }
  return '';
}

/** next returns the node that an arrow key goes to from a node; the node itself at an edge. */
export function next(l: Layout, from: string, key: string): string {
  const tile = l.tiles.get(from);
  if (!tile) return l.order[0] ?? '';
  const at = l.order.indexOf(from), block = l.blocks[tile.block];
  switch (key) {
    case 'ArrowRight': return l.order[Math.min(l.order.length - 1, at + 1)];
    case 'ArrowLeft': return l.order[Math.max(0, at - 1)];
    case 'Home': return l.order[0];
    case 'End': return l.order[l.order.length - 1];
  }
  const down = key === 'ArrowDown', inBlock = tile.index + (down ? block.columns : -block.columns);
  if (inBlock >= 0 && inBlock < block.names.length) return block.names[inBlock];
  let best = from, distance = Infinity;
  for (const [name, other] of l.tiles) {
    const dy = down ? other.y - tile.y : tile.y - other.y;
    if (dy <= 0) continue;
    const d = dy * 4 + Math.abs(other.x - tile.x);
    if (d < distance) {
      distance = d;
      best = name;
    }
  }
  return best;
}
