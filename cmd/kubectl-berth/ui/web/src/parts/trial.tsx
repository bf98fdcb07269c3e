// The last trial of a profile: real pods, evaluated with what would run.
import { count, number, percent } from '../format';
import { podLink } from '../router';
import type { Trial } from '../types';
import { Ago, Chip } from './basics';
import { Share } from './bars';

export function TrialResult({ trial }: { trial: Trial }) {
  const lost = trial.lost ?? [];
  return (
    <div class="trial">
      <p class="trial-head">
        {lost.length === 0 ? <Chip tone="ok">No pod lost</Chip> : <Chip tone="bad">{count(lost.length, 'pod')} lost</Chip>}
        <span>{count(trial.sampled, 'pod')} sampled, <Ago time={trial.time} /></span>
      </p>
      {trial.sampled > 0 && (
        <dl class="trial-bars">
          {trial.fitBefore !== null && <div><dt>Fit before</dt><dd><Share share={trial.fitBefore / trial.sampled} tone="quiet" />{number(trial.fitBefore)} of {count(trial.sampled, 'pod')}, {percent(trial.fitBefore / trial.sampled)}</dd></div>}
          <div><dt>Fit after</dt><dd><Share share={trial.fitAfter / trial.sampled} />{number(trial.fitAfter)} of {count(trial.sampled, 'pod')}, {percent(trial.fitAfter / trial.sampled)}</dd></div>
        </dl>
      )}
      {lost.length > 0 && (
        <>
          <p>Pods that fitted before and would not any more:</p>
          <ul class="pod-links">{lost.map((key) => <li key={key}><a href={podLink(key)}>{key}</a></li>)}</ul>
        </>
      )}
    </div>
  );
}
