// Links are written as they work beside the code: to README.md for the front page
// of a folder, and out of docs/ to manifests and tests. On the site the first is
// the folder's index, and the second a page of the repository.
import path from 'node:path'
import type MarkdownIt from 'markdown-it'

export function asOnTheSite(md: MarkdownIt, repository: string) {
  md.core.ruler.push('as-on-the-site', (state) => {
    const page = state.env.realPath ?? state.env.path
    for (const block of state.tokens) {
      for (const token of block.children ?? []) {
        if (token.type !== 'link_open') continue
        const href = token.attrGet('href')
        if (href && page) token.attrSet('href', onTheSite(href, page, repository))
      }
    }
  })
}

const docs = path.resolve(import.meta.dirname, '../../docs')

function onTheSite(href: string, page: string, repository: string): string {
  if (/^([a-z]+:|#|\/)/.test(href)) return href
  const [file, anchor] = href.split('#', 2)
  const target = path.resolve(path.dirname(page), file)
  const rest = anchor === undefined ? '' : `#${anchor}`
  if (target !== docs && !target.startsWith(docs + path.sep)) {
    return `${repository}/blob/main/${path.relative(path.dirname(docs), target)}${rest}`
  }
  return file.replace(/(^|\/)README\.md$/, '$1index.md') + rest
}
