// Pending pods, and their groups by reason.
import type { Store } from './store';
import type { Pod, Rejection, RequeueEvents, Waiting } from './types';

export type Kind = 'Unschedulable' | 'Gated' | 'Held' | 'Quarantined' | 'WaitingOnPermit' | 'Preempting' | 'Error' | 'Undecided' | 'Unserved';

export interface WaitingPod {
  key: string; profile: string; kind: Kind;
  /** reason is that of the condition PodScheduled, where it says more than the kind. */
  reason: string;
  message: string; blockedBy: string; rejections: Rejection[]; fits: string[]; requeue: RequeueEvents[];
  total: number;
  /** group is the namespace/name of the group that the pod is scheduled with. */
  group: string;
  /** since is when the pod was created or, where that may not be read, since when it waits in its place. */
  since: string;
  where: string; owner: string; priority: number;
}

export interface RejectionRange { plugin: string; reason: string; code: string; least: number; most: number }

export interface WaitingGroup {
  id: string; kind: Kind; profile: string; reason: string; message: string; group: string;
  rejections: RejectionRange[];
  pods: WaitingPod[];
  oldest: string;
  /** fits: a sentence that says what would make pods fit, and of how many pods. */
  fits: { sentence: string; pods: number }[];
  requeue: { plugin: string; events: string[] }[];
  /** total is how many nodes the cluster has, by the newest decision of the group. */
  total: number;
}

/** heldReasons are the reasons of PodScheduled=False that Berth sets for pods that it holds. */
export const heldReasons: Record<string, string> = {
  ProfileDeleted: 'The profile was deleted. Create a SchedulingProfile of this name: it schedules these pods, older ones too.',
  ProfilePaused: 'The profile is paused. Set spec.state to Active to schedule these pods.',
  NamespaceNotAllowed: 'spec.allowedNamespaces of the profile does not select the namespace of these pods.',
  Unsupported: 'These pods request what this version of Berth does not do. The message names the field.',
  ProfileNotRunning: 'Nothing of the profile is running. The conditions of the profile say why.',
};

const kinds: Record<string, Kind> = {
  Unschedulable: 'Unschedulable', Gated: 'Gated', Held: 'Held', Quarantined: 'Quarantined',
  WaitingOnPermit: 'WaitingOnPermit', Preempting: 'Preempting', Error: 'Error',
};

function fromDecision(d: Waiting, pod: Pod | undefined): WaitingPod {
  const reason = pod?.reason ?? '';
  return {
    key: d.key, profile: d.profile, kind: kinds[d.result] ?? 'Undecided', reason: reason === d.result ? '' : reason,
    message: d.message || pod?.message || '', blockedBy: d.blockedBy, rejections: d.rejections ?? [], fits: d.fits ?? [],
    requeue: d.requeue ?? [], total: d.total, group: d.group, since: pod?.created || d.since || '', where: d.where,
    owner: pod?.owner ?? '', priority: pod?.priority ?? 0,
  };
}

/** kindOf returns the kind of a pod without a SchedulingDecision; null if it is not Berth's. Where profiles may not be listed, those of other schedulers cannot be told apart. */
function kindOf(pod: Pod, store: Store): Kind | null {
  const reason = pod.reason ?? '';
  if (Object.hasOwn(heldReasons, reason)) return 'Held';
  if (reason === 'Quarantined') return 'Quarantined';
  const known = store.profiles.has(pod.profile);
  if (!known && store.profilesHidden() && pod.profile === 'default-scheduler') return null; // more likely kube-scheduler's
  if (!known && !store.profilesHidden()) {
    return reason === '' && pod.profile !== 'default-scheduler' && store.profiles.size > 0 ? 'Unserved' : null;
  }
  switch (reason) {
    case 'Unschedulable': return 'Unschedulable';
    case 'SchedulingGated': return 'Gated';
    case 'SchedulerError': return 'Error';
  }
  return 'Undecided';
}

/** waitingPods returns the pending pods that Berth schedules, or that name no profile. */
export function waitingPods(store: Store): WaitingPod[] {
  const out: WaitingPod[] = [];
  for (const d of store.decisions.values()) {
    const pod = store.pods.get(d.key);
    if (d.result !== 'Bound' && !pod?.node) out.push(fromDecision(d, pod));
  }
  for (const key of store.pending) {
    if (store.decisions.has(key)) continue;
    const pod = store.pods.get(key)!;
    const kind = pod.terminating ? null : kindOf(pod, store);
    if (!kind) continue;
    out.push({
      key, profile: pod.profile, kind, reason: Object.hasOwn(heldReasons, pod.reason ?? '') ? pod.reason! : '', message: pod.message ?? '',
      blockedBy: '', rejections: [], fits: [], requeue: [], total: 0, group: '', since: pod.created, where: '',
      owner: pod.owner ?? '', priority: pod.priority ?? 0,
    });
  }
  return out;
}

/** withoutNumbers makes messages equal that differ in numbers only. */
export function withoutNumbers(message: string): string {
  return message.replace(/\d+(\.\d+)?/g, '#');
}

/** groupID is equal for pods that wait for the same reason. */
export function groupID(pod: WaitingPod): string {
  const head = [pod.kind, pod.profile, pod.reason];
  if (pod.group !== '') return [...head, 'group', pod.group].join('\n');
  if (pod.rejections.length > 0) {
    const lines = pod.rejections.map((r) => `${r.plugin ?? ''}\t${withoutNumbers(r.reason)}`);
    return [...head, ...[...new Set(lines)].sort()].join('\n');
  }
  return [...head, withoutNumbers(pod.message)].join('\n');
}

/** groupWaiting groups pods by why they wait, the largest group first; pods by age. */
export function groupWaiting(pods: WaitingPod[]): WaitingGroup[] {
  const byID = new Map<string, WaitingPod[]>();
  for (const pod of pods) {
    const id = groupID(pod), known = byID.get(id);
    if (known) known.push(pod);
    else byID.set(id, [pod]);
  }
  const groups = [...byID].map(([id, members]) => summary(id, members));
  return groups.sort((a, b) => b.pods.length - a.pods.length || compare(a.id, b.id));
}

const compare = (a: string, b: string): number => a < b ? -1 : a > b ? 1 : 0;

function summary(id: string, pods: WaitingPod[]): WaitingGroup {
  pods.sort((a, b) => compare(a.since || '~', b.since || '~') || compare(a.key, b.key));
  const first = pods[0];
  const rejections = new Map<string, RejectionRange>(), fits = new Map<string, number>(), requeue = new Map<string, Set<string>>();
  let message = first.message;
  for (const pod of pods) {
    if (message === '') message = pod.message;
    for (const r of pod.rejections) {
      const plugin = r.plugin ?? '', at = plugin + '\t' + withoutNumbers(r.reason), known = rejections.get(at);
      if (!known) {
        rejections.set(at, { plugin, reason: r.reason, code: r.code, least: r.nodes, most: r.nodes });
      } else {
        known.least = Math.min(known.least, r.nodes);
        known.most = Math.max(known.most, r.nodes);
      }
    }
    for (const sentence of new Set(pod.fits)) fits.set(sentence, (fits.get(sentence) ?? 0) + 1);
    for (const { plugin, events } of pod.requeue) {
      let all = requeue.get(plugin);
      if (!all) requeue.set(plugin, all = new Set());
      for (const event of events ?? []) all.add(event);
    }
  }
  return {
    id, kind: first.kind, profile: first.profile, reason: first.reason, message, group: first.group,
    rejections: [...rejections.values()].sort((a, b) => b.most - a.most || compare(a.plugin, b.plugin)),
    pods, oldest: first.since,
    fits: [...fits].map(([sentence, n]) => ({ sentence, pods: n })).sort((a, b) => b.pods - a.pods || compare(a.sentence, b.sentence)),
    requeue: [...requeue].map(([plugin, events]) => ({ plugin, events: [...events].sort() })).sort((a, b) => compare(a.plugin, b.plugin)),
    total: Math.max(0, ...pods.slice(0, 100).map((pod) => pod.total)),
  };
}

export interface Filter { profile: string; namespace: string; text: string; kind: string }

/** matches reports whether a pod passes the filter. The text is searched in names, owner, message and plugins. */
export function matches(pod: WaitingPod, filter: Filter): boolean {
  if (filter.profile !== '' && pod.profile !== filter.profile) return false;
  if (filter.namespace !== '' && !pod.key.startsWith(filter.namespace + '/')) return false;
  if (filter.kind !== '' && pod.kind !== filter.kind) return false;
  const words = filter.text.toLowerCase().split(/\s+/).filter((word) => word !== '');
  if (words.length === 0) return true;
  const text = `${pod.key} ${pod.owner} ${pod.group} ${pod.reason} ${pod.message} ${pod.blockedBy}`.toLowerCase();
  return words.every((word) => text.includes(word));
}
