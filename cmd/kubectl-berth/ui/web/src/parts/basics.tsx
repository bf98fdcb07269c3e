// Small parts of every view: times, chips, sections, lists of facts.
import { Fragment, type ComponentChildren, type JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { everySecond } from '../app-context';
import { absolute, age } from '../format';

export type Tone = 'ok' | 'warn' | 'bad' | 'info' | 'quiet';

/** Chip is a state in a word, with a sign that does not depend on colour. */
export function Chip({ tone, children, title }: { tone: Tone; children: ComponentChildren; title?: string }) {
  return <span class={`chip ${tone}`} title={title}><Sign tone={tone} />{children}</span>;
}

const signs: Record<Tone, JSX.Element> = {
  ok: <path d="M2.500 6.500 5 9l4.500-6" />,
  warn: <path d="M6 2.500v4.500M6 9.250v.250" />,
  bad: <path d="m3 3 6 6M9 3 3 9" />,
  info: <path d="M6 5.500v4M6 2.750v.250" />,
  quiet: <path d="M3 6h6" />,
};

export function Sign({ tone }: { tone: Tone }) {
  return <svg class="sign" viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">{signs[tone]}</svg>;
}

/** Ago shows how long ago a time was; the absolute time is in its title. It changes its own text. */
export function Ago({ time, suffix = ' ago', none = 'none' }: { time: string | null | undefined; suffix?: string; none?: string }) {
  const ref = useRef<HTMLTimeElement>(null);
  const text = (): string => age(time, Date.now()) + suffix;
  useEffect(() => everySecond(() => {
    const element = ref.current, next = age(time, Date.now()) + suffix;
    if (element && element.firstChild && element.firstChild.nodeValue !== next) element.firstChild.nodeValue = next;
  }), [time, suffix]);
  if (!time || Number.isNaN(Date.parse(time))) return <span class="muted">{none}</span>;
  return <time ref={ref} dateTime={time} title={absolute(time)}>{text()}</time>;
}

/** Message is a text of the cluster, as it is. */
export function Message({ text, tone }: { text: string; tone?: Tone }) {
  return <p class={'message' + (tone ? ` ${tone}` : '')}>{text}</p>;
}

export function Section({ title, children, aside, wide, id }: {
  title: string; children: ComponentChildren; aside?: ComponentChildren; wide?: boolean; id?: string;
}) {
  const name = id ?? title.toLowerCase().replace(/[^a-z]+/g, '-');
  return (
    <section class={'panel' + (wide ? ' wide' : '')} aria-labelledby={`h-${name}`}>
      <header class="panel-head"><h2 id={`h-${name}`}>{title}</h2>{aside}</header>
      {children}
    </section>
  );
}

/** Facts is a list of names and values; empty values are left out. */
export function Facts({ facts }: { facts: [name: string, value: ComponentChildren][] }) {
  return (
    <dl class="facts">
      {facts.filter(([, value]) => value !== '' && value !== null && value !== undefined && value !== false).map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
      ))}
    </dl>
  );
}

/** Scroll is a box that scrolls by itself, also with the keyboard. */
export function Scroll({ label, children, class: name = '' }: { label: string; children: ComponentChildren; class?: string }) {
  return <div class={`scroll ${name}`} role="group" aria-label={label} tabIndex={0}>{children}</div>;
}

export interface Column { name: string; class?: string; /** hidden: the name is for screen readers only. */ hidden?: boolean }

/** DataTable is a table of which each row becomes a block of named values on narrow screens. The first cell is the head of its row if heads is set. */
export function DataTable({ label, columns, rows, heads, class: name = '' }: {
  label: string; columns: Column[]; rows: { key: string; class?: string; cells: ComponentChildren[] }[]; heads?: boolean; class?: string;
}) {
  return (
    <Scroll label={label} class={name}>
      <table class="blocks" role="table">
        <thead role="rowgroup"><tr role="row">
          {columns.map((c) => <th key={c.name} role="columnheader" scope="col" class={c.class}>{c.hidden ? <span class="sr">{c.name}</span> : c.name}</th>)}
        </tr></thead>
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr key={row.key} role="row" class={row.class}>
              {row.cells.map((cell, i) => {
                const c = columns[i], shared = { class: c.class, 'data-label': c.hidden ? '' : c.name };
                return i === 0 && heads ? <th key={c.name} role="rowheader" scope="row" {...shared}>{cell}</th> : <td key={c.name} role="cell" {...shared}>{cell}</td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

/** PageHead is the heading of a view. */
export function PageHead({ title, children, lead }: { title: ComponentChildren; children?: ComponentChildren; lead?: ComponentChildren }) {
  return (
    <header class="page-head">
      <div><h1 tabIndex={-1}>{title}</h1>{lead && <p class="lead">{lead}</p>}</div>
      {children && <div class="page-tools">{children}</div>}
    </header>
  );
}

/** PluginName shows the name of a plugin, which may be broken before a capital letter where it is too long. */
export function PluginName({ name }: { name: string }) {
  return <>{name.split(/(?<=[a-z0-9])(?=[A-Z])/).map((part, i) => <Fragment key={i}>{i > 0 && <wbr />}{part}</Fragment>)}</>;
}

/** Copy copies a text, and says so. */
export function Copy({ text, label }: { text: string; label: string }) {
  const ref = useRef<HTMLButtonElement>(null);
  const copy = (): void => {
    void navigator.clipboard.writeText(text).then(
      () => say('Copied'),
      () => say('Copying is not allowed'),
    );
  };
  const say = (words: string): void => {
    const button = ref.current;
    if (!button) return;
    button.textContent = words;
    setTimeout(() => { button.textContent = label; }, 1500);
  };
  return <button ref={ref} type="button" class="small" onClick={copy}>{label}</button>;
}
