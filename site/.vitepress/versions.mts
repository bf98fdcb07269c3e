// The versions of the documentation. `make site` builds main. `make site-versions` also builds
// the pages of each release in versions.json from its tag, in a folder with its name. The menu
// reads versions.json of the site as it is now, so that an old version knows of newer ones.
import fs from 'node:fs'
import path from 'node:path'

/** root is the path below which all versions are. */
export const root = process.env.SITE_BASE ?? '/'

/** version is the release whose pages are built; empty for main. */
export const version = process.env.SITE_VERSION ?? ''

export const base = version === '' ? root : `${root}${version}/`

/** released are the releases whose pages the site has, the newest first. */
export const released: string[] = JSON.parse(fs.readFileSync(path.resolve(import.meta.dirname, '../versions.json'), 'utf8'))

/** writeVersions writes the list for the menu. */
export function writeVersions(outDir: string) {
  fs.writeFileSync(path.join(outDir, 'versions.json'), JSON.stringify(released))
}
