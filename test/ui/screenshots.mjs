// Writes NAME-1440.png and NAME-390.png of every view, light and dark: npm run screenshots -- FOLDER [large]
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { go, launch, open, views } from './browser.mjs';
import * as data from './data.mjs';
import { start } from './fixture.mjs';

const folder = process.argv[2] ?? 'shots';
await mkdir(folder, { recursive: true });
const browser = await launch();
const only = process.argv[3];

async function take(fixture, list, suffix, scheme) {
  for (const width of [1440, 390]) {
    const { page, close } = await open(browser, fixture, '#/profiles', { width, height: width === 390 ? 844 : 900, scheme, motion: 'reduce' });
    for (const [name, route, prepare] of list) {
      if (only && name !== only) continue;
      await go(page, route);
      if (name.startsWith('pod-')) {
        await page.getByRole('button', { name: 'Evaluate now' }).click();
        await page.locator('.matrix').waitFor();
      }
      if (name === 'waiting') await page.locator('.group .open').first().click();
      if (name === 'map') {
        await page.locator('.tiles').focus();
        for (const key of ['End', 'ArrowLeft', 'ArrowLeft']) await page.keyboard.press(key);
        await page.locator('.tiles').blur();
      }
      if (name === 'try') {
        await page.getByRole('button', { name: 'Example' }).click();
        await page.getByRole('button', { name: 'Try it' }).click();
        await page.locator('.result-title').waitFor();
      }
      await prepare?.(page);
      await page.evaluate(() => scrollTo(0, 0));
      await page.waitForTimeout(250);
      await page.screenshot({ path: join(folder, `${name}${suffix}-${width}.png`), fullPage: true });
    }
    await close();
  }
}

const small = await start(data.small());
await take(small, views, '', 'light');
await take(small, views, '-dark', 'dark');
const keys = async (page) => {
  await page.keyboard.press('?');
  await page.locator('dialog[open]').waitFor();
};
await take(small, [['not-found', '#/pods/shop/nothing', undefined], ['keys', '#/profiles', keys]], '', 'light');
small.load(data.forbidden());
await take(small, [['forbidden', '#/map']], '', 'light');
small.load(data.empty());
await take(small, [['empty', '#/profiles']], '', 'light');
small.load(data.large());
const byProfile = (page) => page.getByLabel('Colour by').selectOption('profile');
await take(small, [['map-large', '#/map'], ['waiting-large', '#/waiting'], ['map-profiles', '#/map', byProfile]], '', 'light');
await browser.close();
await small.close();
