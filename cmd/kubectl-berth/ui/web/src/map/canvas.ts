// Draws the map. Upon a change only the tiles that changed are drawn again, once a frame.
import { number } from '../format';
import type { Store } from '../store';
import { colours, reducedMotion } from '../theme';
import { hit, layout, type Layout } from './layout';
import { mainProfile, share } from './resource';

export type ColourBy = 'fill' | 'profile';

export interface Options { resource: string; colourBy: ColourBy; profiles: string[]; match: (name: string) => boolean }

/** palette is how many profiles have a colour of their own. */
export const palette = 6;
export const rampSteps = 5;

const colourNames = [
  'surface', 'ink', 'muted', 'tile', 'tile-none', 'bad', 'flash',
  'ramp-1', 'ramp-2', 'ramp-3', 'ramp-4', 'ramp-5',
  'cat-1', 'cat-2', 'cat-3', 'cat-4', 'cat-5', 'cat-6', 'cat-other',
] as const;

/** flashTime is how long a tile is marked after a pod was bound, in ms. */
const flashTime = 1200;

/** ramp returns the step of a share, from 1. */
export const ramp = (value: number): number => Math.max(1, Math.min(rampSteps, Math.ceil(value * rampSteps)));

export class MapCanvas {
  layout: Layout = layout([], 1, 1);
  /** tilesDrawn counts drawn tiles, for tests. */
  tilesDrawn = 0;
  private readonly context: CanvasRenderingContext2D;
  private options: Options;
  private colour = colours(colourNames);
  private dirty = new Set<string>();
  private all = true;
  private frame = 0;
  private flashes = new Map<string, number>();
  private width = 0;
  private height = 0;

  constructor(private readonly canvas: HTMLCanvasElement, private readonly store: Store, options: Options) {
    this.context = canvas.getContext('2d', { alpha: false })!;
    this.options = options;
  }

  destroy(): void {
    cancelAnimationFrame(this.frame);
  }

  /** place computes the layout for a box and draws everything. It returns the height that the map needs. */
  place(width: number, height: number): number {
    this.width = width;
    this.height = height;
    this.layout = layout([...this.store.nodes.values()], width, height);
    const scale = Math.min(devicePixelRatio || 1, 2);
    this.canvas.width = Math.max(1, Math.round(width * scale));
    this.canvas.height = Math.max(1, Math.round(this.layout.height * scale));
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${this.layout.height}px`;
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.all = true;
    this.draw(performance.now()); // at once: the new size has cleared the canvas
    return this.layout.height;
  }

  setOptions(options: Options): void {
    this.options = options;
    this.drawAll();
  }

  themeChanged(): void {
    this.colour = colours(colourNames);
    this.drawAll();
  }

  /** changed marks nodes to be drawn again; 'all' if there are other nodes than before. It reports whether the layout changed. */
  changed(names: Set<string> | 'all', bound: Set<string>): boolean {
    const before = this.layout.height;
    if (names === 'all') {
      this.place(this.width, this.height);
    } else {
      for (const name of names) this.dirty.add(name);
    }
    if (!reducedMotion() && !document.hidden) {
      const now = performance.now();
      for (const name of bound) this.flashes.set(name, now);
    }
    this.later();
    return names === 'all' && before !== this.layout.height;
  }

  at(x: number, y: number): string {
    return hit(this.layout, x, y);
  }

  private drawAll(): void {
    this.all = true;
    this.later();
  }

  private later(): void {
    this.frame ||= requestAnimationFrame((now) => {
      this.frame = 0;
      this.draw(now);
    });
  }

  private draw(now: number): void {
    const c = this.context;
    if (this.all) {
      this.all = false;
      this.dirty.clear();
      c.fillStyle = this.colour.surface;
      c.fillRect(0, 0, this.width, this.layout.height);
      this.heads();
      for (const name of this.layout.tiles.keys()) this.tile(name, now);
    } else {
      for (const name of this.flashes.keys()) this.dirty.add(name);
      for (const name of this.dirty) this.tile(name, now);
      this.dirty.clear();
    }
    for (const [name, since] of this.flashes) if (now - since > flashTime) this.flashes.delete(name);
    if (this.flashes.size > 0) this.later();
  }

  private heads(): void {
    const c = this.context, blocks = this.layout.blocks;
    c.textBaseline = 'alphabetic';
    for (const block of blocks) {
      c.font = '600 12px ui-sans-serif, system-ui, sans-serif';
      c.fillStyle = this.colour.ink;
      const name = block.zone || 'no zone', space = block.columns * this.layout.pitch;
      c.fillText(name, block.x, block.y + 14, space);
      const width = c.measureText(name).width;
      c.font = '12px ui-sans-serif, system-ui, sans-serif';
      c.fillStyle = this.colour.muted;
      if (width + 90 < space) c.fillText(`${number(block.names.length)} ${block.names.length === 1 ? 'node' : 'nodes'}`, block.x + width + 8, block.y + 14);
    }
  }

  private tile(name: string, now: number): void {
    const tile = this.layout.tiles.get(name), node = this.store.nodes.get(name);
    if (!tile || !node) return;
    this.tilesDrawn++;
    const c = this.context, { size, pitch } = this.layout, { x, y } = tile;
    c.fillStyle = this.colour.surface;
    c.fillRect(x, y, pitch, pitch);
    const dim = !this.options.match(name);
    c.globalAlpha = dim ? 0.18 : 1;
    const value = share(this.store, node, this.options.resource);
    c.fillStyle = Number.isNaN(value) ? this.colour['tile-none'] : this.colour.tile;
    c.fillRect(x, y, size, size);
    if (value > 0) {
      const height = Math.max(1, Math.round(Math.min(1, value) * size));
      c.fillStyle = this.fill(name, value);
      c.fillRect(x, y + size - height, size, height);
    }
    if (value > 1) {
      c.fillStyle = this.colour.bad;
      c.fillRect(x, y, size, Math.max(2, size / 8));
    }
    if (node.cordoned) this.stripes(x, y, size);
    if (!node.ready) this.cross(x, y, size);
    c.globalAlpha = 1;
    this.flash(name, x, y, size, now);
  }

  private fill(name: string, value: number): string {
    if (this.options.colourBy === 'fill') return this.colour[`ramp-${ramp(value)}` as 'ramp-1'];
    const at = this.options.profiles.indexOf(mainProfile(this.store.usage.get(name)));
    return at >= 0 && at < palette ? this.colour[`cat-${at + 1}` as 'cat-1'] : this.colour['cat-other'];
  }

  /** stripes mark a cordoned node. */
  private stripes(x: number, y: number, size: number): void {
    const c = this.context, step = Math.max(4, size / 4);
    c.beginPath();
    for (let d = step; d < 2 * size; d += step) {
      c.moveTo(x + Math.max(0, d - size), y + Math.min(size, d));
      c.lineTo(x + Math.min(size, d), y + Math.max(0, d - size));
    }
    this.line(this.colour.ink, 1, size);
  }

  /** cross marks a node that is not ready. */
  private cross(x: number, y: number, size: number): void {
    const c = this.context, width = size >= 16 ? 2.5 : 1.5;
    c.beginPath();
    c.rect(x + width, y + width, size - 2 * width, size - 2 * width);
    c.moveTo(x + 2, y + 2);
    c.lineTo(x + size - 2, y + size - 2);
    c.moveTo(x + size - 2, y + 2);
    c.lineTo(x + 2, y + size - 2);
    this.line(this.colour.bad, width, size);
  }

  /** line strokes the path, on large tiles with an edge that is seen on every fill. */
  private line(colour: string, width: number, size: number): void {
    const c = this.context;
    if (size >= 16) {
      c.strokeStyle = this.colour.surface;
      c.lineWidth = width + 2;
      c.stroke();
    }
    c.strokeStyle = colour;
    c.lineWidth = width;
    c.stroke();
  }

  private flash(name: string, x: number, y: number, size: number, now: number): void {
    const since = this.flashes.get(name);
    if (since === undefined) return;
    const left = 1 - (now - since) / flashTime;
    if (left <= 0) return;
    const c = this.context, line = size >= 14 ? 3 : 2;
    c.globalAlpha = Math.min(1, left * 1.5);
    c.strokeStyle = this.colour.flash;
    c.lineWidth = line;
    c.strokeRect(x + line / 2, y + line / 2, size - line, size - line);
    c.globalAlpha = 1;
  }
}

