// Try a manifest: where its pods would be scheduled to. Nothing is written.
import type { ComponentChildren } from 'preact';
import { useMemo, useRef, useState } from 'preact/hooks';
import { maxManifest, postTry, type TryInput } from '../api';
import { store, useLoad, useTopics } from '../app-context';
import { count, number, percent } from '../format';
import { Chip, DataTable, PageHead, Section } from '../parts/basics';
import { Share } from '../parts/bars';
import { DeviceRequests, Rejections, Scores } from '../parts/rejections';
import { Empty, Failed, Loading, Notes } from '../parts/states';
import { podLink } from '../router';
import type { TryPod, TryResult } from '../types';

// What was typed is kept while the page is open.
const form = { manifest: '', replicas: '', profile: '', without: '' };
let sent: { input: TryInput; n: number } | null = null;
// The last result is kept, so that coming back to the view computes nothing.
let kept: { n: number; result: TryResult } | null = null;

/** exampleProfile is the profile of the example: one that runs, so that the example can be tried. */
function exampleProfile(): string {
  const running = [...store.profiles.values()].filter((p) => p.runs !== null && p.state === 'Active').map((p) => p.name).sort();
  return form.profile || (running.includes('batch') ? 'batch' : running[0] ?? 'batch');
}

const example = (profile: string): string => `apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      schedulerName: ${profile}
      containers:
      - {name: shop, image: web, resources: {requests: {cpu: "2", memory: 1Gi}}}
`;

export function TryView() {
  useTopics(['profiles', 'nodes'], 2000);
  const [, changed] = useState(0);
  const [problem, setProblem] = useState('');
  const [over, setOver] = useState(false);
  const file = useRef<HTMLInputElement>(null);
  const set = (name: keyof typeof form, value: string): void => {
    form[name] = value;
    setProblem('');
    changed((n) => n + 1);
  };
  const read = async (files: FileList | null | undefined): Promise<void> => {
    const chosen = files?.[0];
    if (!chosen) return;
    if (chosen.size > maxManifest) setProblem(`${chosen.name} is larger than 1 MiB, the most that can be tried.`);
    else set('manifest', await chosen.text());
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    const wrong = problemOf();
    setProblem(wrong);
    if (wrong !== '') return;
    sent = {
      n: (sent?.n ?? 0) + 1,
      input: { manifest: form.manifest, replicas: form.replicas === '' ? null : Number(form.replicas), profile: form.profile, withoutNodes: names(form.without) },
    };
    changed((n) => n + 1);
  };
  const input = sent?.input;
  const { data, error, loading, reload } = useLoad(sent ? String(sent.n) : null, async (signal) => {
    const { n } = sent!;
    if (kept?.n === n) return kept.result;
    const result = await postTry(input!, signal);
    kept = { n, result };
    return result;
  });
  return (
    <>
      <PageHead title="Try a manifest" lead="Shows which nodes pods would be scheduled to, or why they would stay Pending. Runs the scheduler's own plugins on a copy of what you may read. Nothing is written." />
      <div class="try">
        <form class="panel try-form" onSubmit={submit}>
          <div class={'drop' + (over ? ' over' : '')}
            onDragOver={(e) => { e.preventDefault(); setOver(true); }} onDragLeave={() => setOver(false)}
            onDrop={(e) => { e.preventDefault(); setOver(false); void read(e.dataTransfer?.files); }}>
            <div class="drop-head">
              <label for="manifest">Manifest, YAML or JSON</label>
              <span>
                <button type="button" class="small" onClick={() => file.current?.click()}>Open a file</button>
                <button type="button" class="small" onClick={() => set('manifest', example(exampleProfile()))}>Example</button>
              </span>
            </div>
            <input ref={file} type="file" class="sr" tabIndex={-1} aria-label="File with a manifest" accept=".yaml,.yml,.json,application/yaml,application/json"
              onChange={(e) => { void read(e.currentTarget.files); e.currentTarget.value = ''; }} />
            <textarea id="manifest" data-filter rows={18} spellcheck={false} autocomplete="off" autocapitalize="off" value={form.manifest}
              placeholder="Paste a Pod, a Deployment, a StatefulSet, a Job …, or drop a file here." aria-invalid={problem !== ''} aria-describedby="try-problem"
              onInput={(e) => set('manifest', e.currentTarget.value)}
              onKeyDown={(e) => { if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) submit(e); }} />
          </div>
          <div class="fields">
            <label class="field"><span>Replicas</span>
              <input type="number" min={1} max={1000} placeholder="as in the manifest" value={form.replicas} onInput={(e) => set('replicas', e.currentTarget.value)} />
            </label>
            <label class="field"><span>Profile</span>
              <select value={form.profile} onChange={(e) => set('profile', e.currentTarget.value)}>
                <option value="">As in the manifest</option>
                {[...store.profiles.keys()].sort().map((name) => <option key={name} value={name}>{name}</option>)}
              </select>
            </label>
            <label class="field grow"><span>Nodes to leave out, separated by commas</span>
              <input type="text" spellcheck={false} autocomplete="off" placeholder="none" value={form.without} onInput={(e) => set('without', e.currentTarget.value)} />
            </label>
          </div>
          <p id="try-problem" class="problem" role="alert">{problem}</p>
          <p class="actions"><button type="submit" class="primary" disabled={loading}>{loading ? 'Trying …' : 'Try it'}</button><span class="muted">or Ctrl+Enter in the manifest</span></p>
        </form>
        <div class="try-result" aria-live="polite">
          {loading && <Loading what="the result: the scheduler runs on a copy of the cluster" />}
          {error && !loading && <Failed error={error} retry={reload} task="try the manifest" />}
          {data && !loading && <Result result={data} />}
          {!sent && <Empty title="No result yet"><p>Paste a manifest and choose “Try it”. Leave nodes out to see what their loss would mean.</p></Empty>}
        </div>
      </div>
    </>
  );
}

const names = (text: string): string[] => text.split(/[\s,]+/).filter((name) => name !== '');

function problemOf(): string {
  if (form.manifest.trim() === '') return 'Paste a manifest first, or open a file.';
  if (new TextEncoder().encode(form.manifest).length > maxManifest) return 'The manifest is larger than 1 MiB, the most that can be tried.';
  if (form.replicas !== '' && !/^[1-9]\d*$/.test(form.replicas)) return 'Replicas must be a whole number of at least 1.';
  const unknown = store.nodes.size > 0 ? names(form.without).filter((name) => !store.nodes.has(name)) : [];
  return unknown.length > 0 ? `There is no node ${unknown.join(', ')}: correct or remove the name.` : '';
}

function Result({ result }: { result: TryResult }) {
  const pods = result.pods ?? [], placed = pods.filter((pod) => pod.node !== '');
  const tone = placed.length === pods.length ? 'ok' : placed.length === 0 ? 'bad' : 'warn';
  const ties = pods.filter((pod) => (pod.oneOf ?? []).length > 0).length;
  return (
    <>
      <section class="panel" aria-labelledby="h-result">
        <h2 id="h-result" class="result-title"><Chip tone={tone}>{number(placed.length)} of {count(pods.length, 'pod')} would be scheduled</Chip></h2>
        <p>{result.subject}: {result.title}; {count(result.nodes, 'node')}</p>
        {result.group && <p>Group {result.group.name}{result.group.minCount ? `: at least ${count(result.group.minCount, 'pod')} scheduled together` : ''}</p>}
        <Notes notes={result.notes ?? []} />
      </section>
      {placed.length > 0 && <Placed pods={placed} ties={ties} />}
      {pendingGroups(pods).map((group, i) => <Pending key={i} pods={group} total={result.nodes} />)}
    </>
  );
}

function Placed({ pods, ties }: { pods: TryPod[]; ties: number }) {
  const byNode = useMemo(() => {
    const map = new Map<string, TryPod[]>();
    for (const pod of pods) map.set(pod.node, [...map.get(pod.node) ?? [], pod]);
    return [...map].sort(([a, p], [b, q]) => q.length - p.length || (a < b ? -1 : 1));
  }, [pods]);
  const most = byNode[0][1].length, first = pods[0];
  return (
    <>
      <Section title="Where each pod goes">
        <DataTable label="Pods by node" class="tall" heads columns={[{ name: 'Node', class: 'name' }, { name: 'Pods', class: 'num' }, { name: 'Share', class: 'w-bar', hidden: true }, { name: 'Names', class: 'w-long' }]}
          rows={byNode.map(([node, at]) => ({
            key: node, cells: [
              node, number(at.length), <Share share={at.length / most} />,
              <>{at.slice(0, 20).map((pod) => <PodName key={pod.pod} pod={pod} />)}{at.length > 20 && <span class="muted">and {number(at.length - 20)} more</span>}</>,
            ],
          }))} />
        {ties > 0 && <p class="fine">For {count(ties, 'pod')}, several nodes had the best score: the choice depends on where the scheduler starts to iterate over the nodes.</p>}
      </Section>
      {(first.top ?? []).length > 0 && (
        <Section title={`Scores for ${first.pod}`}>
          {first.evaluated !== undefined && <p>{number(first.feasible ?? 0)} of {count(first.evaluated, 'evaluated node')} feasible{first.evaluated > 0 && `, ${percent((first.feasible ?? 0) / first.evaluated)}`}</p>}
          <Scores top={first.top!} chosen={(first.oneOf ?? []).length > 0 ? first.oneOf! : [first.node]} mark="(best)" />
        </Section>
      )}
    </>
  );
}

function PodName({ pod }: { pod: TryPod }) {
  const more: ComponentChildren[] = [];
  if ((pod.oneOf ?? []).length > 1) more.push(`one of ${pod.oneOf!.slice(0, 4).join(', ')}${pod.oneOf!.length > 4 ? ` and ${pod.oneOf!.length - 4} more` : ''}`);
  if ((pod.devices ?? []).length > 0) more.push(`devices ${pod.devices!.join(', ')}`);
  return <span class="tried"><span class="name">{pod.pod}</span>{more.length > 0 && <span class="muted"> ({more.join('; ')})</span>}</span>;
}

function pendingGroups(pods: TryPod[]): TryPod[][] {
  const groups = new Map<string, TryPod[]>();
  for (const pod of pods) {
    if (pod.node !== '') continue;
    const message = pod.message ?? '', known = groups.get(message);
    if (known) known.push(pod);
    else groups.set(message, [pod]);
  }
  return [...groups.values()];
}

function Pending({ pods, total }: { pods: TryPod[]; total: number }) {
  const first = pods[0], rejections = first.rejections ?? [];
  return (
    <Section id={'pending-' + first.pod.replace(/[^a-z0-9]+/g, '-')} title={pods.length === 1 ? `${first.pod} would stay Pending` : `${count(pods.length, 'pod')} would stay Pending, starting with ${first.pod}`}>
      <p class="message warn"><bdi>{first.message || 'No reason was given.'}</bdi></p>
      {pods.filter((pod) => pod.preemption).map((pod) => <Victims key={pod.pod} pod={pod} />)}
      {rejections.length > 0 && <Rejections rejections={rejections} total={total} />}
      {(first.deviceRequests ?? []).length > 0 && <DeviceRequests requests={first.deviceRequests!} />}
    </Section>
  );
}

function Victims({ pod }: { pod: TryPod }) {
  const p = pod.preemption!, victims = p.victims ?? [];
  return (
    <div class="victims">
      <p>{p.node ? <>{pod.pod}: preemption on node <span class="name">{p.node}</span></> : 'Preemption for the group'} would evict {count(victims.length, 'pod')}
        {p.violations ? <>, with <b>{count(p.violations, 'PodDisruptionBudget violation')}</b></> : ''}:</p>
      <ul class="pod-links">{victims.slice(0, 50).map((key) => <li key={key}><a class="name" href={podLink(key)}>{key}</a></li>)}</ul>
      {victims.length > 50 && <p class="muted">and {count(victims.length - 50, 'more pod')}</p>}
    </div>
  );
}
