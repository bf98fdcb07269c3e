// One profile: conditions, plugins, revisions, the last trial, recent decisions.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { getRevisions } from '../api';
import { everyMinute, store, useLoad, useTopics } from '../app-context';
import { count, number } from '../format';
import { QueueBar } from '../parts/bars';
import { Ago, Chip, DataTable, Facts, Message, PageHead, Scroll, Section, type Tone } from '../parts/basics';
import { Empty, Failed, Loading, NoRight, NotSynced, notesAbout } from '../parts/states';
import { TrialResult } from '../parts/trial';
import { format, podLink, waitingLink } from '../router';
import type { Condition, Profile, ProfilePlugin, RecentDecision, Revision } from '../types';
import { ReadyChip, Runs, readyTone } from './profiles';

export function ProfileView({ name }: { name: string }) {
  useTopics(['profile:' + name, 'connection'], 250);
  const p = store.profiles.get(name);
  if (!store.synced) return <><PageHead title={name} /><NotSynced what={`profile ${name}`} /></>;
  if (!p) return <NoProfile name={name} />;
  return (
    <>
      <PageHead title={<><span class="kind">Profile</span> <span class="name">{name}</span></>}>
        <ReadyChip profile={p} />
        {p.state !== 'Active' && <Chip tone="quiet">{p.state}</Chip>}
        {p.degraded && <Chip tone="warn">Degraded</Chip>}
      </PageHead>
      {p.ready !== 'True' && p.message && <Message text={p.message} tone={readyTone(p)} />}
      {p.degraded && <Message text={`Degraded: ${p.degraded}`} tone="warn" />}
      <div class="panels">
        <Section title="What runs"><RunsFacts profile={p} /></Section>
        <div class="stack">
          <Section title="Queue" aside={(p.queue?.pending ?? 0) > 0 && <a href={waitingLink(name)}>Why they wait</a>}>
            <QueueBar queue={p.queue} legend />
          </Section>
          <Section title="Last trial">
            {p.trial ? <TrialResult trial={p.trial} /> : <p class="muted">No trial was made: a trial runs before a changed spec replaces what runs.</p>}
          </Section>
        </div>
        <Section title="Conditions" wide><Conditions conditions={p.conditions ?? []} /></Section>
        <Section title="Plugins" wide aside={(p.plugins ?? []).some(configured) && <span class="muted">Dashed: with arguments of the profile</span>}><Plugins plugins={p.plugins ?? []} /></Section>
        <Section title="Revisions" wide><Revisions profile={p} /></Section>
        <Section title="Recent decisions" wide><Recent recent={p.recent ?? []} /></Section>
      </div>
    </>
  );
}

function NoProfile({ name }: { name: string }) {
  const notes = store.profilesHidden() ? notesAbout('schedulingprofiles') : [];
  const pods = [...store.pods.values()].filter((pod) => pod.profile === name).length;
  return (
    <>
      <PageHead title={<><span class="kind">Profile</span> <span class="name">{name}</span></>} />
      <Empty title={notes.length > 0 ? `SchedulingProfile ${name} cannot be shown` : `There is no SchedulingProfile ${name}`}>
        {notes.length > 0 && <NoRight notes={notes} />}
        {notes.length > 0 && <p>Whether it exists, and what runs, is not known to this page. <a href={waitingLink(name)}>Its waiting pods</a></p>}
        {notes.length === 0 && pods > 0 && <p>{count(pods, 'pod')} {pods === 1 ? 'names' : 'name'} it in spec.schedulerName. Another scheduler may serve the name. If none does, create a profile of this name: it schedules these pods.</p>}
        <p><a href="#/profiles">All profiles</a></p>
      </Empty>
    </>
  );
}

function RunsFacts({ profile: p }: { profile: Profile }) {
  const t = p.totals;
  return (
    <Facts facts={[
      ['Runs', <Runs profile={p} />],
      ['Revision', p.revision && <code>{p.revision}</code>],
      ['Spec', `generation ${number(p.generation)}${p.runs === p.generation ? ', running' : ''}`],
      ['State', p.state],
      ['Bound', t && count(t.bound, 'pod')],
      ['No feasible node', t && count(t.refusals, 'attempt')],
      ['Errors', t && count(t.errors, 'attempt')],
      ['Preemption', t && count(t.victims, 'victim')],
      ['Counted since', t?.since && <Ago time={t.since} suffix="" />],
      ['Last decision', <Ago time={p.lastDecision} />],
      ['Created', <Ago time={p.created} />],
    ]} />
  );
}

/** goodWhenFalse are the conditions whose False is no problem. */
const goodWhenFalse = new Set(['Stalled', 'Degraded']);

function conditionTone(c: Condition): Tone {
  if (c.status === 'Unknown') return 'quiet';
  return (c.status === 'True') !== goodWhenFalse.has(c.type) ? 'ok' : 'bad';
}

function Conditions({ conditions }: { conditions: Condition[] }) {
  if (conditions.length === 0) return <p class="muted">No condition yet: Berth has not read the profile. If that lasts, <code>kubectl berth check</code> says why.</p>;
  return (
    <DataTable label="Conditions" heads columns={[{ name: 'Type' }, { name: 'Status' }, { name: 'Reason' }, { name: 'Since', class: 'nowrap' }, { name: 'Message', class: 'w-long' }]}
      rows={conditions.map((c) => ({
        key: c.type, cells: [c.type, <Chip tone={conditionTone(c)}>{c.status}</Chip>, c.reason, <Ago time={c.since} suffix="" />, <bdi class="long">{c.message}</bdi>],
      }))} />
  );
}

const points = ['PreEnqueue', 'QueueSort', 'PreFilter', 'Filter', 'PostFilter', 'PreScore', 'Score', 'Reserve', 'Permit', 'PreBind', 'Bind', 'PostBind'];

/** pointOf compares extension points without regard to the case of the first letter. */
const pointOf = (point: string): string => point.charAt(0).toUpperCase() + point.slice(1);

function Plugins({ plugins }: { plugins: ProfilePlugin[] }) {
  if (plugins.length === 0) return <p class="muted">Nothing runs, so there are no plugins to show.</p>;
  const all = [...new Set([...points, ...plugins.flatMap((p) => (p.points ?? []).map(pointOf))])];
  const rows = all.map((point) => ({ point, at: plugins.filter((p) => (p.points ?? []).some((q) => pointOf(q) === point)) })).filter((row) => row.at.length > 0);
  const heaviest = Math.max(1, ...plugins.map((p) => p.weight ?? 0));
  return (
    <dl class="points">
      {rows.map(({ point, at }) => (
        <div key={point}>
          <dt>{point}</dt>
          <dd>
            {(point === 'Score' ? [...at].sort((a, b) => (b.weight ?? 0) - (a.weight ?? 0)) : at).map((p) => (
              <span key={p.name} class={'plugin' + (configured(p) ? ' has-args' : '')} title={configured(p) ? `arguments of ${p.args}` : undefined}>
                {p.name}
                {point === 'Score' && p.weight !== undefined && p.weight > 0 && <Weight weight={p.weight} heaviest={heaviest} />}
                {configured(p) && <span class="muted"><span class="sr"> with arguments of </span>{p.args}</span>}
              </span>
            ))}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** configured: the profile sets arguments of the plugin, here or in a PluginConfig. */
const configured = (p: ProfilePlugin): boolean => !!p.args && p.args !== 'Default';

function Weight({ weight, heaviest }: { weight: number; heaviest: number }) {
  return (
    <span class="weight">
      <svg viewBox="0 0 40 6" width="40" height="6" preserveAspectRatio="none" aria-hidden="true"><rect class="share-back" width="40" height="6" /><rect class="share-front" width={40 * weight / heaviest} height="6" /></svg>
      weight {weight}
    </span>
  );
}

/** Revisions reads them again while the status of one, such as its probation, may change: no message of the stream tells that. */
function Revisions({ profile }: { profile: Profile }) {
  const { data, error, reload } = useLoad(`${profile.name} ${profile.revision} ${profile.generation}`, (signal) => getRevisions(profile.name, signal));
  const passing = data?.revisions?.some((r) => r.status !== 'stable') ?? false;
  useEffect(() => passing ? everyMinute(reload) : undefined, [passing, profile.name]);
  if (error && !data) return <Failed error={error} retry={reload} task={`read the revisions of ${profile.name}`} />;
  if (!data) return <Loading what="the revisions" />;
  const revisions = [...data.revisions ?? []].sort((a, b) => b.number - a.number);
  if (revisions.length === 0) return <p class="muted">No revision is stored: nothing has run yet.</p>;
  return <RevisionTable profile={profile} revisions={revisions} />;
}

const revisionColumns: [name: string, style: string][] = [['Revision', 'num'], ['Hash', ''], ['Generation', 'num'], ['Status', ''], ['Created', 'nowrap'], ['From', 'pick'], ['To', 'pick']];

function Cell({ at, children }: { at: number; children?: ComponentChildren }) {
  const [name, c] = revisionColumns[at];
  return <td role="cell" class={c} data-label={children === undefined ? '' : name}>{children}</td>;
}

function RevisionTable({ profile, revisions }: { profile: Profile; revisions: Revision[] }) {
  const running = revisions.find((r) => r.running)?.hash ?? revisions[0].hash;
  const previous = revisions.find((r) => r.hash !== running)?.hash ?? running;
  const [from, setFrom] = useState(profile.runs === profile.generation ? previous : running);
  const [to, setTo] = useState(profile.runs === profile.generation ? running : 'spec');
  const radio = (side: 'from' | 'to', hash: string, label: string) => (
    <input type="radio" name={side} aria-label={`Compare ${side} ${label}`} checked={(side === 'from' ? from : to) === hash}
      onChange={() => (side === 'from' ? setFrom : setTo)(hash)} />
  );
  return (
    <>
      <Scroll label="Revisions">
        <table class="revisions blocks" role="table">
          <thead role="rowgroup"><tr role="row">
            {revisionColumns.map(([name, c]) => <th key={name} role="columnheader" scope="col" class={c}>{name}</th>)}
          </tr></thead>
          <tbody role="rowgroup">
            <tr role="row">
              <th role="rowheader" scope="row" colSpan={2}>Spec, as it is applied now</th><Cell at={2}>{profile.generation}</Cell>
              <Cell at={3}>{profile.runs === profile.generation ? <span class="muted">running</span> : <Chip tone="warn">not running</Chip>}</Cell><Cell at={4} />
              <Cell at={5}>{radio('from', 'spec', 'the spec')}</Cell><Cell at={6}>{radio('to', 'spec', 'the spec')}</Cell>
            </tr>
            {revisions.map((r) => (
              <tr key={r.hash + r.number} role="row" class={r.running ? 'current' : ''}>
                <th role="rowheader" scope="row" class="num">{r.number}</th><Cell at={1}><code class="hash">{r.hash}</code>{r.running && <Chip tone="ok">running</Chip>}</Cell>
                <Cell at={2}>{r.generation}</Cell><Cell at={3}>{r.status}</Cell><Cell at={4}><Ago time={r.created} /></Cell>
                <Cell at={5}>{radio('from', r.hash, `revision ${r.number}`)}</Cell><Cell at={6}>{radio('to', r.hash, `revision ${r.number}`)}</Cell>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <p class="actions">
        {from === to
          ? <span class="muted">Choose two different revisions to compare.</span>
          : <a class="button primary" href={format({ view: 'compare', name: profile.name, from, to })}>Compare {from} with {to}</a>}
        <span class="muted">To go back: <code>kubectl berth rollback {profile.name}</code></span>
      </p>
    </>
  );
}

export function resultTone(result: string): Tone {
  switch (result) {
    case 'Bound': return 'ok';
    case 'Error': case 'Quarantined': return 'bad';
    case 'Unschedulable': return 'warn';
  }
  return 'quiet';
}

function Recent({ recent }: { recent: RecentDecision[] }) {
  if (recent.length === 0) return <p class="muted">No decision is recorded. spec.decisions.history sets how many are kept.</p>;
  return (
    <DataTable label="Recent decisions" class="tall recent" columns={[{ name: 'Time', class: 'nowrap' }, { name: 'Pod' }, { name: 'Result' }, { name: 'Details' }]}
      rows={recent.map((d, i) => ({
        key: String(i), cells: [
          <Ago time={d.time} />, <a class="name" href={podLink(d.pod)}>{d.pod}</a>, <Chip tone={resultTone(d.result)}>{d.result}</Chip>,
          d.node ? <span class="name">{d.node}</span> : <bdi class="long">{d.message}</bdi>,
        ],
      }))} />
  );
}
