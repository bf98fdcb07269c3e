// Blocks that the pages have as text, and the site as something to look at: a block of the
// language mermaid is drawn, and a paragraph that is one link to a recording, a .cast file, is
// played. Where the pages are read beside the code they are a block and a link.
import path from 'node:path'
import type MarkdownIt from 'markdown-it'

const docs = path.resolve(import.meta.dirname, '../../docs')

export function blocks(md: MarkdownIt) {
  const fence = md.renderer.rules.fence!
  md.renderer.rules.fence = (tokens, at, options, env, self) => {
    const text = fence(tokens, at, options, env, self)
    if (tokens[at].info.trim() !== 'mermaid') return text
    return `<BerthDiagram code="${encodeURIComponent(tokens[at].content)}">${text}</BerthDiagram>\n`
  }
  md.core.ruler.push('recordings', (state) => {
    const page = state.env.realPath ?? state.env.path
    for (let i = 0; page && i + 2 < state.tokens.length; i++) {
      const inside = state.tokens[i + 1].children ?? []
      if (state.tokens[i].type !== 'paragraph_open' || inside.length !== 3 || inside[0].type !== 'link_open') continue
      const href = inside[0].attrGet('href') ?? ''
      if (!href.endsWith('.cast')) continue
      const block = new state.Token('html_block', '', 0)
      const name = path.relative(docs, path.resolve(path.dirname(page), href))
      block.content = `<BerthRecording name="${md.utils.escapeHtml(name)}" text="${md.utils.escapeHtml(inside[1].content)}" />\n`
      state.tokens.splice(i, 3, block)
    }
  })
}
