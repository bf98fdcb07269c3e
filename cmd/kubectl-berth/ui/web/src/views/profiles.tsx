// All profiles: what runs, what was refused and why, and what their pods do.
import { useMemo, useState } from 'preact/hooks';
import { store, useTopics } from '../app-context';
import { count, number } from '../format';
import { QueueBar } from '../parts/bars';
import { Ago, Chip, Message, PageHead, type Tone } from '../parts/basics';
import { Empty, NoRight, NotSynced, notesAbout } from '../parts/states';
import { profileLink, waitingLink } from '../router';
import type { Profile } from '../types';

/** readyTone is how good the state of a profile is. */
export function readyTone(profile: Profile): Tone {
  if (profile.ready === 'True') return profile.degraded ? 'warn' : 'ok';
  if (profile.state === 'Paused') return 'quiet';
  return profile.ready === 'False' && profile.runs === null ? 'bad' : 'warn';
}

export function ReadyChip({ profile }: { profile: Profile }) {
  const text = profile.ready === 'True' ? 'Ready' : profile.reason || (profile.ready === 'False' ? 'Not ready' : 'Not known yet');
  return <Chip tone={readyTone(profile)} title={`Ready=${profile.ready || 'Unknown'}`}>{text}</Chip>;
}

/** Runs says what runs of a profile: the generation and the hash. */
export function Runs({ profile }: { profile: Profile }) {
  if (profile.runs === null) return <span class="bad-text">nothing</span>;
  return (
    <>
      generation {number(profile.runs)}
      {profile.runs !== profile.generation && <span class="muted"> of {number(profile.generation)}</span>}
      {profile.hash && <> <code class="hash">{profile.hash}</code></>}
    </>
  );
}

/** worse orders profiles: those that need the reader first. */
function worse(a: Profile, b: Profile): number {
  const rank = (p: Profile): number => ['bad', 'warn', 'quiet', 'info', 'ok'].indexOf(readyTone(p));
  return rank(a) - rank(b) || (a.name < b.name ? -1 : 1);
}

export function ProfilesView() {
  useTopics(['profiles', 'notes'], 250);
  const [text, setText] = useState('');
  const all = useMemo(() => [...store.profiles.values()].sort(worse), [store.version('profiles')]);
  const words = text.toLowerCase().split(/\s+/).filter((word) => word !== '');
  const shown = all.filter((p) => words.every((word) => `${p.name} ${p.reason} ${p.message} ${p.state}`.toLowerCase().includes(word)));
  return (
    <>
      <PageHead title="Profiles" lead="Each SchedulingProfile schedules the pods whose spec.schedulerName is its name.">
        {all.length > 1 && (
          <label class="search"><span class="sr">Filter profiles</span>
            <input type="search" data-filter placeholder="Filter  /" value={text} onInput={(e) => setText(e.currentTarget.value)} />
          </label>
        )}
      </PageHead>
      {!store.synced ? <NotSynced what="the profiles" /> : all.length === 0 ? <NoProfiles /> : (
        <>
          <Summary profiles={all} />
          {shown.length === 0
            ? <Empty title="No profile matches the filter"><button type="button" onClick={() => setText('')}>Show all {count(all.length, 'profile')}</button></Empty>
            : <Table profiles={shown} />}
        </>
      )}
    </>
  );
}

function NoProfiles() {
  const notes = notesAbout('schedulingprofiles');
  return (
    <Empty title={notes.length > 0 ? 'No profiles to show' : 'No profiles'}>
      {notes.length > 0 ? <NoRight notes={notes} /> : (
        <>
          <p>The cluster has no SchedulingProfile, or Berth is not installed. This one schedules as kube-scheduler does by default:</p>
          <pre class="code" role="group" tabIndex={0} aria-label="Command that creates a profile">{'kubectl apply -f - <<EOF\napiVersion: berth.dev/v1alpha1\nkind: SchedulingProfile\nmetadata: {name: batch}\nspec: {}\nEOF'}</pre>
          <p><code>kubectl berth check</code> says whether Berth works.</p>
        </>
      )}
    </Empty>
  );
}

function Summary({ profiles }: { profiles: Profile[] }) {
  const sum = (f: (p: Profile) => number): number => profiles.reduce((total, p) => total + f(p), 0);
  const ready = profiles.filter((p) => p.ready === 'True').length;
  const figures: [text: string, name: string, tone: string][] = [
    [`${number(ready)} of ${number(profiles.length)}`, 'profiles ready', ready === profiles.length ? '' : 'warn-text'],
    [number(sum((p) => p.queue?.pending ?? 0)), 'pods pending', ''],
    [number(sum((p) => p.totals?.bound ?? 0)), 'pods bound', ''],
    [number(sum((p) => p.totals?.refusals ?? 0)), 'attempts without a feasible node', ''],
    [number(sum((p) => p.totals?.errors ?? 0)), 'attempts with an error', sum((p) => p.totals?.errors ?? 0) > 0 ? 'warn-text' : ''],
    [number(sum((p) => p.totals?.victims ?? 0)), 'victims of preemption', ''],
  ];
  return <dl class="figures">{figures.map(([text, name, tone]) => <div key={name}><dt>{name}</dt><dd class={tone}>{text}</dd></div>)}</dl>;
}

function Table({ profiles }: { profiles: Profile[] }) {
  return (
    <table class="profiles cards" role="table">
      <thead role="rowgroup">
        <tr role="row">
          {['Profile', 'Ready', 'Runs', 'Queue', 'Bound', 'Last decision'].map((name) => (
            <th key={name} role="columnheader" scope="col" class={name === 'Bound' ? 'num' : ''}>{name}</th>
          ))}
        </tr>
      </thead>
      {profiles.map((p) => <Row key={p.name} profile={p} />)}
    </table>
  );
}

function Row({ profile: p }: { profile: Profile }) {
  const explains = p.ready !== 'True' && p.message !== '' || p.degraded !== '';
  return (
    <tbody role="rowgroup" class={explains ? 'explained' : ''}>
      <tr role="row">
        <th role="rowheader" scope="row"><a class="name strong" href={profileLink(p.name)}>{p.name}</a>{p.state === 'Paused' && <Chip tone="quiet">Paused</Chip>}</th>
        <td role="cell" data-label="Ready"><ReadyChip profile={p} />{p.degraded && <Chip tone="warn">Degraded</Chip>}</td>
        <td role="cell" data-label="Runs"><Runs profile={p} /></td>
        <td role="cell" data-label="Queue" class="w-queue">
          <QueueBar queue={p.queue} />
          {(p.queue?.pending ?? 0) > 0 && <a class="more" href={waitingLink(p.name)} aria-label={`Why pods of ${p.name} wait`}>why</a>}
        </td>
        <td role="cell" data-label="Bound" class="num">{p.totals ? count(p.totals.bound, 'pod') : <span class="muted">not reported</span>}</td>
        <td role="cell" data-label="Last decision"><Ago time={p.lastDecision} /></td>
      </tr>
      {explains && (
        <tr role="row" class="explanation">
          <td role="cell" colSpan={6}>
            {p.ready !== 'True' && p.message && <Message text={p.message} tone={readyTone(p)} />}
            {p.degraded && <Message text={`Degraded: ${p.degraded}`} tone="warn" />}
          </td>
        </tr>
      )}
    </tbody>
  );
}
