// What the views share: the store, the stream, and hooks that follow them.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from './api';
import { parse, type Route } from './router';
import { Store, type Topic } from './store';
import { Stream } from './stream';

export const store = new Store((flush) => {
  if (document.hidden) setTimeout(flush, 500);
  else requestAnimationFrame(flush);
});

export const stream = new Stream(store);

/** useTopics renders again when one of the topics changed, at most once in everyMs. */
export function useTopics(topics: Topic[], everyMs = 0): void {
  const [, render] = useState(0);
  const key = topics.join('\n');
  useLayoutEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined, last = -Infinity;
    const now = (): void => {
      timer = undefined;
      last = performance.now();
      render((n) => n + 1);
    };
    const changed = (): void => {
      if (timer !== undefined) return;
      const wait = last + everyMs - performance.now();
      if (wait <= 0) now();
      else timer = setTimeout(now, wait);
    };
    const ends = key.split('\n').map((topic) => store.subscribe(topic, changed));
    return () => {
      clearTimeout(timer);
      for (const end of ends) end();
    };
  }, [key, everyMs]);
}

/** useRoute returns the current route. */
export function useRoute(): Route {
  const [route, set] = useState(() => parse(location.hash));
  useEffect(() => {
    const changed = (): void => set(parse(location.hash));
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return route;
}

const clock = new Set<() => void>();
setInterval(() => {
  if (!document.hidden) for (const tick of [...clock]) tick();
}, 1000);

/** everySecond calls f each second while the page is visible. It returns a function that ends that. */
export function everySecond(f: () => void): () => void {
  clock.add(f);
  return () => clock.delete(f);
}

/** everyMinute calls f each minute while the page is visible. It returns a function that ends that. */
export function everyMinute(f: () => void): () => void {
  let last = performance.now();
  return everySecond(() => {
    if (performance.now() - last < 60_000) return;
    last = performance.now();
    f();
  });
}

export interface Loaded<T> {
  data: T | null;
  error: ApiError | null;
  loading: boolean;
  /** at is when data came, in ms. */
  at: number;
}

/** useLoad runs a request when key changes and upon reload(); key null runs none. Data of another key is dropped. */
export function useLoad<T>(key: string | null, run: (signal: AbortSignal) => Promise<T>): Loaded<T> & { reload: () => void } {
  const [state, set] = useState<Loaded<T> & { key: string | null }>({ data: null, error: null, loading: key !== null, at: 0, key });
  const [turn, setTurn] = useState(0);
  const latest = useRef(run);
  latest.current = run;
  useEffect(() => {
    if (key === null) {
      set({ data: null, error: null, loading: false, at: 0, key });
      return undefined;
    }
    const abort = new AbortController();
    set((s) => s.key === key ? { ...s, loading: true } : { data: null, error: null, loading: true, at: 0, key });
    latest.current(abort.signal).then(
      (data) => {
        if (!abort.signal.aborted) set({ data, error: null, loading: false, at: Date.now(), key });
      },
      (error: unknown) => {
        if (abort.signal.aborted) return;
        const known = error instanceof ApiError ? error : new ApiError(0, 'The answer of the server could not be read.');
        set((s) => ({ ...s, error: known, loading: false }));
      },
    );
    return () => abort.abort();
  }, [key, turn]);
  const fresh = state.key === key ? state : { data: null, error: null, loading: key !== null, at: 0 };
  return { data: fresh.data, error: fresh.error, loading: fresh.loading, at: fresh.at, reload: () => setTurn((n) => n + 1) };
}

/** announce puts a text into the page's polite live region. */
export function announce(text: string): void {
  const region = document.getElementById('announcements');
  if (region) region.textContent = text;
}
