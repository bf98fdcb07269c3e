// Each view in light and dark, wide and narrow: nothing is refused or requested elsewhere, no
// sideways scrolling of the page, and axe finds nothing.
import { AxeBuilder } from '@axe-core/playwright';
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { go, launch, open, views } from '../browser.mjs';
import { small } from '../data.mjs';
import { start } from '../fixture.mjs';

let browser, fixture;
before(async () => { browser = await launch(); fixture = await start(small()); });
after(async () => { await browser?.close(); await fixture?.close(); });

async function prepare(page, name) {
  if (name === 'waiting') {
    await page.locator('.group .open').first().click();
    await page.locator('.waiting-pods').waitFor();
  }
  if (name.startsWith('pod-')) {
    await page.getByRole('button', { name: 'Evaluate now' }).click();
    await page.locator('.matrix').waitFor();
  }
  if (name === 'map') {
    await page.locator('.tiles').focus();
    await page.keyboard.press('ArrowRight');
    await page.locator('.card .card-pods').waitFor();
    await page.locator('.tiles').blur();
  }
  if (name === 'try') {
    await page.getByRole('button', { name: 'Example' }).click();
    await page.getByRole('button', { name: 'Try it' }).click();
    await page.locator('.result-title').waitFor();
  }
}

async function axe(page) {
  const { violations } = await new AxeBuilder({ page }).withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']).analyze();
  return violations.map((v) => `${v.id}: ${v.nodes.slice(0, 4).map((n) => `${n.target.join(' ')} (${(n.any[0] ?? n.all[0] ?? n.none[0])?.message ?? ''})`).join('; ')}`);
}

// BERTH_UI_SOME leaves out three of the four.
for (const [scheme, widths] of process.env.BERTH_UI_SOME ? [['dark', [390]]] : [['light', [1440, 390]], ['dark', [1440, 390]]]) {
  for (const width of widths) {
    test(`views, ${scheme}, ${width} px`, async () => {
      const { page, problems, outside, close } = await open(browser, fixture, '#/profiles', { width, height: 900, scheme });
      const found = [];
      for (const [name, route] of views) {
        await go(page, route);
        await prepare(page, name);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        if (wide > 0) found.push(`${name}: the page scrolls sideways by ${wide} px`);
        const cut = await page.evaluate(() => [...document.querySelectorAll('.scroll:has(> table.blocks, > table.scores)')].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.getAttribute('aria-label')));
        if (width === 390 && cut.length > 0) found.push(`${name}: cut off: ${cut.join(', ')}`);
        const broken = await page.evaluate(() => [...document.querySelectorAll('.blocks tbody th.name, .nodes .link')].filter((e) => e.getClientRects().length > 1 || e.offsetHeight > 34 || e.scrollWidth > e.parentElement.clientWidth).map((e) => e.textContent));
        const clipped = await page.evaluate(() => [...document.querySelectorAll('.v-row-head [role="columnheader"]')].filter((e) => e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent));
        if (clipped.length > 0) found.push(`${name}: heads of columns that are cut off: ${clipped.join(', ')}`);
        const long = await page.evaluate(() => [...new Set([...document.querySelectorAll('.blocks td')].map((e) => e.dataset.label).filter((label) => label.length > 10))]);
        if (long.length > 0) found.push(`${name}: labels that cover their values on a phone: ${long.join(', ')}`);
        if (broken.length > 0) found.push(`${name}: names that are broken or cut: ${broken.join(', ')}`);
        for (const violation of await axe(page)) found.push(`${name}: axe: ${violation}`);
      }
      await close();
      assert.deepEqual(found, []);
      assert.deepEqual(problems, []);
      assert.deepEqual(outside, []);
    });
  }
}
