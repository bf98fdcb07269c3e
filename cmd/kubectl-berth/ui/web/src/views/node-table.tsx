// The data of the map as a table.
import { useMemo, useState } from 'preact/hooks';
import { store, useTopics } from '../app-context';
import { amount, count, number, percent } from '../format';
import { natural } from '../map/layout';
import { capacity, share, stateOf, used } from '../map/resource';
import { VirtualTable } from '../parts/virtual';

type Sort = 'most' | 'least' | 'name' | 'pods';

const rowHeight = 30;

export function NodeTable({ resource, match, matchKey, selected, select }: {
  resource: string; match: (name: string) => boolean; matchKey: string; selected: string; select: (name: string) => void;
}) {
  useTopics(['nodes', 'usage'], 1500);
  const [sort, setSort] = useState<Sort>('most');
  const rows = useMemo(() => {
    const all = [...store.nodes.values()].filter((node) => match(node.name)).map((node) => ({
      node, share: share(store, node, resource), pods: store.usage.get(node.name)?.pods ?? 0,
    }));
    const byName = (a: typeof all[number], b: typeof all[number]): number => natural(a.node.name, b.node.name);
    const value = (x: number, none: number): number => Number.isNaN(x) ? none : x;
    switch (sort) {
      case 'most': return all.sort((a, b) => value(b.share, -1) - value(a.share, -1) || byName(a, b));
      case 'least': return all.sort((a, b) => value(a.share, 1e9) - value(b.share, 1e9) || byName(a, b));
      case 'pods': return all.sort((a, b) => b.pods - a.pods || byName(a, b));
    }
    return all.sort(byName);
  }, [store.version('nodes'), store.version('usage'), resource, matchKey, sort]);
  const at = useMemo(() => selected === '' ? -1 : rows.findIndex((row) => row.node.name === selected), [selected]);
  const head = ['Node', 'Zone', 'Requested', 'Share', 'Pods', 'State'];
  return (
    <section class="panel node-table" aria-labelledby="h-nodes">
      <header class="panel-head"><h2 id="h-nodes">{count(rows.length, 'node')}</h2>
        <label class="field inline"><span>Sort by</span>
          <select value={sort} onChange={(e) => setSort(e.currentTarget.value as Sort)}>
            <option value="most">most requested</option><option value="least">least requested</option><option value="pods">most pods</option><option value="name">name</option>
          </select>
        </label>
      </header>
      {rows.length === 0 ? <p class="muted">No node matches the filter.</p> : (
        <VirtualTable class={'nodes' + (rows.length > 8 ? ' full' : '')} label="Nodes" count={rows.length} rowHeight={rowHeight} headHeight={28} columns={head.length} show={at}
          head={head.map((name, i) => <span key={name} role="columnheader" class={`c${i}`}>{name}</span>)}
          rowKey={(i) => rows[i].node.name} rowClass={(i) => rows[i].node.name === selected ? 'selected' : ''}
          row={(i) => {
            const { node, share: part, pods } = rows[i], all = capacity(node, resource);
            return (
              <>
                <span role="rowheader" class="c0"><button type="button" class="link name" title={node.name} onClick={() => select(node.name)}>{node.name}</button></span>
                <span role="cell" class="c1" title={node.zone}><bdi>{node.zone || 'none'}</bdi></span>
                <span role="cell" class="c2">{all > 0 ? `${shortAmount(resource, used(store.usage.get(node.name), resource))} of ${amount(resource, all)}` : 'none'}</span>
                <span role="cell" class="c3">{percent(part)}</span>
                <span role="cell" class="c4">{number(pods)}</span>
                <span role="cell" class={'c5' + (node.ready ? '' : ' bad-text')} title={stateOf(node)}>{stateOf(node)}</span>
              </>
            );
          }} />
      )}
    </section>
  );
}

/** shortAmount has no unit, where the one of the total follows. */
function shortAmount(resource: string, value: number): string {
  if (resource === 'memory') return amount(resource, value);
  return amount(resource, value).replace(/ (cores?|pods?|devices?)$/, '');
}
