// What every plugin says about every node now: a heat map, computed upon request.
import { useMemo, useState } from 'preact/hooks';
import { getMatrix } from '../api';
import { useLoad } from '../app-context';
import { count, missing, number, shortMissing } from '../format';
import { Ago, PluginName, Sign } from '../parts/basics';
import { Failed, Loading, Notes } from '../parts/states';
import { VirtualTable } from '../parts/virtual';
import type { Matrix, MatrixNode, MatrixRejection } from '../types';

export function MatrixSection({ namespace, name }: { namespace: string; name: string }) {
  const [asked, setAsked] = useState(false);
  const { data, error, loading, at, reload } = useLoad(asked ? `${namespace}/${name}` : null, (signal) => getMatrix(namespace, name, signal));
  return (
    <>
      <p class="actions">
        <button type="button" class="primary" disabled={loading} onClick={() => asked ? reload() : setAsked(true)}>{data ? 'Evaluate again' : 'Evaluate now'}</button>
        <span class="muted">
          {data ? <>Evaluated <Ago time={new Date(at).toISOString()} />, on a copy of what you may read.</> : 'Runs every plugin of the profile on every node, on a copy of what you may read. Nothing is written.'}
        </span>
      </p>
      {loading && !data && <Loading what="the result of each plugin for each node" />}
      {error && <Failed error={error} retry={reload} task="evaluate the pod" />}
      {data && <MatrixResult matrix={data} />}
    </>
  );
}

interface Columns { rejecting: string[]; silent: string[]; scores: string[]; same: string[]; max: Map<string, number>; total: number }

/** columns decides which plugins have a column: those that reject a node, and those whose scores differ. */
export function columns(matrix: Matrix): Columns {
  const nodes = matrix.nodes ?? [], rejects = new Map<string, number>();
  for (const node of nodes) for (const r of node.rejections ?? []) rejects.set(r.plugin, (rejects.get(r.plugin) ?? 0) + 1);
  const filters = matrix.filters ?? [];
  const rejecting = [...filters.filter((p) => rejects.has(p)), ...[...rejects.keys()].filter((p) => !filters.includes(p))];
  const feasible = nodes.filter((node) => node.feasible);
  const max = new Map<string, number>(), scores: string[] = [], same: string[] = [];
  for (const plugin of matrix.scores ?? []) {
    const values = feasible.map((node) => node.scores?.[plugin]);
    const highest = values.reduce<number>((a, b) => Math.max(a, b ?? 0), 0);
    max.set(plugin, highest);
    if (values.length === 0) continue;
    if (values.every((value) => value === values[0]) && values.length > 1) same.push(values[0] === undefined ? `${plugin} none` : `${plugin} ${values[0]}`);
    else scores.push(plugin);
  }
  return {
    rejecting, silent: filters.filter((p) => !rejects.has(p)), scores, same, max,
    total: feasible.reduce((a, node) => Math.max(a, node.total ?? 0), 0),
  };
}

function best(matrix: Matrix): string[] {
  const feasible = (matrix.nodes ?? []).filter((node) => node.feasible);
  return feasible.filter((node) => node.total === feasible[0].total).map((node) => node.node);
}

function resultOf(matrix: Matrix): string {
  const nodes = matrix.nodes ?? [], found = `${number(matrix.feasible)} of ${count(nodes.length, 'node')} feasible`;
  if (matrix.rejected) return `Plugin ${matrix.rejected.plugin} rejects the pod before any node is filtered: ${matrix.rejected.reason}`;
  const names = best(matrix);
  if (names.length === 0) return found + '.';
  if (names.length === 1) return `${found}: the pod would be scheduled to ${names[0]}.`;
  const shown = names.slice(0, 5).join(', ') + (names.length > 5 ? ` and ${count(names.length - 5, 'more node')}` : '');
  return `${found}: the pod would be scheduled to one of ${shown}, which have the same score.`;
}

function MatrixResult({ matrix }: { matrix: Matrix }) {
  const [text, setText] = useState(''), [only, setOnly] = useState('');
  const cols = useMemo(() => columns(matrix), [matrix]);
  const nodes = useMemo(() => {
    const all = matrix.nodes ?? [], words = text.toLowerCase();
    return all.filter((node) => {
      if (words !== '' && !node.node.toLowerCase().includes(words)) return false;
      if (only === '') return true;
      return only === '+' ? node.feasible : (node.rejections ?? []).some((r) => r.plugin === only);
    });
  }, [matrix, text, only]);
  const counts = useMemo(() => cols.rejecting.map((plugin) => [plugin, (matrix.nodes ?? []).filter((node) => (node.rejections ?? []).some((r) => r.plugin === plugin)).length] as const), [matrix, cols]);
  const toggle = (value: string, label: string, n: number) => (
    <button key={value} type="button" class="toggle" aria-pressed={only === value} onClick={() => setOnly(only === value ? '' : value)}>{label} <b>{number(n)}</b></button>
  );
  return (
    <div class="matrix-result">
      <p class="strong"><bdi>{resultOf(matrix)}</bdi></p>
      <p class="fine">{matrix.currentNode ? `Bound to node ${matrix.currentNode}; evaluated as if it were Pending` : 'Evaluated'} with {matrix.title}.</p>
      <Notes notes={matrix.notes ?? []} />
      <div class="filters">
        <label class="field"><span>Node</span><input type="search" placeholder="Name" value={text} onInput={(e) => setText(e.currentTarget.value)} /></label>
        <div class="toggles" role="group" aria-label="Nodes">
          {toggle('+', 'Feasible', matrix.feasible)}
          {counts.map(([plugin, n]) => toggle(plugin, `Rejected by ${plugin}`, n))}
        </div>
      </div>
      {nodes.length === 0 ? <p class="muted">No node matches.</p> : <Grid nodes={nodes} cols={cols} chosen={best(matrix)} />}
      {cols.silent.length > 0 && <p class="fine">{matrix.rejected ? 'Plugins that did not run' : 'Plugins that reject no node'}: {cols.silent.join(', ')}.</p>}
      {cols.same.length > 0 && <p class="fine">Same score for every node: {cols.same.join(', ')}.</p>}
      <p class="fine">{cols.scores.length > 0 && 'A stronger shade is a greater share of the highest score in its column. '}{cols.rejecting.length > 0 && 'A striped cell is a rejection, with its reason.'}</p>
    </div>
  );
}

const rowHeight = 30;

function Grid({ nodes, cols, chosen }: { nodes: MatrixNode[]; cols: Columns; chosen: string[] }) {
  const totals = cols.scores.length > 0 || cols.total > 0;
  const widths = ['minmax(150px, 1fr)', '96px', ...cols.rejecting.map(() => 'minmax(160px, 1.2fr)'), ...totals ? ['minmax(84px, 0.4fr)'] : [], ...cols.scores.map(() => 'minmax(104px, 0.6fr)')].join(' ');
  const minWidth = 246 + 160 * cols.rejecting.length + (totals ? 84 : 0) + 104 * cols.scores.length;
  const chosenNames = useMemo(() => new Set(chosen), [chosen]);
  const line = { gridTemplateColumns: widths };
  const head = (
    <div class="m-line" role="presentation" style={line}>
      <span role="columnheader" class="m-node">Node</span><span role="columnheader">Feasible</span>
      {cols.rejecting.map((p) => <span key={p} role="columnheader" title={p}><PluginName name={p} /></span>)}
      {totals && <span role="columnheader" class="num">Total</span>}
      {cols.scores.map((p) => <span key={p} role="columnheader" class="num" title={p}><PluginName name={p} /></span>)}
    </div>
  );
  return (
    <VirtualTable class={'matrix' + (nodes.length > 14 ? ' full' : '')} label="Plugin by node" count={nodes.length} rowHeight={rowHeight} headHeight={78} minWidth={minWidth}
      columns={2 + cols.rejecting.length + cols.scores.length + (totals ? 1 : 0)} head={head}
      rowKey={(i) => nodes[i].node} rowClass={(i) => nodes[i].feasible ? 'feasible' : ''}
      row={(i) => {
        const node = nodes[i];
        return (
          <div class="m-line" role="presentation" style={line}>
            <span role="rowheader" class="m-node name" title={node.node}>{node.node}{chosenNames.has(node.node) && <b class="mark"> best</b>}</span>
            <span role="cell" class="m-fits">{node.failed ? <><Sign tone="bad" />failed</> : node.feasible ? <><Sign tone="ok" />yes</> : <><Sign tone="quiet" />no</>}</span>
            {cols.rejecting.map((p) => <RejectCell key={p} rejection={(node.rejections ?? []).find((r) => r.plugin === p)} failed={node.failed} />)}
            {totals && <ScoreCell value={node.total ?? undefined} max={cols.total} strong />}
            {cols.scores.map((p) => <ScoreCell key={p} value={node.scores?.[p]} max={cols.max.get(p) ?? 0} />)}
          </div>
        );
      }} />
  );
}

function RejectCell({ rejection, failed }: { rejection?: MatrixRejection; failed?: boolean }) {
  if (!rejection) return <span role="cell" class="m-ok">{failed ? '?' : 'ok'}</span>;
  const reasons = rejection.missing ?? [];
  const words = reasons.length > 0 ? reasons.map(shortMissing).join('; ') : rejection.code;
  const whole = reasons.length > 0 ? reasons.map(missing).join('; ') : rejection.code;
  return <span role="cell" class="m-no" title={whole}><bdi>{words}</bdi></span>;
}

function ScoreCell({ value, max, strong }: { value: number | undefined; max: number; strong?: boolean }) {
  if (value === undefined) return <span role="cell" class="m-none num"><span class="sr">not scored</span></span>;
  const share = max > 0 ? Math.max(0, value / max) : 0;
  return <span role="cell" class={'m-score num' + (strong ? ' strong' : '')} style={{ '--share': `${Math.round(share * 100)}%` }}>{number(value)}</span>;
}
