// The answers of the fixture to requests about one object.
import { ago, random } from './data.mjs';

export function podDetails(data, key) {
  const pod = data.pods.get(key);
  if (!pod) return null;
  const waiting = data.decisions.get(key);
  const explanation = { pod: key, schedulerName: pod.profile, programmed: { name: pod.profile, generation: 7, hash: '9f3c1a2b4d' } };
  const [, name] = key.split('/');
  if (pod.node) {
    const others = [...data.nodes.keys()].filter((node) => node !== pod.node);
    explanation.node = pod.node;
    explanation.condition = { type: 'PodScheduled', status: 'True', lastTransitionTime: ago(50) };
    explanation.decision = {
      result: 'Bound', node: pod.node, profile: pod.profile, generation: 7, hash: '9f3c1a2b4d', epoch: 47, evaluated: 24, feasible: 18, attempts: 1,
      top: [[pod.node, 87, 440], [others[3], 71, 395], [others[9], 64, 120]].map(([node, balanced, fit]) => ({
        node, score: balanced + fit + 300, plugins: { DynamicResources: 0, ImageLocality: 0, NodeResourcesBalancedAllocation: balanced, NodeResourcesFit: fit, TaintToleration: 300 },
      })),
    };
  } else {
    explanation.condition = { type: 'PodScheduled', status: 'False', reason: pod.reason, message: pod.message, lastTransitionTime: ago(600) };
    if (waiting) {
      explanation.schedulingDecision = {
        result: waiting.result, profile: { name: waiting.profile, generation: 7, hash: '9f3c1a2b4d' }, message: waiting.message, blockedBy: waiting.blockedBy,
        nodes: { total: waiting.total, evaluated: waiting.total, feasible: 0, summary: `0/${waiting.total}` }, rejections: waiting.rejections,
        closestNodes: [
          { node: 'n17', missing: [{ resource: 'cpu', requested: '4', free: '3500m' }] },
          { node: 'n6', missing: [{ plugin: 'TaintToleration', reason: 'node(s) had untolerated taint(s)' }, { resource: 'memory', requested: '8Gi', free: '6Gi' }] },
        ],
        deviceRequests: waiting.profile === 'gpu' ? [{ claim: 'gpu', request: 'gpu', deviceClassName: 'gpu.example.com', count: 2, published: 12, selectors: [{ source: 'Class', expression: 'device.driver == "gpu.example.com"', matching: 12 }, { source: 'Request', expression: 'device.attributes["gpu.example.com"].memory >= 80', matching: 4 }], free: 1 }] : undefined,
        queue: { where: waiting.where, since: waiting.since }, requeueEvents: waiting.requeue, preemption: { candidates: 0, victims: 0, outcome: 'NoCandidates' }, lastChange: waiting.lastChange,
        group: waiting.group ? { source: 'PodGroup', name: waiting.group.split('/')[1], minCount: 8, pods: 9, fit: 5, notTried: 3 } : undefined,
      };
    }
  }
  return {
    explanation, text: `${key}: ${pod.node ? `bound to node ${pod.node}` : 'Pending for 10m'}\n\nProfile    ${pod.profile}, generation 7, hash 9f3c1a2b4d (running)\nMessage    ${pod.message ?? ''}\n`,
    events: pod.node ? [{ type: 'Normal', reason: 'Scheduled', message: `Successfully assigned ${key} to ${pod.node}`, count: 1, last: ago(50), from: pod.profile }]
      : [{ type: 'Warning', reason: 'FailedScheduling', message: pod.message ?? '', count: 14, last: ago(31), from: pod.profile }, { type: 'Normal', reason: 'NotTriggerScaleUp', message: `pod ${name} didn't trigger scale-up`, count: 3, last: ago(300), from: 'cluster-autoscaler' }],
    notes: [],
  };
}

const filters = ['NodeUnschedulable', 'NodeName', 'TaintToleration', 'NodeAffinity', 'NodePorts', 'NodeResourcesFit', 'VolumeBinding', 'PodTopologySpread', 'InterPodAffinity', 'DynamicResources'];
const scores = ['TaintToleration', 'NodeAffinity', 'NodeResourcesFit', 'PodTopologySpread', 'NodeResourcesBalancedAllocation', 'ImageLocality'];

export function matrix(data, key) {
  const pod = data.pods.get(key);
  if (!pod) return null;
  const r = random(key.length), nodes = [];
  for (const node of data.nodes.values()) {
    const rejections = [];
    const against = (plugin, code, missing) => rejections.push({ plugin, code, missing });
    if (node.cordoned) against('NodeUnschedulable', 'UnschedulableAndUnresolvable', [{ plugin: 'NodeUnschedulable', reason: 'node(s) were unschedulable' }]);
    if (node.taints.length > 0) against('TaintToleration', 'UnschedulableAndUnresolvable', [{ plugin: 'TaintToleration', reason: `node(s) had untolerated taint(s) {${node.taints[0]}}` }]);
    if (r() < (pod.node ? 0.2 : 0.9) || !pod.node) against('NodeResourcesFit', 'Unschedulable', [{ resource: 'cpu', requested: '4', free: `${500 + Math.floor(r() * 30) * 100}m` }, ...r() < 0.3 ? [{ resource: 'memory', requested: '8Gi', free: '6Gi' }] : []]);
    const result = { node: node.name, feasible: rejections.length === 0 };
    if (rejections.length > 0) {
      result.rejections = rejections;
    } else {
      result.scores = { TaintToleration: 300, NodeResourcesFit: Math.floor(r() * 500), PodTopologySpread: Math.floor(r() * 200), NodeResourcesBalancedAllocation: 40 + Math.floor(r() * 60), ImageLocality: 0 };
      result.total = Object.values(result.scores).reduce((a, b) => a + b, 0);
    }
    nodes.push(result);
  }
  nodes.sort((a, b) => b.feasible - a.feasible || (b.total ?? 0) - (a.total ?? 0) || (a.rejections?.length ?? 0) - (b.rejections?.length ?? 0) || (a.node < b.node ? -1 : 1));
  return {
    pod: key, currentNode: pod.node || undefined, profile: pod.profile, title: `profile ${pod.profile}, generation 7, hash 9f3c1a2b4d`, filters, scores,
    feasible: nodes.filter((n) => n.feasible).length, nodes, notes: ['38 pods of profile batch also pending: pods that are scheduled first may take the resources'],
  };
}

export function revisions(data, name) {
  const profile = data.profiles.get(name);
  if (!profile) return null;
  return {
    profile: name, running: profile.hash, revisions: profile.runs === null ? [] : [
      { hash: '9f3c1a2b4d', number: 5, generation: 7, created: ago(5400), status: profile.hash === '9f3c1a2b4d' ? 'stable' : 'trial only, never ran' },
      { hash: '07aac0a95a', number: 4, generation: 6, created: ago(86400), status: 'stable' },
      { hash: 'c41d09be77', number: 3, generation: 5, created: ago(200000), status: 'blamed for a crash: NodeResourcesFit panicked' },
      { hash: '5b6e11f002', number: 2, generation: 3, created: ago(900000), status: 'served, on probation' },
    ].map((r) => ({ ...r, running: r.hash === profile.hash })),
  };
}

export function diff(data, name, from, to) {
  const profile = data.profiles.get(name);
  if (!profile) return null;
  const title = (hash) => hash === 'spec' ? 'spec, generation 7' : `generation ${hash.startsWith('9') ? 7 : 6}, hash ${hash}, revision ${name}-${hash}`;
  const line = (sign, text) => ({ sign, text });
  const sections = from === to ? [] : [
    { title: 'score', lines: [line('-', 'NodeResourcesFit, weight 1'), line('+', 'NodeResourcesFit, weight 5'), line(' ', 'TaintToleration, weight 3'), line(' ', 'NodeAffinity, weight 2'), line('-', 'NodeResourcesBalancedAllocation, weight 1')] },
    { title: 'arguments of NodeResourcesFit', lines: [line(' ', 'scoringStrategy:'), line(' ', '  resources:'), line(' ', '  - name: cpu'), line(' ', '    weight: 1'), line('-', '  type: LeastAllocated'), line('+', '  type: MostAllocated')] },
    { title: 'settings', lines: [line(' ', 'percentageOfNodesToScore: 0'), line('-', 'queue.maxBackoff: 10s'), line('+', 'queue.maxBackoff: 1m0s'), line('+', 'queue.flushAfter: never')] },
  ];
  return { profile: name, from: { hash: from, title: title(from) }, to: { hash: to, title: title(to) }, sections, equal: ['preFilter', 'filter', 'reserve', 'bind'], trial: to === profile.hash ? profile.trial : null };
}

export function tryResult(data, body, query) {
  if (!/kind:/.test(body) && !body.trim().startsWith('{')) return { status: 400, error: 'document 1: no kind: a manifest has apiVersion, kind and metadata.' };
  const without = query.getAll('without-node'), replicas = Number(query.get('replicas') ?? 3), names = [...data.nodes.keys()].filter((n) => !without.includes(n));
  const top = (best) => [best, names[1], names[8]].map((node, i) => ({ node, score: 950 - i * 190, plugins: { DynamicResources: 0, NodeResourcesFit: 375 - i * 190, NodeResourcesBalancedAllocation: 75, PodTopologySpread: 200, TaintToleration: 300 } }));
  const pods = Array.from({ length: replicas }, (_, i) => i < Math.max(1, Math.ceil(replicas * 0.6)) ? {
    pod: `default/shop-${i}`, node: names[2 + i % 3], evaluated: names.length, feasible: 9 - i % 4, top: top(names[2 + i % 3]), ...i === 1 ? { oneOf: [names[3], names[5]] } : {},
  } : {
    pod: `default/shop-${i}`, node: '', message: `0/${names.length} nodes are available: 18 Insufficient cpu, 6 node(s) had untolerated taint(s). preemption: 1 node can be made feasible.`,
    rejections: [{ plugin: 'NodeResourcesFit', code: 'Unschedulable', reason: 'Insufficient cpu', nodes: 18, exampleNode: 'n2' }, { plugin: 'TaintToleration', code: 'UnschedulableAndUnresolvable', reason: 'node(s) had untolerated taint(s)', nodes: 6 }],
    preemption: { node: 'n4', victims: ['shop/cart-7c9d8-12', 'shop/web-7c9d8-5'], violations: 1 },
  });
  return { status: 200, body: { subject: 'Deployment default/shop', profile: query.get('profile') ?? 'batch', title: 'profile batch, generation 7, hash 9f3c1a2b4d', nodes: names.length, pods, notes: ['38 pods of profile batch already pending and not counted: pods that are scheduled first may take the resources'] } };
}
