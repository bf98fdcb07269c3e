// The whole page with the keyboard alone.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { go, launch, open } from '../browser.mjs';
import { small } from '../data.mjs';
import { start } from '../fixture.mjs';

let browser, fixture;
before(async () => { browser = await launch(); fixture = await start(small()); });
after(async () => { await browser?.close(); await fixture?.close(); });

const active = (page) => page.evaluate(() => {
  const e = document.activeElement;
  return `${e.tagName} ${e.getAttribute('aria-label') ?? e.textContent.trim().slice(0, 60)}`;
});
const hash = (page) => page.evaluate(() => location.hash);

test('skip link, views, filter, keys', async () => {
  const { page, problems, close } = await open(browser, fixture, '#/profiles');
  await page.keyboard.press('Tab');
  assert.match(await active(page), /Skip to the content/);
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
  assert.equal(await hash(page), '#/profiles', 'the skip link does not change the route');
  for (const [keys, route] of [['gw', '#/waiting'], ['gm', '#/map'], ['gt', '#/try'], ['gp', '#/profiles']]) {
    for (const key of keys) await page.keyboard.press(key);
    await page.waitForFunction((expected) => location.hash === expected, route);
    await page.waitForFunction((view) => document.title.startsWith(view) && document.activeElement.tagName === 'H1', { '#/waiting': 'Waiting', '#/map': 'Map', '#/try': 'Try', '#/profiles': 'Profiles' }[route]);
  }
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.hasAttribute('data-filter')), true);
  await page.keyboard.type('gp?refused');
  assert.equal(await page.locator('dialog[open]').count(), 0, 'keys are text in a field');
  await page.locator('main').getByText('No profile matches the filter').waitFor();
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => document.activeElement.hasAttribute('data-filter')), false);
  await page.keyboard.press('?');
  await page.locator('dialog[open]').waitFor();
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => !document.querySelector('dialog[open]'));
  assert.deepEqual(problems, []);
  await close();
});

test('every control is reached with Tab and shows that it has the focus', async () => {
  const { page, close } = await open(browser, fixture, '#/profiles');
  for (const route of ['#/profiles', '#/profiles/batch', '#/waiting', '#/map', '#/try', '#/compare/batch/07aac0a95a/9f3c1a2b4d']) {
    await go(page, route);
    const wanted = await page.evaluate(() => {
      const all = [...document.querySelectorAll('main a[href], main button:not(:disabled), main input:not([tabindex="-1"]), main select, main textarea')].filter((e) => e.checkVisibility() && !e.closest('.virtual')); // rows come and go while they scroll
      const groups = new Set();
      return all.filter((e) => e.type !== 'radio' || (e.checked && !groups.has(e.name) && groups.add(e.name))).length;
    });
    await page.evaluate(() => document.querySelector('main h1').focus());
    const seen = new Set(), blind = [];
    for (let i = 0; i < wanted + 40; i++) {
      await page.keyboard.press('Tab');
      const at = await page.evaluate(() => {
        const e = document.activeElement;
        if (!e.closest('main')) return null;
        const style = getComputedStyle(e), known = window.reached ??= [];
        if (!known.includes(e)) known.push(e);
        return { id: known.indexOf(e), control: e.matches('a[href], button, input, select, textarea') && !e.closest('.virtual'), outline: style.outlineStyle !== 'none', text: e.textContent.slice(0, 40) };
      });
      if (!at) break;
      if (at.control) seen.add(at.id);
      if (!at.outline) blind.push(at.text);
    }
    assert.ok(seen.size >= wanted, `${route}: ${seen.size} of ${wanted} controls reached`);
    assert.deepEqual(blind, [], `${route}: no focus ring`);
  }
  await close();
});

test('a group opens, a pod is reached, the matrix is computed', async () => {
  const { page, close } = await open(browser, fixture, '#/waiting');
  const button = page.locator('.group .open').first();
  await button.focus();
  await page.keyboard.press('Enter');
  await page.locator('.waiting-pods').waitFor();
  assert.equal(await button.getAttribute('aria-expanded'), 'true');
  let link = null;
  for (let i = 0; i < 5 && !/^#\/pods/.test(link ?? ''); i++) {
    await page.keyboard.press('Tab');
    link = await page.evaluate(() => document.activeElement.getAttribute('href'));
  }
  assert.match(link ?? '', /^#\/pods\/train\//);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Why it waits' }).waitFor();
  await page.getByRole('button', { name: 'Evaluate now' }).focus();
  await page.keyboard.press('Enter');
  await page.locator('.matrix').waitFor();
  await close();
});

test('the map with arrow keys', async () => {
  const { page, close } = await open(browser, fixture, '#/map');
  await page.locator('.tiles').focus();
  await page.keyboard.press('ArrowRight');
  await page.locator('.card').getByRole('heading', { name: 'n1', exact: true }).waitFor();
  assert.match(await page.locator('#announcements').innerText(), /^n1, zone-a, CPU .*requested, \d+ pods?, ready$/);
  await page.keyboard.press('End');
  await page.locator('.card').getByRole('heading', { name: 'n24', exact: true }).waitFor();
  await page.keyboard.press('Home');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Node n1');
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => document.activeElement.classList.contains('tiles')), true);
  assert.match(await page.locator('.card').innerText(), /Point at a tile/);
  await close();
});
