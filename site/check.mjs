// Checks the built site: what the copy button takes from a session can be pasted, diagrams and
// recordings are there to be drawn and played, and no page loads anything from another host.
import fs from 'node:fs'
import path from 'node:path'

const site = path.resolve(import.meta.dirname, '../bin/site')

// copied is the text of a block without what VitePress leaves out.
function copied(code) {
  let text = '', last = 0, depth = 0, ignoredAt = -1
  for (const tag of code.matchAll(/<span[^>]*>|<\/span>/g)) {
    if (ignoredAt < 0) text += code.slice(last, tag.index)
    last = tag.index + tag[0].length
    if (tag[0] === '</span>') {
      depth--
      if (depth === ignoredAt) ignoredAt = -1
    } else {
      if (ignoredAt < 0 && tag[0].includes('vp-copy-ignore')) ignoredAt = depth
      depth++
    }
  }
  return text
}

let blocks = 0, diagrams = 0, recordings = 0
const wrong = [], outside = []
for (const file of fs.readdirSync(site, { recursive: true }).filter((name) => name.endsWith('.html'))) {
  const html = fs.readFileSync(path.join(site, file), 'utf8')
  diagrams += html.split('language-mermaid').length - 1
  recordings += html.split('<figure class="recording"').length - 1
  for (const [tag] of html.matchAll(/<(?:script|link|img|iframe|source|video)\b[^>]*\b(?:src|href|srcset)="(?:https?:)?\/\/[^>]*>/g)) outside.push(`${file}: ${tag}`)
  for (const [, code] of html.matchAll(/language-console[^>]*>.*?<code>(.*?)<\/code>/gs)) {
    blocks++
    const prompts = code.replace(/<[^>]*>/g, '').split('\n').filter((line) => /^(\$|&gt;) /.test(line)).length
    const lines = copied(code).split('\n').filter((line) => line !== '')
    // A command may hold empty lines, which it has after "> ".
    if (lines.length === 0 || lines.length > prompts || lines.some((line) => line.startsWith('$ '))) wrong.push(`${file}: ${lines.join('\n')}`)
  }
}
if (blocks === 0) wrong.push('no page has a session: does the site still mark them as language-console?')
if (wrong.length > 0) {
  console.error(`the copy button takes more or less than the commands:\n${wrong.join('\n')}`)
  process.exit(1)
}
if (outside.length > 0) {
  console.error(`these are loaded from another host:\n${outside.join('\n')}`)
  process.exit(1)
}
if (diagrams === 0 || recordings === 0) {
  console.error(`the site has ${diagrams} diagrams and ${recordings} recordings: does blocks.mts still find them?`)
  process.exit(1)
}
console.log(`${blocks} sessions can be pasted; ${diagrams} diagrams, ${recordings} recordings`)
