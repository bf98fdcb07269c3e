// Writes the screenshots that the documentation shows, as WebP, from those that
// screenshots.mjs wrote: node docs.mjs FROM TO
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { launch } from './browser.mjs';

// The name of a screenshot, and how much of its height is shown, in its pixels.
const shown = [
  ['waiting-1440', 1100], ['pod-pending-1440', 1650], ['map-1440', 920], ['profile-refused-1440', 980], ['try-1440', 1262], ['waiting-390', 1400],
];

const [from, to] = process.argv.slice(2);
const browser = await launch();
const page = await browser.newPage();
for (const [name, height] of shown) {
  const png = (await readFile(join(from, `${name}.png`))).toString('base64');
  const webp = await page.evaluate(async ([png, height]) => {
    const picture = new Image();
    picture.src = `data:image/png;base64,${png}`;
    await picture.decode();
    const canvas = document.createElement('canvas');
    canvas.width = picture.width;
    canvas.height = Math.min(height, picture.height);
    canvas.getContext('2d').drawImage(picture, 0, 0);
    return canvas.toDataURL('image/webp', 0.82).split(',')[1];
  }, [png, height]);
  await writeFile(join(to, `${name}.webp`), Buffer.from(webp, 'base64'));
}
await browser.close();
