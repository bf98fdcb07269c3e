// Requests to the server, each with the token of the run.
import type { Diff, Matrix, PodDetails, Revisions, Session, TryResult } from './types';

const storageKey = 'berth-token';
const header = 'X-Berth-Token';

/** endedMessage is what a 401 means to the reader. */
export const endedMessage = 'This run of kubectl berth ui has ended, or the address lacks its token. '
  + 'Run kubectl berth ui again and open the address that it prints.';

let token = '';

/** readToken takes the token from the fragment, or from the session's storage. It reports whether the fragment had one. */
export function readToken(): boolean {
  const match = /^#token=([A-Za-z0-9_-]+)/.exec(location.hash);
  if (match) {
    token = match[1];
    keep(token);
    history.replaceState(null, '', location.pathname + '#/profiles');
    return true;
  }
  try {
    token = sessionStorage.getItem(storageKey) ?? token;
  } catch {
    // Storage may be off: the token of this page stays in memory.
  }
  return false;
}

function keep(value: string): void {
  try {
    sessionStorage.setItem(storageKey, value);
  } catch {
    // As above.
  }
}

export function hasToken(): boolean {
  return token !== '';
}

/** channelName is the channel on which the pages of this origin, and no others, ask each other for the token. */
const channelName = 'berth-token';
/** askLimit is how long a page waits for an answer, in ms. */
const askLimit = 500;
/** refused is the token that the server refused. */
let refused = '';

/** shareToken gives the token to pages of this origin that ask for it: a link that is opened in a new tab has none. */
export function shareToken(): void {
  const channel = new BroadcastChannel(channelName);
  channel.onmessage = ({ data }: MessageEvent<unknown>) => {
    if (data === 'ask' && token !== refused) channel.postMessage({ token });
  };
}

/** askForToken takes the token from another page of this origin, if one answers in time. */
export function askForToken(): Promise<void> {
  return new Promise((resolve) => {
    const channel = new BroadcastChannel(channelName);
    const end = (): void => {
      clearTimeout(timer);
      channel.close();
      resolve();
    };
    const timer = setTimeout(end, askLimit);
    channel.onmessage = ({ data }: MessageEvent<{ token?: unknown } | string>) => {
      if (typeof data === 'string' || typeof data.token !== 'string') return; // another page asks
      token = data.token;
      keep(token);
      end();
    };
    channel.postMessage('ask');
  });
}

/** ApiError is an answer that is not 2xx, or no answer (status 0). The message is a sentence. */
export class ApiError extends Error {
  constructor(readonly status: number, message: string, readonly retryAfter = 0) {
    super(message);
  }
}

let onEnded = (): void => {};

/** whenEnded sets what happens upon a 401. */
export function whenEnded(f: () => void): void {
  onEnded = f;
}

/** request sends a request and returns the response if it is 2xx. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const sent = token;
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers: { ...init.headers, [header]: sent }, cache: 'no-store', credentials: 'omit' });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError(0, 'The server does not answer. Is kubectl berth ui still running in the terminal?');
  }
  if (response.ok) return response;
  if (response.status === 401) {
    refused = sent;
    onEnded();
    throw new ApiError(401, endedMessage);
  }
  throw new ApiError(response.status, await errorText(response), Number(response.headers.get('Retry-After')) || 0);
}

async function errorText(response: Response): Promise<string> {
  const fallback = `The server answered ${response.status} ${response.statusText}.`;
  try {
    const body: unknown = await response.json();
    const message = (body as { error?: unknown }).error;
    return typeof message === 'string' && message !== '' ? message : fallback;
  } catch {
    return fallback;
  }
}

async function getJSON<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await request(path, { signal });
  return await response.json() as T;
}

const part = encodeURIComponent;

export const getSession = (signal?: AbortSignal): Promise<Session> => getJSON('/api/session', signal);

export const getPod = (namespace: string, name: string, signal?: AbortSignal): Promise<PodDetails> =>
  getJSON(`/api/pods/${part(namespace)}/${part(name)}`, signal);

export const getMatrix = (namespace: string, name: string, signal?: AbortSignal): Promise<Matrix> =>
  getJSON(`/api/pods/${part(namespace)}/${part(name)}/matrix`, signal);

export const getRevisions = (profile: string, signal?: AbortSignal): Promise<Revisions> =>
  getJSON(`/api/profiles/${part(profile)}/revisions`, signal);

export const getDiff = (profile: string, from: string, to: string, signal?: AbortSignal): Promise<Diff> =>
  getJSON(`/api/profiles/${part(profile)}/diff?from=${part(from)}&to=${part(to)}`, signal);

export interface TryInput { manifest: string; replicas: number | null; profile: string; withoutNodes: string[] }

/** maxManifest is how large a body the server takes, in bytes. */
export const maxManifest = 1 << 20;

export async function postTry(input: TryInput, signal?: AbortSignal): Promise<TryResult> {
  const query = new URLSearchParams();
  if (input.profile !== '') query.set('profile', input.profile);
  if (input.replicas !== null) query.set('replicas', String(input.replicas));
  for (const node of input.withoutNodes) query.append('without-node', node);
  const text = query.toString();
  const response = await request('/api/try' + (text === '' ? '' : '?' + text), {
    method: 'POST', body: input.manifest, signal,
    headers: { 'Content-Type': input.manifest.trimStart().startsWith('{') ? 'application/json' : 'application/yaml' },
  });
  return await response.json() as TryResult;
}
