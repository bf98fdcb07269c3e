// The keys of the page.

export const keys: { keys: string[]; does: string }[] = [
  { keys: ['/'], does: 'go to the filter of the view' },
  { keys: ['g', 'p'], does: 'go to Profiles' },
  { keys: ['g', 'w'], does: 'go to Waiting' },
  { keys: ['g', 'm'], does: 'go to Map' },
  { keys: ['g', 't'], does: 'go to Try' },
  { keys: ['?'], does: 'show these keys' },
  { keys: ['Esc'], does: 'close what is open, leave the filter' },
  { keys: ['← ↑ → ↓'], does: 'on the map: go to the next node' },
  { keys: ['Enter'], does: 'on the map: go to the pods of the node' },
];

const views: Record<string, string> = { p: '#/profiles', w: '#/waiting', m: '#/map', t: '#/try' };

/** goTimeout is how long g waits for the second key, in ms. */
const goTimeout = 1500;

function editing(target: EventTarget | null): target is HTMLElement {
  return target instanceof HTMLElement && (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName));
}

export function listenForKeys(showHelp: () => void): void {
  let goAt = -Infinity;
  addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (editing(event.target)) {
      if (event.key === 'Escape') event.target.blur();
      return;
    }
    if (document.querySelector('dialog[open]')) return;
    const going = event.timeStamp - goAt < goTimeout;
    goAt = -Infinity;
    if (going && Object.hasOwn(views, event.key)) {
      event.preventDefault();
      location.hash = views[event.key];
      return;
    }
    switch (event.key) {
      case 'g':
        goAt = event.timeStamp;
        break;
      case '?':
        event.preventDefault();
        showHelp();
        break;
      case '/': {
        const filter = document.querySelector<HTMLInputElement>('[data-filter]');
        if (!filter) break;
        event.preventDefault();
        filter.focus();
        filter.select();
      }
    }
  });
}
