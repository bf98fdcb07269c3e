// Numbers, quantities and times as text, always with the unit.

const thousands = new Intl.NumberFormat('en-US');
const oneDecimal = new Intl.NumberFormat('en-US', { maximumFractionDigits: 1 });
const twoDecimals = new Intl.NumberFormat('en-US', { maximumFractionDigits: 2 });

export const number = (n: number): string => thousands.format(n);

/** count returns "1 pod", "1,200 pods". */
export function count(n: number, noun: string, plural = noun + 's'): string {
  return `${number(n)} ${n === 1 ? noun : plural}`;
}

/** duration returns a time span as kubectl prints it: 90s, 3m20s, 45m, 5h30m, 2d4h. */
export function duration(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  const m = Math.floor(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
  const both = (a: number, unitA: string, b: number, unitB: string): string => b === 0 ? `${a}${unitA}` : `${a}${unitA}${b}${unitB}`;
  if (s < 120) return `${s}s`;
  if (m < 10) return both(m, 'm', s % 60, 's');
  if (m < 180) return `${m}m`;
  if (h < 8) return both(h, 'h', m % 60, 'm');
  if (h < 48) return `${h}h`;
  if (d < 8) return both(d, 'd', h % 24, 'h');
  if (d < 730) return `${d}d`;
  return both(Math.floor(d / 365), 'y', d % 365, 'd');
}

/** milliseconds of an RFC 3339 time; NaN where there is none. */
export function milliseconds(time: string | null | undefined): number {
  return time ? Date.parse(time) : NaN;
}

/** age returns how long ago a time was, without "ago"; "" where there is none. */
export function age(time: string | null | undefined, now: number): string {
  const at = milliseconds(time);
  return Number.isNaN(at) ? '' : duration(now - at);
}

/** absolute returns a time in the reader's zone: 2026-03-01 11:50:00 +01:00. */
export function absolute(time: string | null | undefined): string {
  const at = milliseconds(time);
  if (Number.isNaN(at)) return '';
  const date = new Date(at), two = (n: number): string => String(n).padStart(2, '0');
  const offset = -date.getTimezoneOffset(), abs = Math.abs(offset);
  const zone = (offset < 0 ? '-' : '+') + two(Math.floor(abs / 60)) + ':' + two(abs % 60);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} `
    + `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())} ${zone}`;
}

/** cpu returns millicores as cores: "1 core", "0.25 cores". */
export function cpu(millicores: number): string {
  const cores = millicores / 1000;
  if (cores > 0 && cores < 0.1) return `${number(millicores)}m cores`;
  return `${twoDecimals.format(cores)} ${cores === 1 ? 'core' : 'cores'}`;
}

const binary = ['B', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi'];

/** memory returns bytes with a binary unit, as Kubernetes writes it: "6.5 Gi". */
export function memory(bytes: number): string {
  let value = bytes, unit = 0;
  while (Math.abs(value) >= 1024 && unit < binary.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${oneDecimal.format(value)} ${binary[unit]}`;
}

/** amount returns an amount of a resource: cpu in millicores, memory in bytes, others as numbers. */
export function amount(resource: string, value: number): string {
  switch (resource) {
    case 'cpu': return cpu(value);
    case 'memory': return memory(value);
    case 'pods': return count(value, 'pod');
    case 'devices': return count(value, 'device');
  }
  return number(value);
}

/** percent returns a share between 0 and 1 as "63 %"; more than nothing is never "0 %". */
export function percent(share: number): string {
  if (!Number.isFinite(share)) return 'none';
  const rounded = Math.round(share * 100);
  if (rounded === 0 && share > 0) return '< 1 %';
  if (rounded === 100 && share < 1) return '> 99 %';
  return `${rounded} %`;
}

/** splitKey splits namespace/name. */
export function splitKey(key: string): [namespace: string, name: string] {
  const at = key.indexOf('/');
  return at < 0 ? ['', key] : [key.slice(0, at), key.slice(at + 1)];
}

/** missing says in words what a pod lacks on a node. */
export function missing(m: { resource?: string; deviceRequest?: string; requested?: string; free?: string; plugin?: string; reason?: string }): string {
  const what = m.resource || m.deviceRequest;
  if (what) return `${what}: ${m.requested ?? '?'} requested, ${m.free ?? '?'} free`;
  return m.reason || (m.plugin ? `rejected by ${m.plugin}` : 'no reason given');
}

/** shortMissing is the same for a narrow cell. */
export function shortMissing(m: Parameters<typeof missing>[0]): string {
  const what = m.resource || m.deviceRequest;
  if (what) return `${what} ${m.requested ?? '?'} > ${m.free ?? '?'} free`;
  return (m.reason ?? '').replace(/^node\(s\) /, '') || 'rejected';
}

/** preemption says how the search for victims ended, as kubectl berth explain does. */
export function preemption(p: { candidates: number; victims: number; nodes?: number; outcome: string }): string {
  switch (p.outcome) {
    case 'NoCandidates': return 'no victims would make room';
    case 'NotEligible': return 'the pod is not eligible to preempt other pods';
    case 'VictimsChosen':
      return p.nodes ? `${count(p.victims, 'victim')} chosen on ${count(p.nodes, 'node')}`
        : `${count(p.victims, 'victim')} chosen on one of ${count(p.candidates, 'candidate node')}`;
    case 'UnderWay':
      return p.victims > 0 ? `waiting for ${count(p.victims, 'victim')} to terminate` : 'waiting for victims to terminate';
  }
  return 'the search for victims failed';
}
