// Made-up clusters for the fixture: small has every state, large has 5,000 nodes and 20,000 pods.

const Gi = 2 ** 30;

/** random returns a generator of numbers between 0 and 1, the same for the same seed. */
export function random(seed) {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

export const ago = (seconds) => new Date(Date.now() - seconds * 1000).toISOString().replace(/\.\d+Z/, 'Z');

const point = (...points) => points;

const plugins = [
  { name: 'SchedulingGates', points: point('PreEnqueue') },
  { name: 'PrioritySort', points: point('QueueSort') },
  { name: 'NodeUnschedulable', points: point('Filter') },
  { name: 'NodeName', points: point('Filter') },
  { name: 'TaintToleration', points: point('Filter', 'PreScore', 'Score'), weight: 3 },
  { name: 'NodeAffinity', points: point('PreFilter', 'Filter', 'PreScore', 'Score'), weight: 2 },
  { name: 'NodePorts', points: point('PreFilter', 'Filter') },
  { name: 'NodeResourcesFit', points: point('PreFilter', 'Filter', 'PreScore', 'Score'), weight: 5, args: 'PluginConfig/binpack' },
  { name: 'VolumeBinding', points: point('PreFilter', 'Filter', 'Reserve', 'PreBind') },
  { name: 'PodTopologySpread', points: point('PreFilter', 'Filter', 'PreScore', 'Score'), weight: 2 },
  { name: 'InterPodAffinity', points: point('PreFilter', 'Filter', 'PreScore', 'Score'), weight: 2, args: 'inline' },
  { name: 'DefaultPreemption', points: point('PostFilter') },
  { name: 'ImageLocality', points: point('Score'), weight: 1 },
  { name: 'GangScheduling', points: point('PreEnqueue', 'Permit') },
  { name: 'DefaultBinder', points: point('Bind') },
];

const conditions = (ready, reason, message, more = []) => [
  { type: 'Accepted', status: ready || reason === 'Paused' ? 'True' : 'False', reason: ready || reason === 'Paused' ? 'Accepted' : reason, message: ready ? 'generation is understood' : message, since: ago(5400) },
  { type: 'ResolvedRefs', status: 'True', reason: 'ResolvedRefs', message: 'PluginConfig binpack generation 4', since: ago(86400) },
  { type: 'Programmed', status: ready || reason === 'Paused' ? 'True' : 'False', reason: ready ? 'Programmed' : 'PreviousRuns', message: ready ? 'exactly this generation runs' : message, since: ago(5400) },
  { type: 'Ready', status: ready ? 'True' : 'False', reason: ready ? 'Ready' : reason, message, since: ago(5400) },
  ...more,
];

const zero = { pending: 0, active: 0, backoff: 0, unschedulable: 0, gated: 0, waiting: 0, held: 0, quarantined: 0, inFlight: 0 };

function profile(name, more = {}) {
  return {
    name, state: 'Active', ready: 'True', reason: 'Ready', message: '', degraded: '', generation: 7, runs: 7, hash: '9f3c1a2b4d', revision: `${name}-9f3c1a2b4d`,
    queue: { ...zero }, totals: { since: ago(90000), bound: 18432, refusals: 611, errors: 0, victims: 12 }, lastDecision: ago(3),
    conditions: conditions(true, 'Ready', 'generation 7 runs since 10:12'),
    trial: { sampled: 212, fitBefore: 198, fitAfter: 201, lost: [], time: ago(5400) }, plugins,
    recent: [
      { time: ago(3), pod: 'shop/web-7c9d8-x2x8k', result: 'Bound', node: 'n17' },
      { time: ago(9), pod: 'shop/checkout-5d4f-a', result: 'Bound', node: 'n4' },
      { time: ago(31), pod: 'train/resnet-0', result: 'Unschedulable', message: '0/24 nodes are available: 18 Insufficient cpu, 6 node(s) had untolerated taint(s).' },
      { time: ago(64), pod: 'shop/cart-6b8-q', result: 'Error', message: 'plugin VolumeBinding: timed out waiting for the PersistentVolumeClaim' },
    ], created: ago(86400 * 40), ...more,
  };
}

export function smallProfiles() {
  const refused = 'generation 6 keeps running since 10:12; generation 7 refused: spec.plugins.score.enabled[0].name: no plugin "NodeResourceFit", did you mean "NodeResourcesFit"?; spec.pluginConfig[1].args.hardPodAffinityWeight: Invalid value: 400: must be in the range 0 to 100';
  return [
    profile('batch', { queue: { ...zero, pending: 61, active: 4, backoff: 6, unschedulable: 38, gated: 5, waiting: 3, held: 4, quarantined: 1, inFlight: 2 } }),
    profile('web', { ready: 'False', reason: 'UnknownPlugin', message: refused, runs: 6, hash: '07aac0a95a', revision: 'web-07aac0a95a', conditions: conditions(false, 'UnknownPlugin', refused, [{ type: 'Stalled', status: 'True', reason: 'UnknownPlugin', message: refused, since: ago(5400) }]), queue: { ...zero, pending: 2, active: 2 }, trial: null }),
    profile('gpu', { degraded: 'plugin DynamicResources: 2 calls of Filter have not returned for 14s; 2 of at most 16 abandoned calls', queue: { ...zero, pending: 9, unschedulable: 9 }, trial: { sampled: 40, fitBefore: 31, fitAfter: 28, lost: ['train/resnet-0', 'train/resnet-1', 'train/bert-9'], time: ago(700) } }),
    profile('night', { state: 'Paused', ready: 'False', reason: 'Paused', message: 'the profile is paused: 12 pods wait', queue: { ...zero, pending: 12, held: 12 }, lastDecision: ago(40000), conditions: conditions(false, 'Paused', 'the profile is paused: 12 pods wait') }),
    profile('canary', { ready: 'False', reason: 'PluginConfigNotFound', message: 'nothing runs; generation 1 refused: spec.pluginConfig[0].configRef.name: PluginConfig "spread" not found', runs: null, hash: '', revision: '', generation: 1, queue: { ...zero }, totals: null, lastDecision: null, plugins: [], trial: null, recent: [], conditions: conditions(false, 'PluginConfigNotFound', 'PluginConfig "spread" not found') }),
  ];
}

export function makeNodes(n, zones) {
  return Array.from({ length: n }, (_, i) => ({
    name: `n${i + 1}`, zone: zones[i % zones.length], instanceType: i % 3 === 0 ? 'm6.4xlarge' : 'm6.2xlarge', ready: i % 97 !== 13, cordoned: i % 61 === 7,
    taints: i % 8 === 5 ? ['dedicated=gpu:NoSchedule'] : [], cpu: i % 3 === 0 ? 16000 : 8000, memory: (i % 3 === 0 ? 64 : 32) * Gi, pods: 110,
    extended: i % 8 === 5 ? { 'nvidia.com/gpu': 4 } : {}, devices: i % 8 === 5 ? 4 : 0,
  }));
}

export function boundPod(key, node, r, profiles) {
  const gpu = node.devices > 0 && r() < 0.5;
  return {
    key, uid: `uid-${key}`, profile: gpu ? 'gpu' : profiles[Math.floor(r() * r() * profiles.length)], node: node.name, phase: 'Running',
    cpu: 250 * (1 + Math.floor(r() * 8)), memory: (1 + Math.floor(r() * 6)) * Gi / 2, ...gpu ? { extended: { 'nvidia.com/gpu': 1 }, devices: 1 } : {},
    created: ago(60 + Math.floor(r() * 80000)), bound: ago(50), owner: 'ReplicaSet/' + key.split('/')[1].replace(/-[^-]*$/, ''), annotated: true, priority: 0,
  };
}

export function pendingPod(key, more = {}) {
  return {
    key, uid: `uid-${key}`, profile: 'batch', node: '', phase: 'Pending', cpu: 4000, memory: 8 * Gi, created: ago(600), bound: null,
    reason: 'Unschedulable', message: '0/24 nodes are available: 18 Insufficient cpu, 6 node(s) had untolerated taint(s).',
    owner: 'Job/' + key.split('/')[1].replace(/-[^-]*$/, ''), priority: 0, ...more,
  };
}

const requeue = [
  { plugin: 'NodeResourcesFit', events: ['AssignedPod/Delete', 'AssignedPod/UpdateScaleDown', 'Node/Add', 'Node/UpdateAllocatable'] },
  { plugin: 'TaintToleration', events: ['Node/Add', 'Node/UpdateTaint'] },
];

export function waiting(key, more = {}) {
  return {
    key, result: 'Unschedulable', profile: 'batch', blockedBy: 'NodeResourcesFit 18, TaintToleration 6',
    message: '0/24 nodes are available: 18 Insufficient cpu, 6 node(s) had untolerated taint(s).', total: 24, feasible: 0,
    rejections: [
      { plugin: 'NodeResourcesFit', code: 'Unschedulable', reason: 'Insufficient cpu', nodes: 18 },
      { plugin: 'TaintToleration', code: 'UnschedulableAndUnresolvable', reason: 'node(s) had untolerated taint(s)', nodes: 6 },
    ],
    fits: ['500m more cpu on n17', 'a toleration of taint dedicated=gpu on a node'], requeue, where: 'Unschedulable', since: ago(300), group: '', lastChange: ago(120), ...more,
  };
}

/** pendingOf returns pods and decisions of every kind. */
export function smallPending() {
  const pods = [], decisions = [];
  const add = (key, pod, decision) => {
    pods.push(pendingPod(key, pod));
    if (decision) decisions.push(waiting(key, decision));
  };
  for (let i = 0; i < 34; i++) add(`train/sweep-${i}`, { created: ago(9000 - i * 120), priority: i % 3 === 0 ? 1000 : 0 }, i % 4 === 3 ? { fits: ['500m more cpu on n17'] } : {});
  for (let i = 0; i < 4; i++) add(`shop/report-${i}`, { created: ago(700 + i) }, { blockedBy: 'NodeAffinity 24', rejections: [{ plugin: 'NodeAffinity', code: 'UnschedulableAndUnresolvable', reason: "node(s) didn't match Pod's node affinity/selector", nodes: 24 }], fits: ['label disk=ssd on a node'], requeue: [{ plugin: 'NodeAffinity', events: ['Node/Add', 'Node/UpdateLabel'] }], message: "0/24 nodes are available: 24 node(s) didn't match Pod's node affinity/selector." });
  for (let i = 0; i < 9; i++) add(`train/bert-${i}`, { profile: 'gpu', created: ago(5000) }, { profile: 'gpu', group: 'train/bert', blockedBy: i === 0 ? 'DynamicResources 24' : '', rejections: i === 0 ? [{ plugin: 'DynamicResources', code: 'Unschedulable', reason: 'cannot allocate all claims', nodes: 24 }] : [], fits: i === 0 ? ['1 more device of class gpu.example.com on n6'] : [], message: i === 0 ? '0/24 nodes are available: 24 cannot allocate all claims.' : 'pod bert-0 of the group explains why it waits', requeue: [] });
  for (let i = 0; i < 5; i++) add(`shop/quota-${i}`, { reason: 'SchedulingGated', message: 'Scheduling is blocked due to non-empty scheduling gates', created: ago(4000), queue: 'team-a' }, { result: 'Gated', blockedBy: 'SchedulingGates', rejections: [], fits: [], requeue: [], message: 'waiting for scheduling gates: [example.com/quota]', where: 'Gated' });
  for (let i = 0; i < 12; i++) add(`ops/night-${i}`, { profile: 'night', reason: 'ProfilePaused', message: 'SchedulingProfile night is paused', created: ago(40000) }, { profile: 'night', result: 'Held', blockedBy: '', rejections: [], fits: [], requeue: [], message: 'SchedulingProfile night is paused', where: 'Held' });
  for (let i = 0; i < 4; i++) add(`ops/claims-${i}`, { reason: 'Unsupported', message: 'spec.schedulingGroup is not supported', created: ago(500) });
  add('shop/crashing-0', { reason: 'Quarantined', message: 'plugin Trimaran panicked 3 times in 10 minutes; tried again in 4m', created: ago(900) }, { result: 'Quarantined', blockedBy: 'Trimaran', rejections: [], fits: [], requeue: [], message: 'plugin Trimaran panicked 3 times in 10 minutes; tried again in 4m', where: 'Held' });
  for (let i = 0; i < 3; i++) add(`train/permit-${i}`, { reason: '', message: '' }, { result: 'WaitingOnPermit', blockedBy: 'GangScheduling', rejections: [], fits: [], requeue: [], message: 'waiting on Permit for 2 more pods', where: 'InFlight' });
  add('shop/preempts-0', { priority: 100000, nominated: 'n9' }, { result: 'Preempting', message: '0/24 nodes are available: 24 Insufficient cpu. preemption: victims are being evicted', fits: [] });
  add('shop/error-0', { reason: 'SchedulerError', message: 'running PreBind plugin "VolumeBinding": timed out waiting for the condition' }, { result: 'Error', blockedBy: '', rejections: [], fits: [], requeue: [], message: 'running PreBind plugin "VolumeBinding": timed out waiting for the condition', where: 'Backoff' });
  for (let i = 0; i < 2; i++) add(`shop/new-${i}`, { profile: 'web', reason: '', message: '', created: ago(1) });
  add('shop/lost-0', { profile: 'bacth', reason: '', message: '', created: ago(7000) });
  return { pods, decisions };
}

export function small() {
  const nodes = makeNodes(24, ['zone-a', 'zone-b', 'zone-c']), r = random(7), { pods, decisions } = smallPending();
  const apps = ['web', 'checkout', 'cart', 'search', 'ledger'];
  for (let i = 0; i < 170; i++) pods.push(boundPod(`shop/${apps[i % 5]}-7c9d8-${i}`, nodes[Math.floor(r() * 23)], r, ['batch', 'web', 'night']));
  return { profiles: smallProfiles(), nodes, pods, decisions, notes: [] };
}

export function large() {
  const nodes = makeNodes(5000, ['europe-west4-a', 'europe-west4-b', 'europe-west4-c']), r = random(11), pods = [], decisions = [];
  for (let i = 0; i < 19400; i++) pods.push(boundPod(`ns${i % 40}/app${i % 300}-${i}`, nodes[Math.floor(r() * nodes.length)], r, ['batch', 'web', 'night', 'canary']));
  for (let i = 0; i < 600; i++) {
    const key = `train/sweep${i % 5}-${i}`;
    pods.push(pendingPod(key));
    decisions.push(waiting(key, { total: 5000, rejections: [{ plugin: 'NodeResourcesFit', code: 'Unschedulable', reason: 'Insufficient cpu', nodes: 4980 - i % 5 }, { plugin: 'TaintToleration', code: 'UnschedulableAndUnresolvable', reason: 'node(s) had untolerated taint(s)', nodes: 20 + i % 5 }] }));
  }
  return { profiles: smallProfiles(), nodes, pods, decisions, notes: [] };
}

/** hostile has texts that would be markup, or change the direction of the text, if they were not shown as text. */
export function hostile() {
  const data = small(), attack = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script> \u202Egnp.exe javascript:alert(1) {{7*7}}';
  data.profiles[0].message = attack;
  data.profiles[0].ready = 'False';
  data.profiles[0].degraded = attack;
  data.profiles[0].name = '"><svg onload=window.hacked=1>';
  data.nodes[0].name = '<b>n1</b>';
  data.nodes[0].zone = '<i>zone</i>';
  data.nodes[0].taints = [attack];
  for (const p of data.pods.slice(0, 40)) p.message = attack;
  for (const d of data.decisions.slice(0, 40)) {
    d.message = attack;
    d.blockedBy = attack;
    d.fits = [attack];
    d.rejections = d.rejections.map((x) => ({ ...x, plugin: '<u>P</u>', reason: attack }));
  }
  data.notes = [attack];
  return data;
}

export function empty() {
  return { profiles: [], nodes: [], pods: [], decisions: [], notes: [] };
}

export function forbidden() {
  return { ...empty(), notes: ['You may not list nodes: the map is empty.', 'You may not list pods in all namespaces: those of namespace default are shown.', 'You may not list schedulingprofiles.berth.dev: no profile is shown.'] };
}
