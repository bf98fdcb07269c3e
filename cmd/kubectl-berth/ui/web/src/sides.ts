// A list of removed, added and equal lines as two sides.
import type { DiffLine } from './types';

/** sideBySide puts removed lines beside the added ones that follow them. */
export function sideBySide(lines: DiffLine[]): [left: DiffLine | null, right: DiffLine | null][] {
  const out: [DiffLine | null, DiffLine | null][] = [];
  let removed: DiffLine[] = [], added: DiffLine[] = [];
  const flush = (): void => {
    for (let i = 0; i < Math.max(removed.length, added.length); i++) out.push([removed[i] ?? null, added[i] ?? null]);
    removed = [];
    added = [];
  };
  for (const line of lines) {
    if (line.sign === '-') {
      if (added.length > 0) flush();
      removed.push(line);
    } else if (line.sign === '+') {
      added.push(line);
    } else {
      flush();
      out.push([line, line]);
    }
  }
  flush();
  return out;
}
