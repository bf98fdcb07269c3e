// The site: every page of docs/, in the order of sidebar.mts. Links that lead
// nowhere fail the build.
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'
import { blocks } from './blocks.mts'
import { asOnTheSite } from './links.mts'
import { sessions } from './sessions.mts'
import { home, sidebar } from './sidebar.mts'
import { base, released, root, version, writeVersions } from './versions.mts'

export const repository = 'https://github.com/berthdev/berth'

const ownModule = (name: string) => fileURLToPath(import.meta.resolve(name))

export default defineConfig({
  title: 'Berth',
  description: 'A Kubernetes scheduler whose profiles are custom resources.',
  base,
  srcDir: '../docs',
  outDir: '../bin/site',
  cacheDir: './.cache',
  // The front page of a folder is called README.md, so that it is one where
  // the pages are read beside the code, too.
  rewrites: {
    'README.md': 'index.md',
    ':folder/README.md': ':folder/index.md',
  },
  cleanUrls: false,
  // Asked of nobody else: no fonts, no search service, no counting.
  head: [['meta', { name: 'theme-color', content: '#1f5f8b' }]],
  markdown: {
    theme: { light: 'github-light', dark: 'github-dark' },
    codeTransformers: [sessions],
    config: (md) => md.use(blocks).use(asOnTheSite, repository),
  },
  // The pages are outside of the folder in which Vue is installed.
  vite: {
    resolve: {
      alias: [
        { find: /^vue$/, replacement: ownModule('vue/dist/vue.runtime.esm-bundler.js') },
        { find: /^vue\/server-renderer$/, replacement: ownModule('vue/server-renderer') },
      ],
    },
    // Parts of Mermaid, which only pages with a diagram load.
    build: { chunkSizeWarningLimit: 800 },
  },
  buildEnd: (site) => writeVersions(site.outDir),
  transformPageData(page) {
    if (page.relativePath === 'index.md') page.frontmatter = { ...home, ...page.frontmatter }
  },
  themeConfig: {
    nav: [
      { text: 'Start', link: '/tour/' },
      { text: 'Plugins', link: '/plugins/' },
      { text: 'Recipes', link: '/recipes/' },
      { text: 'Reference', link: '/reference/api' },
      { component: 'BerthVersions', props: { root, version, released } },
    ],
    sidebar: sidebar('../docs'),
    outline: [2, 3],
    search: { provider: 'local' },
    socialLinks: [{ icon: 'github', link: repository }],
    editLink: { pattern: `${repository}/edit/main/docs/:path`, text: 'Edit this page' },
    footer: { message: 'Apache-2.0' },
  },
})
