// The page: reads the token, starts the stream, and shows the view of the route.
import { render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { askForToken, hasToken, readToken, shareToken, whenEnded } from './api';
import { stream, useRoute } from './app-context';
import { listenForKeys } from './keys';
import { Header, KeysDialog } from './parts/header';
import { ConnectionBar, Empty, GlobalNotes } from './parts/states';
import { title, type Route } from './router';
import { initTheme } from './theme';
import { CompareView } from './views/compare';
import { MapView } from './views/map';
import { PodView } from './views/pod';
import { ProfileView } from './views/profile';
import { ProfilesView } from './views/profiles';
import { TryView } from './views/try';
import { WaitingView } from './views/waiting';

let showKeys = (): void => {};

function App() {
  const route = useRoute();
  const [keysOpen, setKeysOpen] = useState(false);
  showKeys = () => setKeysOpen(true);
  const page = title(route), first = useRef(true);
  useEffect(() => {
    document.title = `${page} · Berth`;
    if (first.current) {
      first.current = false;
      return;
    }
    scrollTo(0, 0);
    document.querySelector<HTMLElement>('main h1')?.focus({ preventScroll: true });
  }, [page]);
  const skip = (event: Event): void => {
    event.preventDefault(); // the fragment is the route
    document.getElementById('main')?.focus();
  };
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>Skip to the content</a>
      <Header route={route} showKeys={() => setKeysOpen(true)} />
      <ConnectionBar />
      <main id="main" tabIndex={-1}>
        <GlobalNotes />
        <View route={route} />
      </main>
      <div id="announcements" class="sr" role="status" aria-live="polite" />
      <KeysDialog open={keysOpen} close={() => setKeysOpen(false)} />
    </>
  );
}

function View({ route }: { route: Route }) {
  switch (route.view) {
    case 'profiles': return <ProfilesView />;
    case 'profile': return <ProfileView key={route.name} name={route.name} />;
    case 'waiting': return <WaitingView route={route} />;
    case 'pod': return <PodView key={`${route.namespace}/${route.name}`} namespace={route.namespace} name={route.name} />;
    case 'map': return <MapView />;
    case 'try': return <TryView />;
    case 'compare': return <CompareView key={route.name} name={route.name} from={route.from} to={route.to} />;
  }
  return (
    <>
      <h1 tabIndex={-1} class="sr">Page not found</h1>
      <Empty title="There is no such page"><p>The address names no view. <a href="#/profiles">Go to the profiles.</a></p></Empty>
    </>
  );
}

initTheme();
readToken();
if (!hasToken()) await askForToken();
shareToken();
whenEnded(() => stream.ended());
stream.start();
addEventListener('hashchange', () => {
  if (readToken()) { // the address of a new run was pasted into this tab
    dispatchEvent(new HashChangeEvent('hashchange'));
    stream.start();
  }
});
addEventListener('online', () => stream.retryNow());
const visibilityChanged = (): void => {
  if (document.hidden) stream.hidden();
  else stream.shown();
};
document.addEventListener('visibilitychange', visibilityChanged);
visibilityChanged(); // a link may open a page behind another one
listenForKeys(() => showKeys());
render(<App />, document.getElementById('app')!);
