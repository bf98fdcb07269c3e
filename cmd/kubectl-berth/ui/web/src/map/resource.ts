// How much of a resource the pods of a node request.
import type { Store, Usage } from '../store';
import type { Node } from '../types';

/** resources returns what the map can show: cpu, memory, pods, extended resources, devices. */
export function resources(nodes: Iterable<Node>): string[] {
  const extended = new Set<string>();
  let devices = false;
  for (const node of nodes) {
    for (const [name, n] of Object.entries(node.extended ?? {})) if (n > 0) extended.add(name);
    devices ||= node.devices > 0;
  }
  return ['cpu', 'memory', 'pods', ...[...extended].sort(), ...devices ? ['devices'] : []];
}

export function capacity(node: Node, resource: string): number {
  switch (resource) {
    case 'cpu': return node.cpu;
    case 'memory': return node.memory;
    case 'pods': return node.pods;
    case 'devices': return node.devices;
  }
  return node.extended?.[resource] ?? 0;
}

export function used(usage: Usage | undefined, resource: string): number {
  if (!usage) return 0;
  switch (resource) {
    case 'cpu': return usage.cpu;
    case 'memory': return usage.memory;
    case 'pods': return usage.pods;
    case 'devices': return usage.devices;
  }
  return usage.extended.get(resource) ?? 0;
}

/** share is what is requested of what is allocatable; NaN where the node has none of the resource. */
export function share(store: Store, node: Node, resource: string): number {
  const all = capacity(node, resource);
  return all > 0 ? used(store.usage.get(node.name), resource) / all : NaN;
}

/** mainProfile is the profile with the most pods on a node; '' for none. */
export function mainProfile(usage: Usage | undefined): string {
  let best = '', most = 0;
  for (const [profile, n] of usage?.profiles ?? []) {
    if (n > most || n === most && profile < best) {
      best = profile;
      most = n;
    }
  }
  return best;
}

/** profilesByPods returns the profiles with bound pods, the most first. */
export function profilesByPods(store: Store): [profile: string, pods: number][] {
  const sums = new Map<string, number>();
  for (const usage of store.usage.values()) {
    for (const [profile, n] of usage.profiles) sums.set(profile, (sums.get(profile) ?? 0) + n);
  }
  return [...sums].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
}

/** keepFirst returns names of which the first n, whose place is their colour, are in the order that they had before. */
export function keepFirst(n: number, before: readonly string[], names: readonly string[]): string[] {
  const first = names.slice(0, n), kept = before.slice(0, n).filter((name) => first.includes(name));
  return [...kept, ...first.filter((name) => !kept.includes(name)), ...names.slice(n)];
}

export function stateOf(node: Node): string {
  const parts = [];
  if (!node.ready) parts.push('not ready');
  if (node.cordoned) parts.push('cordoned');
  return parts.join(', ') || 'ready';
}
