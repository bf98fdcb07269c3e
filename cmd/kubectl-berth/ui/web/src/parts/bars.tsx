// Bars: the queue by place, shares of a total, and scores. Each has its numbers as text.
import { count, number, percent } from '../format';
import type { Queue } from '../types';

export const places: { field: keyof Queue; name: string; title: string }[] = [
  { field: 'active', name: 'active', title: 'ready for a scheduling attempt' },
  { field: 'inFlight', name: 'in flight', title: 'in a scheduling or binding cycle now' },
  { field: 'backoff', name: 'in backoff', title: 'tried again when the backoff ends' },
  { field: 'waiting', name: 'waiting on Permit', title: 'a node is chosen; a Permit plugin delays the binding' },
  { field: 'unschedulable', name: 'unschedulable', title: 'no node is feasible; requeued by events' },
  { field: 'gated', name: 'gated', title: 'a PreEnqueue plugin keeps them out of the active queue' },
  { field: 'held', name: 'held', title: 'left alone for another reason than resources' },
  { field: 'quarantined', name: 'quarantined', title: 'plugins panicked or hung at them' },
];

/** QueueBar shows where the pending pods of a profile are. */
export function QueueBar({ queue, legend }: { queue: Queue | null; legend?: boolean }) {
  if (!queue) return <span class="muted">not reported</span>;
  const at = (field: keyof Queue): number => queue[field] ?? 0;
  const shown = places.filter((place) => at(place.field) > 0);
  const sum = shown.reduce((total, place) => total + at(place.field), 0);
  if (sum === 0) return <span class="muted">empty: 0 pods</span>;
  const text = shown.map((place) => `${number(at(place.field))} ${place.name}`).join(', ');
  return (
    <div class="queue">
      <svg class="queue-bar" width="100%" height="8" preserveAspectRatio="none" viewBox={`0 0 ${sum} 1`} aria-hidden="true">
        {stack(shown.map((place) => at(place.field))).map(([x, width], i) => (
          <rect key={shown[i].field} class={`q-${shown[i].field}`} x={x} y="0" width={width} height="1" />
        ))}
      </svg>
      {legend
        ? <ul class="legend">{shown.map((place) => (
          <li key={place.field} title={place.title}><i class={`swatch q-${place.field}`} aria-hidden="true" />{count(at(place.field), 'pod')} {place.name}</li>
        ))}</ul>
        : <span class="queue-text">{text}</span>}
    </div>
  );
}

function stack(values: number[]): [x: number, width: number][] {
  let x = 0;
  return values.map((value) => {
    const at = x;
    x += value;
    return [at, value];
  });
}

/** Share is a bar for a part of a total; the caller writes the numbers. */
export function Share({ share, tone = 'accent' }: { share: number; tone?: string }) {
  const width = Number.isFinite(share) ? Math.max(0, Math.min(1, share)) * 100 : 0;
  return (
    <svg class={`share ${tone}`} width="100%" height="6" preserveAspectRatio="none" viewBox="0 0 100 1" aria-hidden="true">
      <rect class="share-back" width="100" height="1" /><rect class="share-front" width={width} height="1" />
    </svg>
  );
}

/** Meter is a labelled share: cpu, 6.2 of 8 cores, 78 %. */
export function Meter({ label, text, share }: { label: string; text: string; share: number }) {
  return (
    <div class="meter">
      <span class="meter-label">{label}</span><span class="meter-text">{text} <b>{percent(share)}</b></span>
      <Share share={share} tone={share > 0.95 ? 'full' : 'accent'} />
    </div>
  );
}
