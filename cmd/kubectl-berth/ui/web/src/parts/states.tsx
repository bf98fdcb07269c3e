// What a view shows while it loads, where it is empty, and where something failed: each a
// sentence that says what to do.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { store, stream, useTopics } from '../app-context';
import type { ApiError } from '../api';
import { duration, number } from '../format';
import { Sign } from './basics';

export function Loading({ what }: { what: string }) {
  return <div class="state" role="status"><span class="spinner" aria-hidden="true" /><p>Reading {what} …</p></div>;
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return <div class="state"><p class="state-title">{title}</p>{children && <div class="state-text">{children}</div>}</div>;
}

/** Failed says that a task, such as "read pod a/b", failed, why, and what to do. */
export function Failed({ error, retry, task }: { error: ApiError; retry?: () => void; task: string }) {
  return (
    <div class="state failed" role="alert">
      <p class="state-title"><Sign tone="bad" />{titleOf(error, task)}</p>
      <p class="state-text"><bdi>{error.message}</bdi></p>
      {adviceOf(error) && <p class="state-text">{adviceOf(error)}</p>}
      {retry && error.status !== 401 && <button type="button" onClick={retry}>Try again</button>}
    </div>
  );
}

function titleOf(error: ApiError, task: string): string {
  switch (error.status) {
    case 0: return 'No answer';
    case 401: return 'Not connected';
    case 403: return `You may not ${task}`;
    case 503: return 'The server is busy';
  }
  return `Could not ${task}`;
}

function adviceOf(error: ApiError): string {
  switch (error.status) {
    case 403: return 'The page has the permissions of the user who runs kubectl berth ui. Ask for the one that is named, and try again.';
    case 503: return `At most two computations run at a time.${error.retryAfter ? ` Try again in ${error.retryAfter}s.` : ''}`;
  }
  return '';
}

/** notesAbout returns the notes that mention one of the words: why something is not there. */
export function notesAbout(...words: string[]): string[] {
  return store.notes.filter((note) => words.some((word) => note.toLowerCase().includes(word)));
}

export function Notes({ notes }: { notes: readonly string[] }) {
  if (notes.length === 0) return null;
  return <ul class="notes">{notes.map((note) => <li key={note}><Sign tone="warn" /><bdi>{note}</bdi></li>)}</ul>;
}

/** NoRight says why a view is empty, and what to do. */
export function NoRight({ notes }: { notes: readonly string[] }) {
  return (
    <>
      <Notes notes={notes} />
      <p>The page has the permissions of the user who runs kubectl berth ui. Ask for the one that is named, and run it again.</p>
    </>
  );
}

/** GlobalNotes shows what may not be read, on every view. */
export function GlobalNotes() {
  useTopics(['notes']);
  const notes = store.notes;
  if (notes.length === 0) return null;
  if (notes.length <= 2) return <div class="note-bar" role="note"><Notes notes={notes} /></div>;
  return (
    <details class="note-bar">
      <summary><Sign tone="warn" />{notes.length} notes about what is not shown</summary>
      <Notes notes={notes} />
    </details>
  );
}

/** ConnectionBar says that the stream is not connected, when it tries again, and what to do. */
export function ConnectionBar() {
  useTopics(['connection']);
  const c = store.connection, retryAt = c.status === 'waiting' ? c.retryAt : 0;
  const [, tick] = useState(0);
  useEffect(() => {
    if (retryAt === 0) return undefined;
    const timer = setInterval(() => tick((n) => n + 1), 500);
    return () => clearInterval(timer);
  }, [retryAt]);
  if (c.status === 'ended') {
    return (
      <aside class="connection-bar bad" aria-label="Connection">
        <p role="alert"><Sign tone="bad" />{c.message}</p><button type="button" class="small" onClick={() => stream.start()}>Try again</button>
      </aside>
    );
  }
  if (c.status === 'waiting') {
    const left = duration(Math.max(0, retryAt - Date.now()) + 999);
    return (
      <aside class="connection-bar warn" aria-label="Connection">
        <p><span role="status"><Sign tone="warn" /><bdi>{c.message}</bdi> {store.synced && 'What you see is not up to date.'}</span> <span aria-hidden="true">Next attempt in {left}.</span></p>
        <button type="button" class="small" onClick={() => stream.start()}>Connect now</button>
      </aside>
    );
  }
  return null;
}

/** NotSynced is shown in place of a view until the first snapshot is complete; null then. */
export function NotSynced({ what }: { what: string }) {
  useTopics(['connection'], 200);
  const c = store.connection;
  if (store.synced) return null;
  if (c.status === 'connecting') return <Loading what={c.objects > 0 ? `${what}, ${number(c.objects)} objects so far` : what} />;
  return <Empty title="Not connected"><p>The line above says why. Nothing was read so far.</p></Empty>;
}
