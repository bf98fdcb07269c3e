// Changes appear as they happen; announcements, theme, motion, print.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { go, launch, open } from '../browser.mjs';
import { pendingPod, small, waiting } from '../data.mjs';
import { start } from '../fixture.mjs';

let browser, fixture;
before(async () => { browser = await launch(); fixture = await start(small()); });
after(async () => { await browser?.close(); await fixture?.close(); });

test('a pod that waits appears, and leaves when it is bound', async () => {
  const { page, close } = await open(browser, fixture, '#/waiting?text=late');
  await page.getByText('No waiting pod matches the filter').waitFor();
  fixture.delta({ pods: [pendingPod('shop/late-0')], decisions: [waiting('shop/late-0')] });
  await page.locator('.group').first().waitFor();
  await page.waitForFunction(() => /\d+ pods waiting/.test(document.getElementById('announcements').textContent), null, { timeout: 8000 });
  fixture.delta({ pods: [{ ...pendingPod('shop/late-0'), node: 'n3', phase: 'Running' }], gone: { decisions: ['shop/late-0'] } });
  await page.getByText('No waiting pod matches the filter').waitFor();
  await close();
});

test('counts are announced at most every 5 s', async () => {
  const { page, close } = await open(browser, fixture, '#/waiting');
  await page.evaluate(() => {
    window.said = [];
    new MutationObserver(() => window.said.push([performance.now(), document.getElementById('announcements').textContent])).observe(document.getElementById('announcements'), { childList: true, characterData: true, subtree: true });
  });
  for (let i = 0; i < 14; i++) {
    fixture.delta({ pods: [pendingPod(`shop/count-${i}`)] });
    await page.waitForTimeout(500);
  }
  const said = await page.evaluate(() => window.said);
  assert.ok(said.length >= 1 && said.length <= 3, JSON.stringify(said));
  for (let i = 1; i < said.length; i++) assert.ok(said[i][0] - said[i - 1][0] > 4500, JSON.stringify(said));
  await close();
});

test('the theme is the system’s until the reader chooses, and is kept', async () => {
  const { page, close } = await open(browser, fixture, '#/profiles', { scheme: 'dark' });
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await background();
  await page.locator('[data-theme-switch]').click();
  const light = await background();
  assert.notEqual(light, dark);
  await page.reload();
  await page.locator('.top').getByText('Live').waitFor();
  assert.equal(await background(), light);
  await page.locator('[data-theme-switch]').click();
  await page.locator('[data-theme-switch]').click();
  assert.equal(await page.evaluate(() => localStorage.getItem('berth-theme')), null);
  await close();
});

test('the map marks a bind, but not with reduced motion', async () => {
  for (const motion of ['no-preference', 'reduce']) {
    const { page, close } = await open(browser, fixture, '#/map', { motion });
    await page.waitForTimeout(300);
    const shot = () => page.locator('.tiles canvas').evaluate((canvas) => canvas.toDataURL());
    const pod = { ...pendingPod(`shop/flash-${motion}`), node: 'n2', phase: 'Running', cpu: 0, memory: 0 };
    const before = await shot();
    fixture.delta({ pods: [pod] });
    await page.waitForTimeout(350);
    const marked = await shot();
    await page.waitForTimeout(1600);
    assert.equal(await shot(), before, 'the mark goes');
    assert.equal(marked !== before, motion === 'no-preference');
    await close();
  }
});

test('the legend of the map has a profile whose first pod is bound', async () => {
  const { page, close } = await open(browser, fixture, '#/map');
  await page.getByLabel('Colour by').selectOption('profile');
  const legend = page.getByRole('list', { name: 'Legend' });
  await legend.getByText('batch').waitFor();
  assert.equal(await legend.getByText('fresh').count(), 0);
  fixture.delta({ pods: [{ ...pendingPod('shop/first-0'), profile: 'fresh', node: 'n2', phase: 'Running', cpu: 0, memory: 0 }] });
  await legend.getByText('fresh').waitFor({ timeout: 10000 });
  fixture.delta({ gone: { pods: ['shop/first-0'] } });
  await legend.getByText('fresh').waitFor({ state: 'detached', timeout: 10000 });
  await close();
});

test('hovering a tile shows its node', async () => {
  const { page, close } = await open(browser, fixture, '#/map');
  await page.locator('.tiles canvas').hover({ position: { x: 20, y: 40 } });
  await page.locator('.card').getByRole('heading', { name: 'n1', exact: true }).waitFor();
  await page.locator('.tiles canvas').click({ position: { x: 20, y: 40 } });
  await page.mouse.move(5, 5);
  await page.locator('.card').getByRole('heading', { name: 'n1', exact: true }).waitFor();
  await close();
});

test('a print has all rows of a table', async () => {
  const { page, close } = await open(browser, fixture, '#/map');
  await page.getByRole('table', { name: 'Nodes' }).waitFor();
  await page.setViewportSize({ width: 1440, height: 500 });
  await page.evaluate(() => {
    addEventListener('beforeprint', () => { window.printedRows = document.querySelectorAll('.nodes .v-row').length; });
  });
  await page.waitForFunction(() => document.querySelectorAll('.nodes .v-row').length < 24);
  await page.pdf({ format: 'A4' });
  assert.equal(await page.evaluate(() => window.printedRows), 24);
  await page.waitForFunction(() => document.querySelectorAll('.nodes .v-row').length < 24);
  await close();
});

test('a pod has its nominated node and its queue of Kueue, a node its instance type', async () => {
  const { page, close } = await open(browser, fixture, '#/map');
  await page.locator('.tiles canvas').hover({ position: { x: 20, y: 40 } });
  await page.locator('.card-facts').getByText('m6.4xlarge').waitFor();
  for (const [pod, fact, value] of [['preempts-0', 'Nominated node', 'n9'], ['quota-0', 'Kueue queue', 'team-a']]) {
    await go(page, `#/pods/shop/${pod}`);
    await page.locator('.facts').getByText(fact, { exact: true }).waitFor();
    assert.equal(await page.locator('.facts dd', { has: page.getByText(value, { exact: true }) }).count(), 1);
  }
  await close();
});

test('two revisions are chosen and compared', async () => {
  const { page, close } = await open(browser, fixture, '#/profiles/batch');
  await page.getByRole('radio', { name: 'Compare from revision 3' }).check();
  await page.getByRole('radio', { name: 'Compare to the spec' }).check();
  await page.getByRole('link', { name: 'Compare c41d09be77 with spec' }).click();
  await page.getByText('queue.maxBackoff: 1m0s').waitFor();
  await page.getByRole('button', { name: 'Swap' }).click();
  await page.waitForFunction(() => location.hash === '#/compare/batch/spec/c41d09be77');
  await close();
});

test('on paper there are no controls, and the text is dark on white', async () => {
  const { page, close } = await open(browser, fixture, '#/profiles', { scheme: 'dark' });
  await page.emulateMedia({ media: 'print' });
  for (const route of ['#/profiles', '#/waiting', '#/profiles/batch']) {
    await go(page, route);
    assert.equal(await page.locator('.top').isVisible(), false);
    assert.equal(await page.locator('.filters, .group .open').filter({ visible: true }).count(), 0);
    const { ink, back } = await page.evaluate(() => ({ ink: getComputedStyle(document.body).color, back: getComputedStyle(document.body).backgroundColor }));
    assert.equal(back, 'rgb(255, 255, 255)');
    assert.equal(ink, 'rgb(20, 32, 43)');
  }
  assert.ok((await page.pdf({ format: 'A4' })).length > 10000);
  await close();
});
