// The nodes by zone, each filled by what its pods request.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { announce, store, useTopics } from '../app-context';
import { amount, count, number, percent } from '../format';
import { MapCanvas, palette, rampSteps, type ColourBy, type Options } from '../map/canvas';
import { next } from '../map/layout';
import { capacity, keepFirst, profilesByPods, resources, share, stateOf, used } from '../map/resource';
import { PageHead } from '../parts/basics';
import { Empty, NoRight, NotSynced, notesAbout } from '../parts/states';
import { onTheme } from '../theme';
import { NodeCard } from './node-card';
import { NodeTable } from './node-table';

const resourceName = (resource: string): string => resource === 'cpu' ? 'CPU' : resource === 'memory' ? 'Memory' : resource === 'pods' ? 'Pods' : resource === 'devices' ? 'Devices' : resource;

// The choices are kept while the page is open.
const chosen: { resource: string; colourBy: ColourBy } = { resource: 'cpu', colourBy: 'fill' };

export function MapView() {
  useTopics(['connection', 'notes'], 500);
  useTopics(['nodes'], 1000);
  if (!store.synced || store.nodes.size === 0) {
    const notes = notesAbout('node');
    return (
      <>
        <PageHead title="Map" />
        {!store.synced ? <NotSynced what="the nodes" /> : (
          <Empty title="No nodes to show">{notes.length > 0 ? <NoRight notes={notes} /> : <p>The cluster has no node. Nodes appear here as they join.</p>}</Empty>
        )}
      </>
    );
  }
  return <NodeMap />;
}

function NodeMap() {
  const [resource, setResource] = useState(chosen.resource), [colourBy, setColourBy] = useState<ColourBy>(chosen.colourBy);
  const [text, setText] = useState(''), [selected, setSelected] = useState(''), [hovered, setHovered] = useState('');
  const nodesVersion = store.version('nodes');
  const choices = useMemo(() => resources(store.nodes.values()), [nodesVersion]);
  const shownResource = choices.includes(resource) ? resource : 'cpu';
  const words = text.toLowerCase().split(/\s+/).filter((word) => word !== '');
  const match = (name: string): boolean => {
    if (words.length === 0) return true;
    const node = store.nodes.get(name);
    const all = node ? `${name} ${node.zone} ${stateOf(node)} ${(node.taints ?? []).join(' ')}`.toLowerCase() : name;
    return words.every((word) => all.includes(word));
  };
  useTopics(['usage'], 2000);
  const shown = useRef<string[]>([]), usageVersion = store.version('usage');
  const profiles = useMemo(() => shown.current = keepFirst(palette, shown.current, profilesByPods(store).map(([name]) => name)), [nodesVersion, usageVersion, colourBy]);
  const options: Options = { resource: shownResource, colourBy, profiles, match };
  const card = useRef<HTMLElement>(null), box = useRef<HTMLDivElement>(null);
  const active = hovered || selected;
  return (
    <>
      <PageHead title="Map" lead={<Summary resource={shownResource} />}>
        <label class="field"><span>Fill by</span>
          <select value={shownResource} onChange={(e) => setResource(chosen.resource = e.currentTarget.value)}>
            {choices.map((name) => <option key={name} value={name}>{resourceName(name)}</option>)}
          </select>
        </label>
        <label class="field"><span>Colour by</span>
          <select value={colourBy} onChange={(e) => setColourBy(chosen.colourBy = e.currentTarget.value as ColourBy)}>
            <option value="fill">Fill</option><option value="profile">Profile with most pods</option>
          </select>
        </label>
        <label class="field"><span>Node, zone, taint or state</span>
          <input type="search" data-filter placeholder="Filter  /" value={text} onInput={(e) => setText(e.currentTarget.value)} />
        </label>
      </PageHead>
      <div class="map">
        <div class="map-main panel">
          <Legend colourBy={colourBy} profiles={profiles} />
          <Tiles options={options} optionsKey={`${shownResource} ${colourBy} ${text} ${profiles.slice(0, palette).join(' ')}`} boxRef={box}
            selected={selected} hover={setHovered} select={(name) => setSelected(name)} enter={() => card.current?.focus()} />
        </div>
        <div class="map-side">
          <NodeCard name={active} resource={shownResource} cardRef={card} pinned={selected !== '' && active === selected}
            close={() => { setSelected(''); setHovered(''); box.current?.focus(); }} />
          <NodeTable resource={shownResource} match={match} matchKey={text} selected={selected} select={setSelected} />
        </div>
      </div>
    </>
  );
}

function Summary({ resource }: { resource: string }) {
  useTopics(['nodes', 'usage'], 1000);
  let all = 0, sum = 0, pods = 0, away = 0;
  for (const node of store.nodes.values()) {
    all += capacity(node, resource);
    const usage = store.usage.get(node.name);
    sum += used(usage, resource);
    pods += usage?.pods ?? 0;
    if (node.cordoned || !node.ready) away++;
  }
  return (
    <>
      {count(store.nodes.size, 'node')}, {count(pods, 'bound pod')}; {resourceName(resource)}: {amount(resource, sum)} of {amount(resource, all)} requested, {percent(sum / all)}
      {away > 0 && <>; {number(away)} cordoned or not ready</>}.
    </>
  );
}

function Legend({ colourBy, profiles }: { colourBy: ColourBy; profiles: string[] }) {
  return (
    <ul class="legend map-legend" aria-label="Legend">
      {colourBy === 'fill'
        ? Array.from({ length: rampSteps }, (_, i) => <li key={i}><i class={`swatch ramp-${i + 1}`} aria-hidden="true" />{i === 0 ? 'up to 20 %' : `${i * 20}–${(i + 1) * 20} %`}</li>)
        : (
          <>
            {profiles.slice(0, palette).map((name, i) => <li key={name}><i class={`swatch cat-${i + 1}`} aria-hidden="true" />{name}</li>)}
            {profiles.length > palette && <li><i class="swatch cat-other" aria-hidden="true" />{count(profiles.length - palette, 'other profile')}</li>}
          </>
        )}
      <li><i class="swatch over" aria-hidden="true" />over 100 %</li>
      <li><i class="swatch striped" aria-hidden="true" />cordoned</li>
      <li><i class="swatch crossed" aria-hidden="true" />not ready</li>
    </ul>
  );
}

interface TilesProps {
  options: Options; optionsKey: string; boxRef: { current: HTMLDivElement | null }; selected: string;
  hover: (name: string) => void; select: (name: string) => void; enter: () => void;
}

const arrows = new Set(['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End']);

function Tiles({ options, optionsKey, boxRef, selected, hover, select, enter }: TilesProps) {
  const canvas = useRef<HTMLCanvasElement>(null), ring = useRef<HTMLDivElement>(null), map = useRef<MapCanvas | null>(null);
  const [placed, setPlaced] = useState(0);
  useLayoutEffect(() => {
    const drawn = map.current = new MapCanvas(canvas.current!, store, options);
    const element = boxRef.current!;
    const place = (): void => {
      drawn.place(element.clientWidth, Math.max(300, innerHeight - 270));
      setPlaced((n) => n + 1);
    };
    place();
    let frame = 0;
    const resized = new ResizeObserver(() => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        if (element.clientWidth !== drawn.layout.width) place();
      });
    });
    resized.observe(element);
    const ends = [
      onTheme(() => drawn.themeChanged()),
      store.watchNodes((names, bound) => { if (drawn.changed(names, bound) || names === 'all') setPlaced((n) => n + 1); }),
      () => resized.disconnect(), () => cancelAnimationFrame(frame), () => drawn.destroy(),
    ];
    return () => { for (const end of ends) end(); };
  }, []);
  useEffect(() => map.current?.setOptions(options), [optionsKey]);
  useLayoutEffect(() => {
    const element = ring.current!, l = map.current?.layout, tile = l?.tiles.get(selected);
    element.hidden = !tile;
    if (!tile || !l) return;
    element.style.transform = `translate(${tile.x - 3}px, ${tile.y - 3}px)`;
    element.style.width = element.style.height = `${l.size + 6}px`;
  }, [selected, placed]);
  const over = (e: MouseEvent): string => map.current?.at(e.offsetX, e.offsetY) ?? '';
  const key = (e: KeyboardEvent): void => {
    const drawn = map.current;
    if (!drawn || e.ctrlKey || e.metaKey || e.altKey) return;
    if (arrows.has(e.key)) {
      e.preventDefault();
      const name = next(drawn.layout, selected, e.key);
      select(name);
      announce(words(name, options.resource));
      const tile = drawn.layout.tiles.get(name);
      if (tile) keepVisible(canvas.current!, tile.y, drawn.layout.pitch);
    } else if (e.key === 'Enter' && selected !== '') {
      e.preventDefault();
      enter();
    } else if (e.key === 'Escape') {
      select('');
    }
  };
  return (
    <div ref={boxRef} class="tiles" role="application" tabIndex={0} onKeyDown={key}
      aria-label={`Map of ${count(store.nodes.size, 'node')}. Arrow keys go from node to node, Enter goes to the card of the node. The table has the same data.`}>
      <canvas ref={canvas} aria-hidden="true" onPointerMove={(e) => hover(over(e))} onPointerLeave={() => hover('')} onClick={(e) => select(over(e))} />
      <div ref={ring} class="ring" hidden />
    </div>
  );
}

function words(name: string, resource: string): string {
  const node = store.nodes.get(name);
  if (!node) return name;
  return `${name}, ${node.zone || 'no zone'}, ${resourceName(resource)} ${percent(share(store, node, resource))} requested, ${count(store.usage.get(name)?.pods ?? 0, 'pod')}, ${stateOf(node)}`;
}

function keepVisible(canvas: HTMLCanvasElement, y: number, size: number): void {
  const top = canvas.getBoundingClientRect().top + y;
  if (top < 80) scrollBy(0, top - 80);
  else if (top + size > innerHeight - 20) scrollBy(0, top + size - innerHeight + 20);
}
