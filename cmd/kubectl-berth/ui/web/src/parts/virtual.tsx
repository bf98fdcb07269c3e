// A table of which only the visible rows exist. Rows have one height.
import { options, type ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { number } from '../format';

const overscan = 8;

/** printed is how many rows a print has at most: about 25 pages. */
const printed = 1000;

export interface VirtualProps {
  label: string;
  count: number;
  rowHeight: number;
  /** columns is how many columns the table has. */
  columns: number;
  head: ComponentChildren;
  headHeight: number;
  /** row renders the cells of row i, each with role cell or rowheader. */
  row: (i: number) => ComponentChildren;
  rowKey: (i: number) => string;
  rowClass?: (i: number) => string;
  class?: string;
  /** minWidth is the least width of the table, in CSS pixels; without it the table is as wide as its head. */
  minWidth?: number;
  /** show scrolls to a row when it changes. */
  show?: number;
}

/** usePrinting returns whether the page is being printed. */
function usePrinting(): boolean {
  const [printing, setPrinting] = useState(false);
  useEffect(() => {
    // The browser lays out the page as soon as the handler returns.
    const now = (value: boolean): void => {
      const before = options.debounceRendering;
      options.debounceRendering = (render) => render();
      setPrinting(value);
      options.debounceRendering = before;
    };
    const begin = (): void => now(true), end = (): void => now(false);
    addEventListener('beforeprint', begin);
    addEventListener('afterprint', end);
    return () => {
      removeEventListener('beforeprint', begin);
      removeEventListener('afterprint', end);
    };
  }, []);
  return printing;
}

/** VirtualTable is a table in a box that scrolls both ways. Its class sets the box's height and the columns. */
export function VirtualTable(props: VirtualProps) {
  const { count, rowHeight, headHeight } = props;
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  useLayoutEffect(() => {
    const element = box.current!;
    let frame = 0;
    const read = (): void => {
      frame = 0;
      const top = element.scrollTop, height = element.clientHeight;
      setView((v) => v.height === height && Math.floor(v.top / rowHeight) === Math.floor(top / rowHeight) ? v : { top, height });
    };
    const later = (): void => { frame ||= requestAnimationFrame(read); };
    const resized = new ResizeObserver(later);
    resized.observe(element);
    element.addEventListener('scroll', later, { passive: true });
    return () => {
      cancelAnimationFrame(frame);
      resized.disconnect();
      element.removeEventListener('scroll', later);
    };
  }, [rowHeight]);
  const { show } = props;
  useEffect(() => {
    const element = box.current;
    if (show === undefined || show < 0 || !element) return;
    const top = show * rowHeight, space = element.clientHeight - headHeight - rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top > element.scrollTop + space) element.scrollTop = top - space;
  }, [show, rowHeight, headHeight]);
  const printing = usePrinting();
  const first = printing ? 0 : Math.max(0, Math.floor(view.top / rowHeight) - overscan);
  const last = Math.min(count, printing ? printed : Math.ceil((view.top + view.height) / rowHeight) + overscan);
  const rows = [];
  for (let i = first; i < last; i++) {
    rows.push(
      <div key={props.rowKey(i)} class={'v-row ' + (props.rowClass?.(i) ?? '')} role="row" aria-rowindex={i + 2}
        style={{ transform: `translateY(${i * rowHeight}px)`, height: `${rowHeight}px` }}>
        {props.row(i)}
      </div>,
    );
  }
  return (
    <div ref={box} class={`virtual scroll ${props.class ?? ''}`} role="group" aria-label={props.label} tabIndex={0}>
      <div role="table" aria-label={props.label} aria-rowcount={count + 1} aria-colcount={props.columns} class="v-table" style={props.minWidth === undefined ? undefined : { width: '100%', minWidth: `${props.minWidth}px` }}>
        <div role="rowgroup" class="v-head"><div role="row" aria-rowindex={1} class="v-row-head" style={{ height: `${headHeight}px` }}>{props.head}</div></div>
        <div role="rowgroup" class="v-body" style={{ height: `${count * rowHeight}px` }}>{rows}</div>
      </div>
      {printing && last < count && <p class="muted">and {number(count - last)} more rows</p>}
    </div>
  );
}
