// A browser for the specs: pages that report what a content policy or a script refuses.
import { chromium } from 'playwright-core';

export const views = [
  ['profiles', '#/profiles'], ['profile', '#/profiles/batch'], ['profile-refused', '#/profiles/web'], ['waiting', '#/waiting'], ['pod-pending', '#/pods/train/sweep-0'],
  ['pod-bound', '#/pods/shop/web-7c9d8-0'], ['map', '#/map'], ['try', '#/try'], ['compare', '#/compare/batch/07aac0a95a/9f3c1a2b4d'],
];

export async function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
}

/** open opens the page at a route. problems collects errors of scripts and of the content policy, outside the requests to other origins. */
export async function open(browser, fixture, route, { width = 1440, height = 900, scheme = 'light', motion = 'no-preference', ...more } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, reducedMotion: motion, ...more });
  const page = await context.newPage(), problems = [], outside = [];
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type()) && !/Failed to load resource|canvas.*willReadFrequently/i.test(message.text())) problems.push(message.text());
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(fixture.origin) && !request.url().startsWith('data:')) outside.push(request.url());
  });
  await page.goto(fixture.url);
  await page.waitForFunction(() => !location.hash.startsWith('#token'));
  await go(page, route);
  return { page, context, problems, outside, close: () => context.close() };
}

export async function go(page, route) {
  await page.evaluate((hash) => { location.hash = hash; }, route);
  await page.waitForFunction(() => document.querySelector('main h1') && !document.querySelector('main .state .spinner'), null, { timeout: 15000 });
}
