// Light and dark: the system's choice, or the reader's, which is kept.

export type Theme = 'auto' | 'light' | 'dark';

const storageKey = 'berth-theme';
const listeners = new Set<() => void>();

let current: Theme = 'auto';

export function initTheme(): void {
  try {
    const kept = localStorage.getItem(storageKey);
    if (kept === 'light' || kept === 'dark') current = kept;
  } catch {
    // Without storage the choice lasts as long as the page.
  }
  apply();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', notify);
}

function apply(): void {
  if (current === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = current;
  notify();
}

function notify(): void {
  for (const listener of listeners) listener();
}

export const theme = (): Theme => current;

export function setTheme(next: Theme): void {
  current = next;
  try {
    if (next === 'auto') localStorage.removeItem(storageKey);
    else localStorage.setItem(storageKey, next);
  } catch {
    // As above.
  }
  apply();
}

/** onTheme calls f when the colours change. It returns a function that ends that. */
export function onTheme(f: () => void): () => void {
  listeners.add(f);
  return () => listeners.delete(f);
}

/** colours resolves custom properties to colours that a canvas takes. */
export function colours<Name extends string>(names: readonly Name[]): Record<Name, string> {
  const probe = document.createElement('span');
  probe.hidden = true;
  document.body.append(probe);
  const out = {} as Record<Name, string>;
  for (const name of names) {
    probe.style.color = `var(--${name})`;
    out[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return out;
}

export const reducedMotion = (): boolean => matchMedia('(prefers-reduced-motion: reduce)').matches;
