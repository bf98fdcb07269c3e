// Why nodes are not feasible: tables that a pod's page and the result of a try share.
import { count, missing, number } from '../format';
import type { DeviceRequest, NodeScore, Rejection, RequeueEvents, SchedulingDecision } from '../types';
import { DataTable, PluginName, Scroll } from './basics';
import { Share } from './bars';

/** unresolvable: preemption does not help. */
export const unresolvable = (code: string): boolean => code === 'UnschedulableAndUnresolvable';

export function Rejections({ rejections, total }: { rejections: Rejection[]; total: number }) {
  const most = Math.max(total, ...rejections.map((r) => r.nodes), 1);
  return (
    <DataTable label="Reasons by plugin" heads columns={[{ name: 'Plugin', class: 'name' }, { name: 'Nodes', class: 'num' }, { name: 'Share of nodes', class: 'w-bar', hidden: true }, { name: 'Reason' }]}
      rows={rejections.map((r, i) => ({
        key: String(i), cells: [
          r.plugin || 'no plugin', r.nodes > 0 ? number(r.nodes) : <span class="muted">none evaluated</span>, <Share share={r.nodes / most} tone="bad" />,
          <><bdi>{r.reason}</bdi>{unresolvable(r.code) && <span class="muted"> (not resolvable by preemption)</span>}{r.exampleNode && <span class="muted">, for example on {r.exampleNode}</span>}</>,
        ],
      }))} />
  );
}

export function ClosestNodes({ nodes }: { nodes: NonNullable<SchedulingDecision['closestNodes']> }) {
  return (
    <ul class="closest">
      {nodes.map((near, i) => (
        <li key={i}>
          <span class="name">{near.node || 'a node'}</span>
          <ul>{(near.missing ?? []).map((m, j) => <li key={j}><bdi>{missing(m)}</bdi>{m.plugin && m.reason && <span class="muted"> ({m.plugin})</span>}</li>)}</ul>
        </li>
      ))}
    </ul>
  );
}

export function DeviceRequests({ requests }: { requests: DeviceRequest[] }) {
  return (
    <ul class="devices">
      {requests.map((r, i) => r.claim === ''
        ? <li key={i}><bdi>{r.request}</bdi></li>
        : (
          <li key={i}>
            <span class="name">{r.claim}/{r.request}</span>: {r.count ? count(r.count, 'device') : 'all devices'}
            {r.deviceClassName && <> of class {r.deviceClassName}</>}
            <ol class="funnel">
              <li>{number(r.published)} published</li>
              {(r.selectors ?? []).map((s, j) => <li key={j}>{number(s.matching)} match <code>{s.expression}</code> of the {s.source.toLowerCase()}</li>)}
              <li>{number(r.free)} free</li>
            </ol>
          </li>
        ))}
    </ul>
  );
}

export function Requeue({ events }: { events: RequeueEvents[] }) {
  return (
    <dl class="requeue">
      {events.map((r) => (
        <div key={r.plugin}><dt class="name">{r.plugin}</dt><dd>{(r.events ?? []).map((event) => <code key={event}>{event}</code>)}</dd></div>
      ))}
    </dl>
  );
}

/** Scores shows the weighted scores of the plugins for the best nodes, as bars and numbers. */
export function Scores({ top, chosen, mark }: { top: NodeScore[]; chosen: string[]; mark: string }) {
  const plugins = [...new Set(top.flatMap((node) => Object.keys(node.plugins ?? {})))].sort();
  const max = (plugin: string): number => Math.max(...top.map((node) => node.plugins?.[plugin] ?? 0), 0);
  const highest = Math.max(...plugins.map(max), 1), best = Math.max(...top.map((node) => node.score), 1);
  const same = (plugin: string): boolean => top.length > 1 && top.every((node) => node.plugins?.[plugin] === top[0].plugins?.[plugin]);
  const cell = (node: NodeScore, plugin: string) => {
    const score = node.plugins?.[plugin];
    if (score === undefined) return <span class="muted">{node.plugins ? 'none' : '?'}</span>;
    return <><span class="score-number">{number(score)}</span><Share share={score / highest} tone={same(plugin) ? 'quiet' : 'accent'} /></>;
  };
  return (
    <Scroll label="Scores by plugin and node">
      <table class="scores">
        <thead>
          <tr>
            <th scope="col">Plugin (weighted score)</th>
            {top.map((node) => <th scope="col" key={node.node} class="num"><span class="name">{node.node}</span>{chosen.includes(node.node) && <span class="mark"> {mark}</span>}</th>)}
          </tr>
        </thead>
        <tbody>
          {plugins.map((plugin) => (
            <tr key={plugin} class={same(plugin) ? 'same' : ''}>
              <th scope="row" class="name"><PluginName name={plugin} /></th>
              {top.map((node) => <td key={node.node} class="num score">{cell(node, plugin)}</td>)}
            </tr>
          ))}
          <tr class="total">
            <th scope="row">total</th>
            {top.map((node) => <td key={node.node} class="num score"><span class="score-number">{number(node.score)}</span><Share share={node.score / best} tone="ink" /></td>)}
          </tr>
        </tbody>
      </table>
    </Scroll>
  );
}
