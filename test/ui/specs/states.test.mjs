// Loading, empty, without rights, errors, disconnected, ended: each says what to do.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { go, launch, open } from '../browser.mjs';
import { empty, forbidden, small } from '../data.mjs';
import { start } from '../fixture.mjs';

let browser, fixture;
before(async () => { browser = await launch(); fixture = await start(small()); });
after(async () => { await browser?.close(); await fixture?.close(); });
beforeEach(() => { fixture.clear(); fixture.load(small()); });

const text = (page) => page.locator('main').innerText();

test('an empty cluster', async () => {
  fixture.load(empty());
  const { page, problems, close } = await open(browser, fixture, '#/profiles');
  assert.match(await text(page), /No profiles[\s\S]*kubectl apply -f -[\s\S]*kubectl berth check/);
  for (const [route, words] of [['#/waiting', /No pod waits/], ['#/map', /The cluster has no node/], ['#/profiles/batch', /There is no SchedulingProfile batch/], ['#/pods/a/b', /There is no pod a\/b/], ['#/nothing', /There is no such page/]]) {
    await go(page, route);
    await page.locator('.state').first().waitFor();
    assert.match(await text(page), words);
  }
  assert.deepEqual(problems, []);
  await close();
});

test('without rights, the notes say so', async () => {
  fixture.load(forbidden());
  const { page, close } = await open(browser, fixture, '#/profiles');
  assert.match(await text(page), /3 notes about what is not shown/);
  assert.match(await page.locator('.state').innerText(), /You may not list schedulingprofiles/);
  await go(page, '#/map');
  assert.match(await page.locator('.state').innerText(), /You may not list nodes: the map is empty\./);
  await close();
});

test('a tenant sees the pods of one namespace, and no wrong statement about profiles', async () => {
  const { pods } = small();
  fixture.load({ ...forbidden(), pods: pods.filter((p) => p.key.startsWith('train/') && !p.node) });
  const { page, problems, close } = await open(browser, fixture, '#/waiting');
  assert.match(await text(page), /pods in \d+ groups?[\s\S]*Unschedulable[\s\S]*18 Insufficient cpu/);
  await go(page, '#/profiles/batch');
  assert.match(await page.locator('.state').innerText(), /SchedulingProfile batch cannot be shown[\s\S]*You may not list schedulingprofiles/);
  assert.doesNotMatch(await text(page), /There is no SchedulingProfile|create a profile/);
  await go(page, '#/profiles');
  assert.match(await page.locator('.state').innerText(), /No profiles to show/);
  assert.deepEqual(problems, []);
  await close();
});

test('a pod is of the view Waiting as long as it waits', async () => {
  const bound = small().pods.find((pod) => pod.node);
  const { page, close } = await open(browser, fixture, '#/pods/train/sweep-0');
  const current = page.locator('nav [aria-current]');
  await current.filter({ hasText: 'Waiting' }).waitFor();
  await go(page, `#/pods/${bound.key}`);
  await page.getByRole('heading', { name: bound.key }).waitFor();
  assert.equal(await current.count(), 0);
  await close();
});

test('what cannot be evaluated, tried or compared says so', async () => {
  const { page, close } = await open(browser, fixture, '#/pods/train/sweep-0');
  fixture.fail(/matrix$/, 422, 'spec.schedulerName: no SchedulingProfile is named "bacth".');
  await page.getByRole('button', { name: 'Evaluate now' }).click();
  await page.getByText('Could not evaluate the pod').waitFor();
  const gap = await page.evaluate(() => document.querySelector('.actions + .state').getBoundingClientRect().top - document.querySelector('.actions button').getBoundingClientRect().bottom);
  assert.ok(gap >= 8, `${gap} px between the button and the error`);
  fixture.fail(/diff$/, 422, 'SchedulingProfile batch is rejected by this version of kubectl-berth: no plugin "X".');
  await go(page, '#/compare/batch/spec/9f3c1a2b4d');
  await page.getByText('Could not compare spec with 9f3c1a2b4d').waitFor();
  await close();
});

test('errors of requests name what to do', async () => {
  const { page, close } = await open(browser, fixture, '#/profiles');
  fixture.fail(/^\/api\/pods\/shop\/web-7c9d8-0$/, 403, 'You may not get pods in namespace shop: the permission get pods is missing.');
  await go(page, '#/pods/shop/web-7c9d8-0');
  await page.locator('.state.failed').waitFor();
  assert.match(await text(page), /You may not read pod shop\/web-7c9d8-0[\s\S]*the permission get pods is missing[\s\S]*permissions of the user[\s\S]*Try again/);
  fixture.clear();
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByRole('heading', { name: 'Why there' }).waitFor();
  fixture.fail(/matrix$/, 503, 'Two other computations are running.', { headers: { 'Retry-After': '5' } });
  await page.getByRole('button', { name: 'Evaluate now' }).click();
  await page.getByText('The server is busy').waitFor();
  assert.match(await text(page), /Try again in 5s/);
  fixture.fail(/revisions$/, 500, 'listing the revisions failed: etcdserver: request timed out');
  await go(page, '#/profiles/batch');
  await page.getByText('etcdserver: request timed out').waitFor();
  await close();
});

test('a try that is wrong', async () => {
  const { page, close } = await open(browser, fixture, '#/try');
  await page.getByRole('button', { name: 'Try it' }).click();
  assert.match(await page.locator('#try-problem').innerText(), /Paste a manifest first/);
  await page.locator('#manifest').fill('nonsense');
  await page.getByLabel('Nodes to leave out').fill('n1, n999');
  await page.getByRole('button', { name: 'Try it' }).click();
  assert.match(await page.locator('#try-problem').innerText(), /There is no node n999/);
  await page.getByLabel('Nodes to leave out').fill('n1');
  await page.getByRole('button', { name: 'Try it' }).click();
  await page.getByText('no kind: a manifest has apiVersion').waitFor();
  await close();
});

test('the example names a profile that runs', async () => {
  const data = small();
  fixture.load({ ...data, profiles: data.profiles.filter((p) => p.name !== 'batch') });
  const { page, close } = await open(browser, fixture, '#/try');
  await page.getByRole('button', { name: 'Example' }).click();
  assert.match(await page.locator('#manifest').inputValue(), /schedulerName: gpu\n/); // canary runs nothing
  await close();
});

test('the stream breaks, says so, and comes back', async () => {
  const { page, close } = await open(browser, fixture, '#/profiles');
  await page.locator('.top').getByText('Live').waitFor();
  fixture.fail(/stream$/, 500, 'the API server does not answer');
  fixture.drop();
  await page.locator('.connection-bar').getByText('the API server does not answer').waitFor({ timeout: 10000 });
  assert.match(await page.locator('.connection-bar').innerText(), /What you see is not up to date\.[\s\S]*Next attempt in \d+s\.[\s\S]*Connect now/);
  assert.equal(await page.locator('table.profiles tbody').count(), 5, 'the last state stays');
  fixture.clear();
  await page.getByRole('button', { name: 'Connect now' }).click();
  await page.locator('.top').getByText('Live').waitFor();
  assert.equal(await page.locator('.connection-bar').count(), 0);
  fixture.drop();
  await page.locator('.connection-bar').waitFor();
  await page.locator('.top').getByText('Live').waitFor({ timeout: 5000 }); // by itself
  await close();
});

test('a run that has ended, and an address without its token', async () => {
  const { page, close } = await open(browser, fixture, '#/profiles');
  fixture.token = 'another-run';
  fixture.drop();
  await page.locator('.connection-bar.bad').waitFor({ timeout: 10000 });
  assert.match(await page.locator('.connection-bar').innerText(), /has ended, or the address lacks its token\. Run kubectl berth ui again/);
  await page.goto(`${fixture.origin}/#token=another-run`);
  await page.locator('.top').getByText('Live').waitFor();
  assert.equal(await page.evaluate(() => location.hash), '#/profiles');
  fixture.token = 'fixture-token_0123456789abcdefghijklmnopqrstuv';
  await close();
  const context = await browser.newContext(), other = await context.newPage();
  await other.goto(fixture.origin);
  await other.locator('.connection-bar.bad').waitFor();
  await context.close();
});

test('a link that is opened in a new tab shows the same run', async () => {
  const { page, context, close } = await open(browser, fixture, '#/profiles');
  const [other] = await Promise.all([context.waitForEvent('page'), page.locator('nav a[href="#/map"]').click({ modifiers: ['ControlOrMeta'] })]);
  await other.locator('.top').getByText('Live').waitFor();
  assert.equal(await other.evaluate(() => location.hash), '#/map');
  await other.reload();
  await other.locator('.top').getByText('Live').waitFor();
  await close();
});

test('the status of a revision is read again until it is stable', async () => {
  const { page, close } = await open(browser, fixture, '#/profiles/batch');
  let status = 'on probation', reads = 0;
  await page.route('**/revisions', async (route) => {
    reads++;
    const response = await route.fetch(), body = await response.json();
    await route.fulfill({ response, json: { ...body, revisions: body.revisions.map((r) => ({ ...r, status })) } });
  });
  await page.clock.install();
  await page.reload();
  const table = page.getByRole('table').filter({ hasText: 'Hash' });
  await table.getByText('on probation').first().waitFor();
  await page.getByRole('radio', { name: 'Compare from revision 3' }).check();
  status = 'stable';
  await page.clock.fastForward('01:01');
  await table.getByText('stable').first().waitFor();
  assert.equal(await table.getByText('on probation').count(), 0);
  assert.ok(await page.getByRole('radio', { name: 'Compare from revision 3' }).isChecked(), 'the choice stays');
  const before = reads;
  await page.clock.fastForward('01:01');
  await page.clock.fastForward('01:01');
  await go(page, '#/profiles');
  assert.equal(reads, before);
  await close();
});

test('a page that is not visible for a while leaves its connection to others, until it is shown', async () => {
  const { page, close } = await open(browser, fixture, '#/profiles');
  await page.locator('.top').getByText('Live').waitFor();
  await page.clock.install();
  const show = (visible) => page.evaluate((hidden) => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event('visibilitychange'));
  }, !visible);
  const streams = async (n) => {
    for (let i = 0; i < 100 && fixture.streams.size !== n; i++) await page.waitForTimeout(20);
    assert.equal(fixture.streams.size, n);
  };
  await show(false);
  await page.clock.fastForward('04:00');
  await show(true);
  await page.clock.fastForward('04:00');
  await streams(1);
  await show(false);
  await page.clock.fastForward('10:00');
  await streams(0);
  fixture.delta({ gone: { profiles: ['canary'] } });
  await show(true);
  await page.waitForFunction(() => document.querySelectorAll('table.profiles tbody').length === 4);
  await page.locator('.top').getByText('Live').waitFor();
  await streams(1);
  await close();
});

test('loading is said', async () => {
  const { page, close } = await open(browser, fixture, '#/profiles');
  fixture.delay = 700;
  await page.evaluate(() => { location.hash = '#/compare/batch/07aac0a95a/9f3c1a2b4d'; });
  await page.getByText('Reading the two revisions …').waitFor();
  await page.getByText('queue.maxBackoff: 1m0s').waitFor();
  await close();
});
