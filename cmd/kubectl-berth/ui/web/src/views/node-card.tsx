// The card of a node: its state, what is requested of it, and its pods.
import { store, useTopics } from '../app-context';
import { amount, count, number } from '../format';
import { capacity, resources, stateOf, used } from '../map/resource';
import { Chip } from '../parts/basics';
import { Meter } from '../parts/bars';
import { podLink } from '../router';

const podsShown = 100;

export function NodeCard({ name, resource, pinned, close, cardRef }: {
  name: string; resource: string; pinned: boolean; close: () => void; cardRef: { current: HTMLElement | null };
}) {
  useTopics(['node:' + name], 500);
  const node = store.nodes.get(name);
  if (!node) {
    return <section ref={cardRef} class="panel card hint" aria-label="Node" tabIndex={-1}><p class="muted">Point at a tile, or go to the map and use the arrow keys: the node and its pods appear here.</p></section>;
  }
  const usage = store.usage.get(name);
  const own = resources([node]), order = [resource, ...own.filter((r) => r !== resource)].filter((r) => capacity(node, r) > 0);
  const keys = [...usage?.keys ?? []].sort();
  const profiles = [...usage?.profiles ?? []].sort(([, a], [, b]) => b - a);
  return (
    <section ref={cardRef} class="panel card" aria-label={`Node ${name}`} tabIndex={-1} onKeyDown={(e) => { if (e.key === 'Escape') close(); }}>
      <header class="panel-head">
        <h2 class="name">{name}</h2>
        {pinned && <button type="button" class="small" onClick={close} aria-label={`Close the card of ${name}`}>Close</button>}
      </header>
      <p class="card-facts">
        {node.ready ? <Chip tone="ok">ready</Chip> : <Chip tone="bad">not ready</Chip>}
        {node.cordoned && <Chip tone="warn">cordoned</Chip>}
        <span>{node.zone || 'no zone'}</span>{node.instanceType && <span title="instance type">{node.instanceType}</span>}<span class="sr">{stateOf(node)}</span>
      </p>
      {order.map((r) => {
        const all = capacity(node, r), sum = used(usage, r);
        return <Meter key={r} label={r} text={`${r === 'cpu' || r === 'memory' ? amount(r, sum) : number(sum)} of ${amount(r, all)}`} share={sum / all} />;
      })}
      {(node.taints ?? []).length > 0 && <p class="fine">Taints: {(node.taints ?? []).map((taint) => <code key={taint}>{taint}</code>)}</p>}
      <h3>{count(keys.length, 'pod')}{profiles.length > 0 && <span class="muted"> ({profiles.slice(0, 4).map(([profile, n]) => `${profile} ${number(n)}`).join(', ')})</span>}</h3>
      {keys.length === 0 ? <p class="muted">No pod is bound to the node.</p> : (
        <ul class="card-pods">
          {keys.slice(0, podsShown).map((key) => {
            const pod = store.pods.get(key);
            return <li key={key}><a class="name" href={podLink(key)}>{key}</a>{pod && <span class="muted">{amount('cpu', pod.cpu)}, {amount('memory', pod.memory)}</span>}</li>;
          })}
          {keys.length > podsShown && <li class="muted">and {count(keys.length - podsShown, 'more pod')}</li>}
        </ul>
      )}
    </section>
  );
}
