// The state of the cluster as the stream tells it: plain maps, and subscriptions by topic, so
// that a change renders only what shows it. Nothing here is copied: a view reads the maps.
import type { Node, Pod, Profile, Session, StreamMessage, Waiting } from './types';

/** Usage is what the pods of a node request. */
export interface Usage {
  cpu: number; memory: number; pods: number; devices: number;
  extended: Map<string, number>; profiles: Map<string, number>; keys: Set<string>;
}

export type Connection =
  | { status: 'connecting'; objects: number }
  | { status: 'live' }
  | { status: 'waiting'; message: string; retryAt: number }
  | { status: 'paused' } // the page is not visible
  | { status: 'ended'; message: string };

/** Topic: 'profiles', 'nodes', 'pods', 'decisions', 'notes', 'connection', 'session', or one object: 'pod:ns/name'. */
export type Topic = string;

/** NodeChanges are the nodes that look different, and those that got a pod. */
export type NodeListener = (changed: Set<string> | 'all', bound: Set<string>) => void;

const emptyUsage = (): Usage => ({
  cpu: 0, memory: 0, pods: 0, devices: 0, extended: new Map(), profiles: new Map(), keys: new Set(),
});

function add<K>(counts: Map<K, number>, key: K, n: number): void {
  const sum = (counts.get(key) ?? 0) + n;
  if (sum === 0) counts.delete(key);
  else counts.set(key, sum);
}

export class Store {
  profiles = new Map<string, Profile>();
  nodes = new Map<string, Node>();
  pods = new Map<string, Pod>();
  decisions = new Map<string, Waiting>();
  /** usage of each node that has pods, also of nodes that may not be read. */
  usage = new Map<string, Usage>();
  /** pending are the keys of the pods without a node. */
  pending = new Set<string>();
  notes: string[] = [];
  session: Session | null = null;
  connection: Connection = { status: 'connecting', objects: 0 };
  /** synced: a whole snapshot was read at least once. */
  synced = false;

  private staging: StreamMessage[] | null = null;
  private stagedObjects = 0;
  private versions = new Map<Topic, number>();
  private listeners = new Map<Topic, Set<() => void>>();
  private dirty = new Set<Topic>();
  private flushing = false;
  private nodeListeners = new Set<NodeListener>();

  /** schedule calls its argument soon: once a frame in the browser. */
  constructor(private readonly schedule: (flush: () => void) => void) {}

  /** profilesHidden: the SchedulingProfiles may not be listed, so that nothing is known of any. */
  profilesHidden(): boolean {
    return this.profiles.size === 0 && this.notes.some((note) => note.includes('schedulingprofiles'));
  }

  version(topic: Topic): number {
    return this.versions.get(topic) ?? 0;
  }

  subscribe(topic: Topic, listener: () => void): () => void {
    let set = this.listeners.get(topic);
    if (!set) this.listeners.set(topic, set = new Set());
    set.add(listener);
    return () => {
      set.delete(listener);
      if (set.size === 0 && this.listeners.get(topic) === set) this.listeners.delete(topic);
    };
  }

  watchNodes(listener: NodeListener): () => void {
    this.nodeListeners.add(listener);
    return () => this.nodeListeners.delete(listener);
  }

  setConnection(connection: Connection): void {
    this.connection = connection;
    this.touch('connection');
  }

  setSession(session: Session): void {
    this.session = session;
    this.touch('session');
  }

  /** beginSnapshot: what comes next is a whole new state. The old one stays until it is complete. */
  beginSnapshot(): void {
    this.staging = [];
    this.stagedObjects = 0;
  }

  /** receive takes one line of the stream. */
  receive(message: StreamMessage): void {
    switch (message.type) {
      case 'snapshot':
        if (!this.staging) this.beginSnapshot();
        this.staging!.push(message);
        this.stagedObjects += objects(message);
        this.setConnection({ status: 'connecting', objects: this.stagedObjects });
        return;
      case 'synced':
        this.replace(this.staging ?? []);
        this.staging = null;
        this.setNotes(message.notes);
        this.synced = true;
        this.setConnection({ status: 'live' });
        return;
      case 'delta':
        this.apply(message);
        return;
      case 'notes':
        this.setNotes(message.notes);
    }
  }

  private setNotes(notes: string[] | null | undefined): void {
    this.notes = notes ?? [];
    this.touch('notes');
  }

  private replace(parts: StreamMessage[]): void {
    this.profiles = new Map();
    this.nodes = new Map();
    this.pods = new Map();
    this.decisions = new Map();
    this.usage = new Map();
    this.pending = new Set();
    for (const part of parts) {
      for (const p of part.profiles ?? []) this.profiles.set(p.name, p);
      for (const n of part.nodes ?? []) this.nodes.set(n.name, n);
      for (const p of part.pods ?? []) this.putPod(p);
      for (const d of part.decisions ?? []) this.decisions.set(d.key, d);
    }
    for (const topic of ['profiles', 'nodes', 'pods', 'decisions']) this.touch(topic);
    for (const topic of this.listeners.keys()) if (topic.includes(':')) this.touch(topic);
    for (const listener of this.nodeListeners) listener('all', new Set());
  }

  private apply(delta: StreamMessage): void {
    const changed = new Set<string>(), bound = new Set<string>();
    let all = false;
    for (const p of delta.profiles ?? []) {
      this.profiles.set(p.name, p);
      this.touchOne('profiles', 'profile:' + p.name);
    }
    for (const n of delta.nodes ?? []) {
      const before = this.nodes.get(n.name);
      if (before && before.zone === n.zone) changed.add(n.name);
      else all = true;
      this.nodes.set(n.name, n);
      this.touchOne('nodes', 'node:' + n.name);
    }
    for (const p of delta.pods ?? []) {
      const before = this.pods.get(p.key);
      if (before?.node) this.nodeChanged(before.node, changed);
      if (p.node) {
        this.nodeChanged(p.node, changed);
        if (!before?.node || before.uid !== p.uid) bound.add(p.node);
      }
      this.dropPod(p.key);
      this.putPod(p);
      this.touchOne('pods', 'pod:' + p.key);
    }
    for (const d of delta.decisions ?? []) {
      this.decisions.set(d.key, d);
      this.touchOne('decisions', 'pod:' + d.key);
    }
    const gone = delta.gone ?? {};
    for (const name of gone.profiles ?? []) {
      this.profiles.delete(name);
      this.touchOne('profiles', 'profile:' + name);
    }
    for (const name of gone.nodes ?? []) {
      this.nodes.delete(name);
      all = true;
      this.touchOne('nodes', 'node:' + name);
    }
    for (const key of gone.pods ?? []) {
      const before = this.pods.get(key);
      if (before?.node) this.nodeChanged(before.node, changed);
      this.dropPod(key);
      this.touchOne('pods', 'pod:' + key);
    }
    for (const key of gone.decisions ?? []) {
      this.decisions.delete(key);
      this.touchOne('decisions', 'pod:' + key);
    }
    if (all || changed.size > 0) {
      for (const listener of this.nodeListeners) listener(all ? 'all' : changed, bound);
    }
  }

  private nodeChanged(name: string, changed: Set<string>): void {
    changed.add(name);
    this.touchOne('usage', 'node:' + name);
  }

  private putPod(pod: Pod): void {
    this.pods.set(pod.key, pod);
    if (!pod.node) {
      this.pending.add(pod.key);
      return;
    }
    let usage = this.usage.get(pod.node);
    if (!usage) this.usage.set(pod.node, usage = emptyUsage());
    usage.keys.add(pod.key);
    count(usage, pod, 1);
  }

  private dropPod(key: string): void {
    const pod = this.pods.get(key);
    if (!pod) return;
    this.pods.delete(key);
    this.pending.delete(key);
    const usage = pod.node ? this.usage.get(pod.node) : undefined;
    if (!usage) return;
    usage.keys.delete(key);
    count(usage, pod, -1);
    if (usage.keys.size === 0) this.usage.delete(pod.node);
  }

  private touchOne(kind: Topic, one: Topic): void {
    this.touch(kind);
    if (this.listeners.has(one)) this.touch(one);
  }

  private touch(topic: Topic): void {
    this.versions.set(topic, this.version(topic) + 1);
    this.dirty.add(topic);
    if (this.flushing) return;
    this.flushing = true;
    this.schedule(() => this.flush());
  }

  private flush(): void {
    this.flushing = false;
    const topics = [...this.dirty], called = new Set<() => void>();
    this.dirty.clear();
    for (const topic of topics) {
      for (const listener of [...this.listeners.get(topic) ?? []]) {
        if (called.has(listener)) continue;
        called.add(listener);
        listener();
      }
    }
  }
}

function count(usage: Usage, pod: Pod, sign: 1 | -1): void {
  usage.pods += sign;
  usage.cpu += sign * pod.cpu;
  usage.memory += sign * pod.memory;
  usage.devices += sign * (pod.devices ?? 0);
  for (const [name, n] of Object.entries(pod.extended ?? {})) add(usage.extended, name, sign * n);
  add(usage.profiles, pod.profile, sign);
}

function objects(m: StreamMessage): number {
  return (m.profiles?.length ?? 0) + (m.nodes?.length ?? 0) + (m.pods?.length ?? 0) + (m.decisions?.length ?? 0);
}
