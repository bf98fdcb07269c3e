// Pending pods, grouped by why they wait.
import { useMemo, useState } from 'preact/hooks';
import { store, useTopics } from '../app-context';
import { count, number, splitKey } from '../format';
import { Ago, Chip, PageHead, type Tone } from '../parts/basics';
import { Share } from '../parts/bars';
import { unresolvable } from '../parts/rejections';
import { Empty, NoRight, NotSynced, notesAbout } from '../parts/states';
import { VirtualTable } from '../parts/virtual';
import { format, podLink, profileLink, type Route } from '../router';
import { groupWaiting, heldReasons, matches, waitingPods, type Kind, type WaitingGroup } from '../waiting';

type WaitingRoute = Extract<Route, { view: 'waiting' }>;

const kinds: Record<Kind, { name: string; tone: Tone; means: string }> = {
  Unschedulable: { name: 'Unschedulable', tone: 'warn', means: 'No node is feasible.' },
  Gated: { name: 'Gated', tone: 'quiet', means: 'A PreEnqueue plugin keeps these pods out of the active queue. They are not tried until it lets them in.' },
  Held: { name: 'Held', tone: 'info', means: 'Berth leaves these pods alone for another reason than resources. More nodes would not help.' },
  Quarantined: { name: 'Quarantined', tone: 'bad', means: 'Plugins panicked or hung at these pods several times. Berth does not try them for a while: 5 minutes at first, an hour at most.' },
  WaitingOnPermit: { name: 'Waiting on Permit', tone: 'quiet', means: 'A node is chosen for each of these pods. A Permit plugin delays the binding.' },
  Preempting: { name: 'Preempting', tone: 'info', means: 'Victims are being evicted to make room for these pods.' },
  Error: { name: 'Error', tone: 'bad', means: 'The last attempt failed with an error. Berth tries these pods again.' },
  Undecided: { name: 'Not decided yet', tone: 'quiet', means: 'No SchedulingDecision says why these pods wait: the first attempt has not ended, or spec.decisions.explain of the profile is None.' },
  Unserved: { name: 'No profile', tone: 'bad', means: 'spec.schedulerName of these pods names no SchedulingProfile. Another scheduler may serve the name.' },
};

export function WaitingView({ route }: { route: WaitingRoute }) {
  useTopics(['decisions', 'pods', 'profiles', 'notes'], 500);
  const version = `${store.version('decisions')} ${store.version('pods')} ${store.version('profiles')}`;
  const all = useMemo(() => waitingPods(store), [version]);
  const shown = useMemo(() => all.filter((pod) => matches(pod, route)), [all, route]);
  const groups = useMemo(() => groupWaiting(shown), [shown]);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const toggle = (id: string): void => {
    const next = new Set(open);
    if (!next.delete(id)) next.add(id);
    setOpen(next);
  };
  const change = (part: Partial<WaitingRoute>): void => {
    history.replaceState(null, '', format({ ...route, ...part }));
    dispatchEvent(new HashChangeEvent('hashchange'));
  };
  const filtered = route.profile !== '' || route.namespace !== '' || route.text !== '' || route.kind !== '';
  const clear = (): void => change({ profile: '', namespace: '', text: '', kind: '' });
  return (
    <>
      <PageHead title="Waiting pods" lead="Pending pods, grouped by the profile and what rejects them." />
      {!store.synced ? <NotSynced what="the pending pods" /> : (
        <>
          <Filters route={route} change={change} pods={all} />
          {groups.length === 0 ? <Nothing filtered={filtered} clear={clear} total={all.length} /> : (
            <>
              <p class="result-count">
                {count(shown.length, 'pod')} in {count(groups.length, 'group')}{filtered && <>, of {count(all.length, 'waiting pod')}. <button type="button" class="link" onClick={clear}>Clear the filter</button></>}
              </p>
              <ol class="groups">
                {groups.slice(0, 200).map((group) => <Group key={group.id} group={group} open={open.has(group.id)} toggle={toggle} />)}
              </ol>
              {groups.length > 200 && <p class="muted">{count(groups.length - 200, 'smaller group')} not shown: narrow the filter.</p>}
            </>
          )}
        </>
      )}
    </>
  );
}

function Nothing({ filtered, clear, total }: { filtered: boolean; clear: () => void; total: number }) {
  if (filtered && total > 0) {
    return <Empty title="No waiting pod matches the filter"><button type="button" onClick={clear}>Show all {count(total, 'waiting pod')}</button></Empty>;
  }
  const notes = notesAbout('pod', 'decision');
  return <Empty title={notes.length > 0 ? 'No waiting pod to show' : 'No pod waits'}>{notes.length > 0 ? <NoRight notes={notes} /> : <p>Every pod of every profile has a node. Pods appear here as soon as they are pending.</p>}</Empty>;
}

function Filters({ route, change, pods }: { route: WaitingRoute; change: (part: Partial<WaitingRoute>) => void; pods: ReturnType<typeof waitingPods> }) {
  const { profiles, namespaces, byKind } = useMemo(() => {
    const byKind = new Map<Kind, number>();
    for (const pod of pods) byKind.set(pod.kind, (byKind.get(pod.kind) ?? 0) + 1);
    return {
      byKind, profiles: [...new Set(pods.map((pod) => pod.profile))].sort(),
      namespaces: [...new Set(pods.map((pod) => splitKey(pod.key)[0]))].sort(),
    };
  }, [pods]);
  const select = (name: 'profile' | 'namespace', label: string, all: string, values: string[]) => (
    <label class="field"><span>{label}</span>
      <select value={route[name]} onChange={(e) => change({ [name]: e.currentTarget.value })}>
        <option value="">{all}</option>
        {[...new Set([...values, ...(route[name] === '' ? [] : [route[name]])])].map((value) => <option key={value} value={value}>{value}</option>)}
      </select>
    </label>
  );
  return (
    <div class="filters" role="search" aria-label="Filter waiting pods">
      <label class="field grow"><span>Text in names, owner, message or plugin</span>
        <input type="search" data-filter placeholder="Filter  /" value={route.text} onInput={(e) => change({ text: e.currentTarget.value })} />
      </label>
      {select('profile', 'Profile', 'All profiles', profiles)}
      {select('namespace', 'Namespace', 'All namespaces', namespaces)}
      <div class="toggles" role="group" aria-label="State">
        {(Object.keys(kinds) as Kind[]).filter((kind) => byKind.has(kind) || route.kind === kind).map((kind) => (
          <button key={kind} type="button" class="toggle" aria-pressed={route.kind === kind} onClick={() => change({ kind: route.kind === kind ? '' : kind })}>
            {kinds[kind].name} <b>{number(byKind.get(kind) ?? 0)}</b>
          </button>
        ))}
      </div>
    </div>
  );
}

function titleOf(group: WaitingGroup): string {
  if (group.group !== '') return `Group ${group.group} is scheduled together`;
  if (group.kind === 'Held') return group.reason || 'Held';
  if (group.kind === 'Unserved') return `No profile is named ${group.profile}`;
  if (group.rejections.length > 0) return group.rejections.map((r) => r.plugin || r.reason).filter((name, i, all) => all.indexOf(name) === i).join(', ');
  const by = group.pods[0].blockedBy;
  if (by !== '' && (group.kind === 'Gated' || group.kind === 'WaitingOnPermit' || group.kind === 'Quarantined')) return `${kinds[group.kind].name}: ${by}`;
  return kinds[group.kind].name;
}

function Group({ group, open, toggle }: { group: WaitingGroup; open: boolean; toggle: (id: string) => void }) {
  const kind = kinds[group.kind], id = 'g-' + hash(group.id);
  const means = group.kind === 'Held' && heldReasons[group.reason] ? heldReasons[group.reason] : kind.means;
  return (
    <li class={`group ${kind.tone}`}>
      <div class="group-head">
        <p class="group-count"><b>{number(group.pods.length)}</b> {group.pods.length === 1 ? 'pod' : 'pods'}</p>
        <div class="group-title">
          <h2><bdi>{titleOf(group)}</bdi></h2>
          <p class="group-facts">
            <Chip tone={kind.tone}>{kind.name}</Chip>
            <span>profile {group.kind === 'Unserved' ? <span class="name">{group.profile}</span> : <a class="name" href={profileLink(group.profile)}>{group.profile}</a>}</span>
            <span>oldest <Ago time={group.oldest} none="at an unknown time" /></span>
          </p>
        </div>
        <button type="button" class="open" aria-expanded={open} aria-controls={id} onClick={() => toggle(group.id)}>{open ? 'Hide' : 'Show'} {count(group.pods.length, 'pod')}</button>
      </div>
      <div class="group-body">
        <div class={'group-why' + (group.fits.length === 0 ? ' only' : '')}>
          <h3>Why</h3>
          {group.kind !== 'Unschedulable' && <p>{means}</p>}
          {group.rejections.length > 0 ? <Reasons group={group} /> : group.message && <p class="message quiet"><bdi>{group.message}</bdi></p>}
        </div>
        {group.fits.length > 0 && (
          <div class="group-fits">
            <h3>What would make them fit</h3>
            <ul>
              {group.fits.slice(0, 5).map((fit) => <li key={fit.sentence}><bdi>{fit.sentence}</bdi>{group.pods.length > 1 && <span class="muted">, for {fit.pods === group.pods.length ? 'each' : `${number(fit.pods)} of ${number(group.pods.length)} pods`}</span>}</li>)}
              {group.fits.length > 5 && <li class="muted">{count(group.fits.length - 5, 'more way')}: see the pods</li>}
            </ul>
          </div>
        )}
        {group.requeue.length > 0 && (
          <details class="group-requeue">
            <summary>Requeued by {count(new Set(group.requeue.flatMap((r) => r.events)).size, 'event')}</summary>
            <dl class="requeue">{group.requeue.map((r) => <div key={r.plugin}><dt class="name">{r.plugin}</dt><dd>{r.events.map((event) => <code key={event}>{event}</code>)}</dd></div>)}</dl>
          </details>
        )}
      </div>
      <div id={id}>{open && <Pods group={group} />}</div>
    </li>
  );
}

function Reasons({ group }: { group: WaitingGroup }) {
  const total = Math.max(group.total, ...group.rejections.map((r) => r.most), 1);
  return (
    <ul class="reasons">
      {group.rejections.map((r) => (
        <li key={r.plugin + r.reason}>
          <span class="name">{r.plugin || 'no plugin'}</span> <bdi>{r.reason}</bdi>{unresolvable(r.code) && <span class="muted"> (not resolvable by preemption)</span>}
          {r.most > 0 && (
            <span class="reason-bar"><Share share={r.most / total} tone="bad" />
              <span>{r.least === r.most ? number(r.most) : `${number(r.least)} to ${number(r.most)}`} of {count(total, 'node')}</span>
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}

const rowHeight = 34;

function Pods({ group }: { group: WaitingGroup }) {
  const { pods } = group;
  const head = ['Pod', 'Waits', 'Owner', 'Priority', 'Message'];
  return (
    <VirtualTable class={'waiting-pods' + (pods.length > 10 ? ' full' : '')} label={`Pods: ${titleOf(group)}`} count={pods.length} rowHeight={rowHeight} headHeight={30} columns={head.length}
      head={head.map((name, i) => <span key={name} role="columnheader" class={`c${i}`}>{name}</span>)}
      rowKey={(i) => pods[i].key}
      row={(i) => {
        const pod = pods[i];
        return (
          <>
            <span role="rowheader" class="c0"><a class="name" href={podLink(pod.key)} title={pod.key}>{pod.key}</a></span>
            <span role="cell" class="c1"><Ago key={pod.since} time={pod.since} suffix="" none="?" /></span>
            <span role="cell" class="c2" title={pod.owner}>{pod.owner || <span class="muted">none</span>}</span>
            <span role="cell" class="c3">{pod.priority}</span>
            <span role="cell" class="c4" title={pod.message}><bdi>{pod.message}</bdi></span>
          </>
        );
      }} />
  );
}

function hash(text: string): string {
  let h = 0;
  for (let i = 0; i < text.length; i++) h = (h * 31 + text.charCodeAt(i)) | 0;
  return (h >>> 0).toString(36);
}
