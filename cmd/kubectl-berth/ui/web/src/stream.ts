// Reads the stream of the server into the store, and connects again when it breaks.
import { ApiError, endedMessage, getSession, hasToken, request } from './api';
import type { Store } from './store';
import type { StreamMessage } from './types';

/** silenceLimit: the server sends a ping every 15 s; a connection that is silent for longer is dead. */
const silenceLimit = 40_000;
const maxBackoff = 15_000;
/** hiddenLimit is how long a page that is not visible keeps its stream, in ms: a browser's pages have few connections. */
const hiddenLimit = 5 * 60_000;
/** workSlice is how long lines are applied before the page may paint again, in ms. */
const workSlice = 8;

/** Lines splits chunks of text into lines. */
export class Lines {
  private rest: string[] = [];

  /** push returns the lines that the chunk completes. */
  push(chunk: string): string[] {
    const end = chunk.lastIndexOf('\n');
    if (end < 0) {
      if (chunk !== '') this.rest.push(chunk);
      return [];
    }
    const whole = this.rest.join('') + chunk.slice(0, end);
    this.rest = end + 1 < chunk.length ? [chunk.slice(end + 1)] : [];
    return whole.split('\n').filter((line) => line.trim() !== '');
  }
}

/** backoff returns how long to wait before attempt n, counted from 0, in ms; random is between 0 and 1. */
export function backoff(attempt: number, random: number): number {
  return Math.round(Math.min(maxBackoff, 1000 * 2 ** Math.min(attempt, 10)) * (0.75 + random / 4));
}

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

export class Stream {
  private attempt = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private abort: AbortController | null = null;
  private hiddenTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly store: Store) {}

  /** start connects now, also if a connection exists or an attempt waits. */
  start(): void {
    clearTimeout(this.timer);
    this.abort?.abort();
    if (!hasToken()) {
      this.store.setConnection({ status: 'ended', message: endedMessage });
      return;
    }
    const abort = this.abort = new AbortController();
    this.store.setConnection({ status: 'connecting', objects: 0 });
    void this.run(abort).catch((error: unknown) => {
      if (this.abort === abort) this.failed(error);
    });
  }

  /** retryNow connects at once if an attempt waits for its time. */
  retryNow(): void {
    if (this.store.connection.status === 'waiting') this.start();
  }

  /** hidden ends the stream after a while, unless the page is shown before. */
  hidden(): void {
    clearTimeout(this.hiddenTimer);
    this.hiddenTimer = setTimeout(() => this.pause(), hiddenLimit);
  }

  /** shown connects at once if the stream was ended since the page was hidden, or an attempt waits for its time. */
  shown(): void {
    clearTimeout(this.hiddenTimer);
    if (this.store.connection.status === 'paused') this.start();
    else this.retryNow();
  }

  private pause(): void {
    if (this.store.connection.status === 'ended') return;
    clearTimeout(this.timer);
    this.abort?.abort();
    this.abort = null;
    this.store.setConnection({ status: 'paused' });
  }

  ended(): void {
    clearTimeout(this.timer);
    this.abort?.abort();
    this.abort = null;
    this.store.setConnection({ status: 'ended', message: endedMessage });
  }

  private failed(error: unknown): void {
    this.abort?.abort();
    this.abort = null;
    if (error instanceof ApiError && error.status === 401) return; // ended() was called
    const wait = Math.max(backoff(this.attempt++, Math.random()), error instanceof ApiError ? error.retryAfter * 1000 : 0);
    const message = error instanceof ApiError ? error.message : 'The connection to kubectl berth ui broke.';
    this.store.setConnection({ status: 'waiting', message, retryAt: Date.now() + wait });
    this.timer = setTimeout(() => this.start(), wait);
  }

  private async run(abort: AbortController): Promise<void> {
    this.store.setSession(await getSession(abort.signal));
    const response = await request('/api/stream', { signal: abort.signal });
    if (!response.body) throw new ApiError(0, 'The server sent no stream.');
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const lines = new Lines();
    let silence = setTimeout(() => abort.abort(), silenceLimit);
    try {
      this.store.beginSnapshot();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) throw new ApiError(0, 'The server closed the stream.');
        clearTimeout(silence);
        silence = setTimeout(() => abort.abort(), silenceLimit);
        let since = performance.now();
        for (const line of lines.push(value)) {
          const message = JSON.parse(line) as StreamMessage;
          if (this.abort !== abort) return;
          this.store.receive(message);
          if (message.type === 'synced') this.attempt = 0;
          if (performance.now() - since > workSlice) {
            await pause();
            since = performance.now();
          }
        }
      }
    } finally {
      clearTimeout(silence);
    }
  }
}
