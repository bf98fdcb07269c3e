// The objects of the server's API: see the contract of `kubectl berth ui`, and the Go types
// behind `kubectl berth explain|try -o json`.

export interface Session {
  version: string; kubernetes: string; context: string; server: string; namespace: string;
  berthNamespace: string; started: string;
}

export interface Queue {
  pending: number; active: number; backoff: number; unschedulable: number; gated: number;
  waiting: number; held: number; quarantined: number; inFlight?: number;
}

export interface Totals { since?: string; bound: number; refusals: number; errors: number; victims: number }

export interface Condition { type: string; status: string; reason: string; message: string; since: string }

export interface Trial { sampled: number; fitBefore: number | null; fitAfter: number; lost: string[] | null; time: string }

export interface ProfilePlugin { name: string; points: string[] | null; weight?: number; args?: string }

export interface RecentDecision { time: string; pod: string; result: string; node?: string; message?: string }

export interface Profile {
  name: string; state: string; ready: string; reason: string; message: string; degraded: string;
  generation: number; runs: number | null; hash: string; revision: string;
  queue: Queue | null; totals: Totals | null; lastDecision: string | null;
  conditions: Condition[] | null; trial: Trial | null; plugins: ProfilePlugin[] | null;
  recent: RecentDecision[] | null; created: string;
}

export interface Node {
  name: string; zone: string; instanceType?: string; ready: boolean; cordoned: boolean; taints?: string[] | null;
  cpu: number; memory: number; pods: number; extended?: Record<string, number> | null; devices: number;
}

export interface Pod {
  key: string; uid: string; profile: string; node: string; phase: string; cpu: number; memory: number;
  extended?: Record<string, number> | null; devices?: number; created: string; bound: string | null;
  reason?: string; message?: string; owner?: string; annotated?: boolean; priority?: number; terminating?: boolean;
  nominated?: string; queue?: string;
}

export interface Rejection { plugin?: string; code: string; reason: string; nodes: number; exampleNode?: string }

export interface RequeueEvents { plugin: string; events: string[] | null }

export interface Waiting {
  key: string; result: string; profile: string; blockedBy: string; message: string;
  total: number; feasible: number; rejections: Rejection[] | null; fits: string[] | null;
  requeue: RequeueEvents[] | null; where: string; since: string | null; group: string; lastChange: string;
}

export interface Gone { profiles?: string[]; nodes?: string[]; pods?: string[]; decisions?: string[] }

export interface StreamMessage {
  type: 'snapshot' | 'synced' | 'delta' | 'ping' | 'notes';
  profiles?: Profile[]; nodes?: Node[]; pods?: Pod[]; decisions?: Waiting[]; gone?: Gone; notes?: string[] | null;
}

// What `kubectl berth explain -o json` prints.

export interface DecidedBy { name: string; generation?: number; hash?: string }

export interface NodeScore { node: string; score: number; plugins?: Record<string, number> | null }

export interface Decision {
  result: string; node?: string; profile: string; generation: number; hash: string; epoch: number;
  evaluated: number; feasible: number; attempts: number; top?: NodeScore[] | null; devices?: string[] | null; time?: string;
}

export interface Missing {
  resource?: string; deviceRequest?: string; requested?: string; free?: string; plugin?: string; reason?: string;
}

export interface DeviceRequest {
  claim: string; request: string; deviceClassName?: string; count?: number; published: number;
  selectors?: { source: string; expression: string; matching: number }[] | null; free: number;
}

export interface SchedulingDecision {
  result: string; profile: DecidedBy; message?: string; blockedBy?: string;
  group?: { source: string; name: string; explainedBy?: string; minCount?: number; pods?: number; fit?: number; notTried?: number } | null;
  nodes?: { total: number; evaluated: number; feasible: number; summary: string } | null;
  rejections?: Rejection[] | null;
  closestNodes?: { node?: string; missing: Missing[] | null }[] | null;
  deviceRequests?: DeviceRequest[] | null;
  queue?: { where: string; since: string; gate?: string } | null;
  requeueEvents?: RequeueEvents[] | null;
  preemption?: { candidates: number; victims: number; nodes?: number; outcome: string } | null;
  lastChange: string;
}

export interface PodCondition { type: string; status: string; reason?: string; message?: string; lastTransitionTime?: string | null }

export interface Explanation {
  pod: string; schedulerName: string; node?: string; condition?: PodCondition | null; decision?: Decision | null;
  schedulingDecision?: SchedulingDecision | null; group?: { pod: string; schedulingDecision: SchedulingDecision }[] | null;
  programmed?: DecidedBy | null; notes?: string[] | null;
}

export interface PodEvent { type: string; reason: string; message: string; count: number; last: string; from: string }

export interface PodDetails { explanation: Explanation; text: string; events: PodEvent[] | null; notes: string[] | null }

// What `kubectl berth explain --matrix -o json` prints.

export interface MatrixRejection { plugin: string; code: string; missing: Missing[] | null }

export interface MatrixNode {
  node: string; feasible: boolean; failed?: boolean; rejections?: MatrixRejection[] | null;
  total?: number | null; scores?: Record<string, number> | null;
}

export interface Matrix {
  pod: string; currentNode?: string; profile: string; title: string; filters: string[] | null; scores: string[] | null;
  rejected?: { plugin: string; reason: string } | null; feasible: number; nodes: MatrixNode[] | null; notes?: string[] | null;
}

// What `kubectl berth try -o json` prints.

export interface TryPod {
  pod: string; node: string; oneOf?: string[] | null; evaluated?: number; feasible?: number; top?: NodeScore[] | null;
  devices?: string[] | null; message?: string; rejections?: Rejection[] | null; deviceRequests?: DeviceRequest[] | null;
  preemption?: { node?: string; victims: string[] | null; violations?: number } | null;
}

export interface TryResult {
  subject: string; profile: string; title: string; nodes: number; group?: { name: string; minCount?: number } | null;
  pods: TryPod[] | null; notes?: string[] | null;
}

export interface Revision { hash: string; number: number; generation: number; created: string; status: string; running: boolean }

export interface Revisions { profile: string; running: string; revisions: Revision[] | null }

export interface DiffLine { sign: string; text: string }

export interface Diff {
  profile: string; from: { hash: string; title: string }; to: { hash: string; title: string };
  sections: { title: string; lines: DiffLine[] | null }[] | null; equal: string[] | null; trial: Trial | null;
}
