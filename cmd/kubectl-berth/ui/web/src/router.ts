// The routes of the page, in the fragment. What a view filters by is in the query behind it.

export type Route =
  | { view: 'profiles' }
  | { view: 'profile'; name: string }
  | { view: 'waiting'; profile: string; namespace: string; text: string; kind: string }
  | { view: 'pod'; namespace: string; name: string }
  | { view: 'map' }
  | { view: 'try' }
  | { view: 'compare'; name: string; from: string; to: string }
  | { view: 'unknown'; path: string };

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** parse reads a fragment, with or without its #. */
export function parse(fragment: string): Route {
  const text = fragment.replace(/^#/, '');
  const at = text.indexOf('?');
  const path = at < 0 ? text : text.slice(0, at);
  const query = new URLSearchParams(at < 0 ? '' : text.slice(at + 1));
  const parts = path.split('/').filter((part) => part !== '').map(decode);
  const [view, a, b, c] = parts;
  switch (`${view ?? ''} ${parts.length}`) {
    case ' 0':
    case 'profiles 1': return { view: 'profiles' };
    case 'profiles 2': return { view: 'profile', name: a };
    case 'waiting 1':
      return {
        view: 'waiting', profile: query.get('profile') ?? '', namespace: query.get('namespace') ?? '',
        text: query.get('text') ?? '', kind: query.get('kind') ?? '',
      };
    case 'pods 3': return { view: 'pod', namespace: a, name: b };
    case 'map 1': return { view: 'map' };
    case 'try 1': return { view: 'try' };
    case 'compare 4': return { view: 'compare', name: a, from: b, to: c };
  }
  return { view: 'unknown', path };
}

/** format is the inverse of parse. */
export function format(route: Route): string {
  const join = (...parts: string[]): string => '#/' + parts.map(encodeURIComponent).join('/');
  switch (route.view) {
    case 'profile': return join('profiles', route.name);
    case 'pod': return join('pods', route.namespace, route.name);
    case 'compare': return join('compare', route.name, route.from, route.to);
    case 'waiting': {
      const query = new URLSearchParams();
      for (const name of ['profile', 'namespace', 'text', 'kind'] as const) {
        if (route[name] !== '') query.set(name, route[name]);
      }
      const text = query.toString();
      return '#/waiting' + (text === '' ? '' : '?' + text);
    }
    case 'unknown': return '#/profiles';
  }
  return '#/' + route.view;
}

/** podLink returns the address of a pod's page for namespace/name. */
export function podLink(key: string): string {
  const at = key.indexOf('/');
  return format({ view: 'pod', namespace: key.slice(0, at), name: key.slice(at + 1) });
}

export const profileLink = (name: string): string => format({ view: 'profile', name });

export const waitingLink = (profile: string): string =>
  format({ view: 'waiting', profile, namespace: '', text: '', kind: '' });

/** title is the document's title for a route. */
export function title(route: Route): string {
  switch (route.view) {
    case 'profiles': return 'Profiles';
    case 'profile': return `Profile ${route.name}`;
    case 'waiting': return 'Waiting pods';
    case 'pod': return `Pod ${route.namespace}/${route.name}`;
    case 'map': return 'Map of the nodes';
    case 'try': return 'Try a manifest';
    case 'compare': return `Compare revisions of ${route.name}`;
  }
  return 'Page not found';
}
