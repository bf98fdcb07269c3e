// Texts of the cluster are texts; the token stays where it belongs.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { go, launch, open } from '../browser.mjs';
import { hostile, small } from '../data.mjs';
import { policy, start, token } from '../fixture.mjs';

let browser;
before(async () => { browser = await launch(); });
after(async () => { await browser?.close(); });

test('hostile names and messages are shown as text', async () => {
  const fixture = await start(hostile());
  const { page, problems, outside, close } = await open(browser, fixture, '#/profiles');
  const name = '"><svg onload=window.hacked=1>';
  await page.getByRole('link', { name, exact: true }).click();
  await page.getByRole('heading', { level: 1 }).getByText(name).waitFor();
  for (const route of ['#/waiting', '#/map', '#/pods/train/sweep-0', `#/profiles/${encodeURIComponent('<script>window.hacked=1</script>')}`, '#/pods/%3Cimg%20src=x%20onerror=window.hacked=1%3E/x', '#/compare/%3Cb%3E/a/b']) {
    await go(page, route);
    if (route === '#/waiting') {
      for (const open of await page.locator('.group .open').all()) await open.click();
      await page.getByText('<img src=x onerror="window.hacked=1">').first().waitFor();
    }
    if (route === '#/map') {
      await page.locator('.tiles').focus();
      await page.keyboard.press('Home');
    }
    assert.equal(await page.evaluate(() => document.querySelectorAll('main img, main script, main b > b, main i > i, main u, main [onerror], main [onload]').length), 0, route);
    assert.equal(await page.evaluate(() => [...document.querySelectorAll('a')].filter((a) => !a.getAttribute('href').startsWith('#')).length), 0, route);
  }
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.deepEqual(problems, []);
  assert.deepEqual(outside, []);
  await close();
  await fixture.close();
});

test('the token is in no address and in the storage of the session only', async () => {
  const fixture = await start(small());
  const { page, close } = await open(browser, fixture, '#/waiting');
  assert.equal(await page.evaluate(() => JSON.stringify(localStorage)), '{}');
  assert.equal(await page.evaluate(() => sessionStorage.getItem('berth-token')), token);
  assert.ok(!(await page.content()).includes(token));
  await page.goBack();
  assert.ok(!(await page.url()).includes(token));
  assert.ok(fixture.requests.every((r) => !r.includes(token)));
  await page.reload();
  await page.locator('.top').getByText('Live').waitFor();
  await close();
  await fixture.close();
});

test('a page gives its token to no other origin, and no token that was refused', async () => {
  const fixture = await start(small()), other = await start(small());
  const { page, context, close } = await open(browser, fixture, '#/profiles');
  const ended = async (origin) => {
    const opened = await context.newPage();
    await opened.goto(origin);
    await opened.locator('.connection-bar.bad').waitFor();
    assert.equal(await opened.evaluate(() => sessionStorage.getItem('berth-token')), null);
  };
  await ended(other.origin);
  fixture.token = 'another-run';
  fixture.drop();
  await page.locator('.connection-bar.bad').waitFor();
  await ended(fixture.origin);
  await close();
  await fixture.close();
  await other.close();
});

test('the page needs no more than its policy, and the policy holds', async () => {
  const fixture = await start(small());
  const response = await fetch(fixture.origin);
  assert.equal(response.headers.get('content-security-policy'), policy);
  const html = await response.text();
  assert.ok(!/ style=|<style|<script(?![^>]* src=)|\bon\w+=/.test(html));
  const { page, close } = await open(browser, fixture, '#/profiles');
  const refused = await page.evaluate(() => {
    try { document.createElement('div').innerHTML = '<b>x</b>'; return false; } catch { return true; }
  });
  assert.ok(refused, 'trusted types hold in this browser');
  await close();
  await fixture.close();
});
