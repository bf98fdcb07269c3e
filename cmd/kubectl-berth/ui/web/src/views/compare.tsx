// Two revisions of a profile, side by side.
import { getDiff, getRevisions } from '../api';
import { useLoad } from '../app-context';
import { count } from '../format';
import { Chip, PageHead, Scroll, Section } from '../parts/basics';
import { Empty, Failed, Loading } from '../parts/states';
import { TrialResult } from '../parts/trial';
import { format, profileLink } from '../router';
import { sideBySide } from '../sides';
import type { Diff, DiffLine, Revision } from '../types';

export function CompareView({ name, from, to }: { name: string; from: string; to: string }) {
  const { data, error, reload } = useLoad(`${name} ${from} ${to}`, (signal) => getDiff(name, from, to, signal));
  const revisions = useLoad(name, (signal) => getRevisions(name, signal));
  return (
    <>
      <PageHead title={<><span class="kind">Compare revisions of</span> <a class="name" href={profileLink(name)}>{name}</a></>} />
      <Choice name={name} from={from} to={to} revisions={revisions.data?.revisions ?? []} />
      {error && <Failed error={error} retry={reload} task={`compare ${from} with ${to}`} />}
      {!data && !error && <Loading what="the two revisions" />}
      {data && <Result diff={data} />}
    </>
  );
}

function Choice({ name, from, to, revisions }: { name: string; from: string; to: string; revisions: Revision[] }) {
  const go = (a: string, b: string): void => { location.hash = format({ view: 'compare', name, from: a, to: b }); };
  const known = new Set(['spec', ...revisions.map((r) => r.hash)]);
  const options = (chosen: string) => (
    <>
      <option value="spec">Spec, as it is applied now</option>
      {revisions.map((r) => <option key={r.hash} value={r.hash}>{`Revision ${r.number}, ${r.hash}, generation ${r.generation}, ${r.status}${r.running ? ' (running)' : ''}`}</option>)}
      {!known.has(chosen) && <option value={chosen}>{chosen}</option>}
    </>
  );
  return (
    <div class="filters">
      <label class="field grow"><span>From</span><select data-filter value={from} onChange={(e) => go(e.currentTarget.value, to)}>{options(from)}</select></label>
      <button type="button" class="swap" onClick={() => go(to, from)}>Swap</button>
      <label class="field grow"><span>To</span><select value={to} onChange={(e) => go(from, e.currentTarget.value)}>{options(to)}</select></label>
    </div>
  );
}

function Result({ diff }: { diff: Diff }) {
  const sections = (diff.sections ?? []).filter((section) => (section.lines ?? []).length > 0), equal = diff.equal ?? [];
  return (
    <>
      <div class="sides-title"><p><Chip tone="quiet">From</Chip> {diff.from.title}</p><p><Chip tone="info">To</Chip> {diff.to.title}</p></div>
      {sections.length === 0 && <Empty title="No difference"><p>Both make the same decisions: the same plugins, weights, arguments and settings.</p></Empty>}
      <div class="panels">
        {diff.trial && <Section title="Trial" wide><TrialResult trial={diff.trial} /></Section>}
        {sections.map((section) => (
          <Section key={section.title} title={section.title} wide aside={<Changes lines={section.lines!} />}><Sides lines={section.lines!} title={section.title} /></Section>
        ))}
      </div>
      {!diff.trial && <p class="fine">No trial of “{diff.to.title}” is stored: the profile keeps its last one only.</p>}
      {equal.length > 0 && <p class="fine">Without a difference: {equal.join(', ')}.</p>}
    </>
  );
}

function Changes({ lines }: { lines: DiffLine[] }) {
  const removed = lines.filter((line) => line.sign === '-').length, added = lines.filter((line) => line.sign === '+').length;
  return <span class="muted">{count(removed, 'line')} removed, {count(added, 'line')} added</span>;
}

function Sides({ lines, title }: { lines: DiffLine[]; title: string }) {
  return (
    <Scroll label={`Difference: ${title}`}>
      <table class="sides" role="table">
        <thead class="sr" role="rowgroup"><tr role="row"><th role="columnheader" scope="col">From</th><th role="columnheader" scope="col">To</th></tr></thead>
        <tbody role="rowgroup">
          {sideBySide(lines).map(([left, right], i) => (
            <tr key={i} role="row">
              <td role="cell" class={left === null ? 'none' : left.sign === '-' ? 'removed' : ''}>{left && <Line line={left} sign="-" word="removed" />}</td>
              <td role="cell" class={right === null ? 'none' : right.sign === '+' ? 'added' : ''}>{right && <Line line={right} sign="+" word="added" />}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function Line({ line, sign, word }: { line: DiffLine; sign: string; word: string }) {
  const changed = line.sign === sign;
  return <><span class="diff-sign" aria-hidden="true">{changed ? sign : ' '}</span>{changed && <span class="sr">{word}: </span>}<span class="diff-text">{line.text}</span></>;
}
