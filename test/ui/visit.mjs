// A first visit of a page that runs, timed: from its address to the reasons of a pod that waits. node visit.mjs ADDRESS
import { launch } from './browser.mjs';

const address = process.argv[2];
const firstLines = (text, n) => text.split('\n').filter((line) => line.trim()).slice(0, n).join(' · ');
let last = performance.now();
const report = (step) => {
  const now = performance.now();
  console.log(`${((now - last) / 1000).toFixed(1)} s  ${step}`);
  last = now;
};

const browser = await launch();
report('the browser is open');
const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
await page.goto(address);
await page.locator('main h1').waitFor();
report('the page shows the profiles');
await page.getByRole('link', { name: 'Waiting' }).click();
const group = page.locator('.group', { has: page.locator('.open') }).first();
await group.waitFor();
report(`the waiting pods by reason: ${firstLines(await group.innerText(), 4)}`);
await group.locator('.open').click();
await group.locator('a[href^="#/pods/"]').first().click();
await page.locator('main h1', { hasText: /^Pod / }).waitFor();
await page.locator('main section').first().waitFor();
report(`the pod: ${firstLines(await page.locator('main').innerText(), 12)}`);
await browser.close();
