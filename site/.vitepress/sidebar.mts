// What stands beside the pages, by who reads it. A page is listed here by its
// name, a whole folder by a name that ends in a slash; what nobody lists is shown
// at the end, so that no page is out of reach.
import fs from 'node:fs'
import path from 'node:path'

interface Section { text: string; pages: string[]; collapsed?: boolean }

const sections: Section[] = [
  { text: 'Start', pages: ['tour/README.md', 'questions.md', 'guide/install.md', 'guide/second-scheduler.md', 'guide/migration.md', 'kubectl.md', 'ui.md', 'ui-compared.md', 'hot-swap.md'] },
  { text: 'Recipes', pages: ['recipes/'], collapsed: true },
  {
    text: 'Operate', pages: [
      'guide/production.md', 'guide/default-scheduler.md', 'guide/autoscalers.md', 'guide/sharing-nodes.md', 'olm.md',
      'guide/upgrade.md', 'guide/leaving.md', 'troubleshooting.md', 'metrics.md', 'tracing.md', 'health.md', 'handover.md',
      'rights.md', 'debugging.md',
    ],
  },
  { text: 'Runbooks', pages: ['runbooks/'], collapsed: true },
  { text: 'Configure', pages: ['extenders.md'] },
  { text: 'Plugins', pages: ['plugins/'], collapsed: true },
  { text: 'Understand', pages: ['parity.md', 'kubernetes-versions.md', 'architecture.md', 'glossary.md', 'reliability.md', 'performance.md', 'scaling.md'] },
  { text: 'Reference', pages: ['reference/'] },
  { text: 'Develop', pages: ['plugins.md', 'release.md'] },
  { text: 'Decisions', pages: ['adr/'], collapsed: true },
]

// home makes a front page of docs/README.md.
export const home = {
  layout: 'home',
  hero: {
    name: 'Berth',
    text: 'A Kubernetes scheduler whose profiles are custom resources',
    tagline: 'It decides as kube-scheduler decides. A profile is applied with kubectl, tested on a copy of the cluster, and switched to between two decisions, without a restart.',
    actions: [
      { theme: 'brand', text: 'Take the tour', link: '/tour/' },
      { theme: 'alt', text: 'Install', link: '/guide/install' },
      { theme: 'alt', text: 'kubectl berth ui', link: '/ui' },
      { theme: 'alt', text: 'Ten questions', link: '/questions' },
    ],
  },
}

export function sidebar(below: string) {
  const docs = path.resolve(import.meta.dirname, '..', below)
  const all = (fs.readdirSync(docs, { recursive: true }) as string[]).filter((f) => f.endsWith('.md')).sort()
  const listed = new Set(['README.md'])
  const group = ({ text, pages, collapsed }: Section) => {
    const files = pages.flatMap((page) => page.endsWith('/') ? folder(all, page) : all.filter((f) => f === page))
    files.forEach((f) => listed.add(f))
    return { text, collapsed, items: files.map((f) => ({ text: title(path.join(docs, f), f), link: address(f) })) }
  }
  const groups = sections.map(group)
  const rest = all.filter((f) => !listed.has(f))
  if (rest.length > 0) groups.push(group({ text: 'More', pages: rest }))
  return groups.filter((g) => g.items.length > 0)
}

// folder is what a folder holds, its front page first.
function folder(all: string[], name: string): string[] {
  const inside = all.filter((f) => f.startsWith(name))
  return [...inside.filter((f) => f.endsWith('/README.md')), ...inside.filter((f) => !f.endsWith('/README.md'))]
}

function title(file: string, name: string): string {
  const first = fs.readFileSync(file, 'utf8').match(/^# (.+)$/m)
  if (!first) throw new Error(`${name}: a page begins with its title, "# …"`)
  return first[1].replaceAll('`', '')
}

function address(file: string): string {
  return '/' + file.replace(/README\.md$/, '').replace(/\.md$/, '')
}
