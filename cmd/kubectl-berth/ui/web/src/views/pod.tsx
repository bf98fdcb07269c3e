// One pod: why it is on its node, or why it is pending.
import { useEffect, useRef } from 'preact/hooks';
import { getPod } from '../api';
import { store, useLoad, useTopics } from '../app-context';
import { amount, count, number, preemption } from '../format';
import { Ago, Chip, Copy, DataTable, Facts, Message, PageHead, Scroll, Section } from '../parts/basics';
import { ClosestNodes, DeviceRequests, Rejections, Requeue, Scores } from '../parts/rejections';
import { Empty, Failed, Loading, Notes } from '../parts/states';
import { podLink, profileLink } from '../router';
import type { Decision, Explanation, Pod, PodDetails, PodEvent, SchedulingDecision } from '../types';
import { MatrixSection } from './matrix';
import { resultTone } from './profile';

export function PodView({ namespace, name }: { namespace: string; name: string }) {
  const key = `${namespace}/${name}`, topic = 'pod:' + key;
  useTopics([topic], 2000);
  const { data, error, loading, reload } = useLoad(key, (signal) => getPod(namespace, name, signal));
  const version = store.version(topic), seen = useRef(version);
  useEffect(() => {
    if (seen.current === version) return;
    seen.current = version;
    reload();
  }, [version]);
  const live = store.pods.get(key);
  return (
    <>
      <PageHead title={<><span class="kind">Pod</span> <span class="name">{key}</span></>}>
        <PodState pod={live} explanation={data?.explanation} />
        <button type="button" class="small" onClick={reload} disabled={loading}>{loading && data ? 'Reading …' : 'Read again'}</button>
      </PageHead>
      {error && (error.status === 404 ? <Gone name={key} retry={reload} /> : <Failed error={error} retry={reload} task={`read pod ${key}`} />)}
      {!data && !error && <Loading what={`the explanation of ${key}`} />}
      {data && error?.status !== 404 && <Details details={data} pod={live} namespace={namespace} name={name} />}
    </>
  );
}

function Gone({ name, retry }: { name: string; retry: () => void }) {
  return (
    <Empty title={`There is no pod ${name}`}>
      <p>It was deleted or has another name. <a href="#/waiting">All waiting pods</a></p>
      <button type="button" onClick={retry}>Read again</button>
    </Empty>
  );
}

function PodState({ pod, explanation }: { pod?: Pod; explanation?: Explanation }) {
  const node = explanation?.node || pod?.node;
  if (node) return <Chip tone="ok">Bound to {node}</Chip>;
  if (pod?.terminating) return <Chip tone="quiet">Terminating</Chip>;
  const result = explanation?.schedulingDecision?.result;
  return explanation || pod ? <Chip tone={result ? resultTone(result) : 'warn'}>Pending{result ? `: ${result}` : ''}</Chip> : null;
}

function Details({ details, pod, namespace, name }: { details: PodDetails; pod?: Pod; namespace: string; name: string }) {
  const e = details.explanation, d = e.schedulingDecision;
  const notes = [...e.notes ?? [], ...details.notes ?? []];
  const others = e.group ?? [];
  // The decision of the last other pod of the group has the reasons why the group waits.
  const cause = others.length > 0 ? others[others.length - 1].schedulingDecision : d;
  const causePod = others.length > 0 ? others[others.length - 1].pod : '';
  return (
    <>
      <Notes notes={[...new Set(notes)]} />
      <div class="panels">
        <Section title={e.node ? 'Why there' : 'Why it waits'} wide><Why explanation={e} pod={pod} /></Section>
        {e.decision && <Section title="Scores of the best nodes" wide><BestNodes decision={e.decision} /></Section>}
        {cause && (cause.rejections ?? []).length > 0 && (
          <Section title="Reasons by plugin" wide>
            {causePod && <p>The reasons of <a class="name" href={podLink(`${namespace}/${causePod}`)}>{causePod}</a>, the next pod of the group:</p>}
            <Rejections rejections={cause.rejections!} total={cause.nodes?.total ?? 0} />
          </Section>
        )}
        {cause && (cause.closestNodes ?? []).length > 0 && <Section title="Closest nodes"><ClosestNodes nodes={cause.closestNodes!} /></Section>}
        {cause && (cause.deviceRequests ?? []).length > 0 && <Section title="Requests for devices"><DeviceRequests requests={cause.deviceRequests!} /></Section>}
        {cause && (cause.requeueEvents ?? []).length > 0 && <Section title="Requeued by"><Requeue events={cause.requeueEvents!} /></Section>}
        <Section title="Plugin by node" wide><MatrixSection namespace={namespace} name={name} /></Section>
        <Section title="Events" wide><Events events={details.events ?? []} /></Section>
        <Section title="As kubectl prints it" wide aside={<Copy text={details.text} label="Copy" />}>
          <details><summary>Output of <code>kubectl berth explain pod/{name} -n {namespace}</code></summary><Scroll label="Output of kubectl berth explain"><pre class="code">{details.text}</pre></Scroll></details>
        </Section>
      </div>
    </>
  );
}

function Why({ explanation: e, pod }: { explanation: Explanation; pod?: Pod }) {
  const c = e.condition, d = e.schedulingDecision, decided = e.decision;
  const ran = decided ?? (d ? { profile: d.profile.name, generation: d.profile.generation, hash: d.profile.hash } : null);
  const running = e.programmed;
  const message = c?.message || d?.message || '';
  return (
    <>
      {message && <Message text={message} tone={e.node ? undefined : 'warn'} />}
      {!message && !decided && !d && <p class="muted">{e.node ? 'No decision is recorded: the profile does not annotate its pods (spec.decisions.annotate), or another scheduler bound the pod.' : 'No scheduler has set a condition on the pod yet.'}</p>}
      <Facts facts={[
        ['Profile', <><a class="name" href={profileLink(e.schedulerName)}>{e.schedulerName}</a>{ran?.generation !== undefined && `, generation ${number(ran.generation)}`}{ran?.hash && <> <code class="hash">{ran.hash}</code></>}{ran && running && <span class="muted">{running.hash === ran.hash ? ' (running)' : ` (now running: generation ${running.generation}, hash ${running.hash})`}</span>}</>],
        ['Node', e.node && <span class="name">{e.node}</span>],
        ['Nominated node', !e.node && pod?.nominated && <span class="name">{pod.nominated}</span>],
        ['Condition', c && <>PodScheduled={c.status}{c.reason && ` (${c.reason})`}, <Ago time={c.lastTransitionTime} none="at an unknown time" /></>],
        ['Result', d && <><Chip tone={resultTone(d.result)}>{d.result}</Chip> <Ago time={d.lastChange} />{d.nodes && `; ${number(d.nodes.evaluated)} of ${count(d.nodes.total, 'node')} evaluated, ${number(d.nodes.feasible)} feasible`}</>],
        ['Blocked by', d?.blockedBy],
        ['In queue', d?.queue && <>{d.queue.where}, for <Ago time={d.queue.since} suffix="" />{d.queue.gate && `, gated by plugin ${d.queue.gate}`}</>],
        ['Preemption', d?.preemption && preemption(d.preemption)],
        ['Group', d?.group && <GroupText group={d.group} />],
        ['Attempts', decided && number(decided.attempts)],
        ['Nodes', decided && decided.evaluated > 0 && `${number(decided.evaluated)} evaluated, ${number(decided.feasible)} feasible`],
        ['Leader epoch', decided && String(decided.epoch)],
        ['Devices', decided?.devices && decided.devices.length > 0 && decided.devices.join(', ')],
        ['Requests', pod && requests(pod)],
        ['Kueue queue', pod?.queue && <span class="name">{pod.queue}</span>],
        ['Owner', pod?.owner],
        ['Priority', pod && pod.priority !== undefined && String(pod.priority)],
        ['Created', pod && <Ago time={pod.created} />],
      ]} />
      {decided && <p class="fine">From the annotation berth.dev/decision. Who may patch the pod can change it: it is information, not evidence.</p>}
    </>
  );
}

function requests(pod: Pod): string {
  const parts = [];
  if (pod.cpu > 0) parts.push(`cpu ${amount('cpu', pod.cpu)}`);
  if (pod.memory > 0) parts.push(`memory ${amount('memory', pod.memory)}`);
  for (const [name, n] of Object.entries(pod.extended ?? {})) parts.push(`${name} ${number(n)}`);
  if (pod.devices) parts.push(count(pod.devices, 'device'));
  return parts.join(', ') || 'none';
}

function GroupText({ group: g }: { group: NonNullable<SchedulingDecision['group']> }) {
  const parts = [];
  if (g.fit !== undefined && g.fit !== null) parts.push(`${number(g.fit)} of ${count(g.pods ?? 0, 'pod')} fit`);
  else if (g.pods) parts.push(count(g.pods, 'pod'));
  if (g.minCount) parts.push(`${number(g.minCount)} must`);
  if (g.notTried) parts.push(`${number(g.notTried)} not tried any more`);
  if (g.explainedBy) parts.push(`pod ${g.explainedBy} explains why it waits`);
  return <><span class="name">{g.name}</span> ({g.source}){parts.length > 0 && `: ${parts.join(', ')}`}</>;
}

function BestNodes({ decision: d }: { decision: Decision }) {
  const top = d.top ?? [];
  if (top.length === 0) {
    if (d.evaluated === 0) return <p class="muted">The annotation has no number of nodes and no scores: spec.decisions.detail of the profile is Reasons.</p>;
    return <p class="muted">{d.feasible === 1 ? 'Only one node was feasible: no node was scored.' : 'The annotation has no scores (spec.decisions.topScores).'}</p>;
  }
  const more = d.feasible - top.length;
  return (
    <>
      <Scores top={top} chosen={d.node ? [d.node] : []} mark="(chosen)" />
      {more > 0 && <p class="fine">{count(more, 'other feasible node')} scored no higher.</p>}
    </>
  );
}

function Events({ events }: { events: PodEvent[] }) {
  if (events.length === 0) return <p class="muted">No event about the pod. The API server keeps events for an hour by default.</p>;
  return (
    <DataTable label="Events" columns={[{ name: 'Last', class: 'nowrap' }, { name: 'Type' }, { name: 'Reason' }, { name: 'From' }, { name: 'Count', class: 'num' }, { name: 'Message', class: 'w-long' }]}
      rows={events.map((e, i) => ({
        key: String(i), cells: [<Ago time={e.last} />, <Chip tone={e.type === 'Warning' ? 'warn' : 'quiet'}>{e.type}</Chip>, e.reason, e.from, number(e.count), <bdi class="long">{e.message}</bdi>],
      }))} />
  );
}
