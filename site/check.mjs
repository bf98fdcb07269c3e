// Checks the built site: what the copy button takes from a session can be pasted.
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

let blocks = 0
const wrong = []
for (const file of fs.readdirSync(site, { recursive: true }).filter((name) => name.endsWith('.html'))) {
  const html = fs.readFileSync(path.join(site, file), 'utf8')
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
console.log(`${blocks} sessions can be pasted`)
