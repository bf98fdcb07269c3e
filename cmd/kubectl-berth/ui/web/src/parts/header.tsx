// The bar at the top: views, the connection, the theme, the keys.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { announce, store, useTopics } from '../app-context';
import { count, number } from '../format';
import { keys } from '../keys';
import type { Route } from '../router';
import { setTheme, theme, type Theme } from '../theme';
import { waitingPods } from '../waiting';
import { Chip } from './basics';

const views: { view: Route['view']; text: string; href: string; also: Route['view'][] }[] = [
  { view: 'profiles', text: 'Profiles', href: '#/profiles', also: ['profile', 'compare'] },
  { view: 'waiting', text: 'Waiting', href: '#/waiting', also: ['pod'] },
  { view: 'map', text: 'Map', href: '#/map', also: [] },
  { view: 'try', text: 'Try', href: '#/try', also: [] },
];

/** announceEvery is the shortest time between two announcements of counts, in ms. */
const announceEvery = 5000;

export function Header({ route, showKeys }: { route: Route; showKeys: () => void }) {
  useTopics(['decisions', 'pods', 'profiles'], 1000);
  const waiting = useMemo(() => waitingPods(store), [store.version('decisions'), store.version('pods'), store.version('profiles')]);
  // The page of a pod is one of the view Waiting as long as the pod waits.
  const isPart = (also: Route['view'][]): boolean => also.includes(route.view)
    && (route.view !== 'pod' || waiting.some((pod) => pod.key === `${route.namespace}/${route.name}`));
  return (
    <header class="top">
      <a class="brand" href="#/profiles" aria-label="Berth, all profiles"><Logo />Berth</a>
      <nav aria-label="Views">
        <ul>
          {views.map((v) => (
            <li key={v.view}>
              <a href={v.href} aria-current={v.view === route.view ? 'page' : isPart(v.also) ? 'true' : undefined}>
                {v.text}{v.view === 'waiting' && <WaitingCount n={waiting.length} />}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <div class="top-right">
        <Cluster />
        <Status />
        <ThemeSwitch />
        <button type="button" class="icon" onClick={showKeys} aria-label="Keys of the page" title="Keys of the page (?)">?</button>
      </div>
    </header>
  );
}

function Logo() {
  return (
    <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
      <rect class="logo-back" width="32" height="32" rx="7" />
      <path class="logo-line" d="M8 8v16h16V8" /><rect class="logo-box" x="12.500" y="13" width="7" height="6.500" rx="1.500" />
    </svg>
  );
}

/** WaitingCount is the number of waiting pods. A change is announced at most every 5 s. */
function WaitingCount({ n }: { n: number }) {
  const said = useRef({ n: -1, at: 0 });
  useEffect(() => {
    if (!store.synced || said.current.n === n) return undefined;
    if (said.current.n < 0) { // the first count is no change
      said.current = { n, at: performance.now() };
      return undefined;
    }
    const say = (): void => {
      announce(`${count(n, 'pod')} waiting`);
      said.current = { n, at: performance.now() };
    };
    const wait = said.current.at + announceEvery - performance.now();
    if (wait <= 0) {
      say();
      return undefined;
    }
    const timer = setTimeout(say, wait);
    return () => clearTimeout(timer);
  }, [n, store.synced]);
  if (!store.synced) return null;
  return <span class="count" title={`${count(n, 'pod')} waiting`}>{number(n)}<span class="sr"> {n === 1 ? 'pod' : 'pods'}</span></span>;
}

function Cluster() {
  useTopics(['session']);
  const s = store.session;
  if (!s) return null;
  return (
    <span class="cluster" title={`Server ${s.server}, Kubernetes ${s.kubernetes}, kubectl-berth ${s.version}, Berth in namespace ${s.berthNamespace}`}>
      <span class="sr">Context </span>{s.context}
    </span>
  );
}

function Status() {
  useTopics(['connection'], 200);
  switch (store.connection.status) {
    case 'live': return <Chip tone="ok" title="Changes of the cluster appear as they happen">Live</Chip>;
    case 'connecting': case 'paused': return <Chip tone="quiet">Connecting</Chip>;
    case 'waiting': return <Chip tone="warn">Disconnected</Chip>;
  }
  return <Chip tone="bad">Ended</Chip>;
}

const nextTheme: Record<Theme, Theme> = { auto: 'light', light: 'dark', dark: 'auto' };
const themeName: Record<Theme, string> = { auto: 'as the system', light: 'light', dark: 'dark' };

function ThemeSwitch() {
  const [now, set] = useState(theme());
  const change = (): void => {
    setTheme(nextTheme[now]);
    set(nextTheme[now]);
  };
  const label = `Colours: ${themeName[now]}. Change to ${themeName[nextTheme[now]]}.`;
  return (
    <button type="button" class="icon" onClick={change} aria-label={label} title={label} data-theme-switch={now}>
      <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
        {now === 'light' && <><circle cx="8" cy="8" r="3.200" /><path class="line" d="M8 1v2M8 13v2M1 8h2M13 8h2M3 3l1.400 1.400M11.600 11.600 13 13M13 3l-1.400 1.400M4.400 11.600 3 13" /></>}
        {now === 'dark' && <path d="M13.500 10A6 6 0 0 1 6 2.500a6 6 0 1 0 7.500 7.500Z" />}
        {now === 'auto' && <><circle class="line" cx="8" cy="8" r="6" /><path d="M8 2a6 6 0 0 1 0 12Z" /></>}
      </svg>
    </button>
  );
}

/** KeysDialog lists the keys. The element itself keeps the focus inside and closes upon Escape. */
export function KeysDialog({ open, close }: { open: boolean; close: () => void }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = ref.current!;
    if (open && !dialog.open) dialog.showModal();
    if (!open && dialog.open) dialog.close();
  }, [open]);
  return (
    <dialog ref={ref} class="keys" aria-labelledby="keys-title" onClose={close}>
      <h2 id="keys-title">Keys</h2>
      <dl>
        {keys.map((k) => <div key={k.does}><dt>{k.keys.map((key) => <kbd key={key}>{key}</kbd>)}</dt><dd>{k.does}</dd></div>)}
      </dl>
      <button type="button" onClick={close}>Close</button>
    </dialog>
  );
}
