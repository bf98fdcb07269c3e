// In a block of the language console a line after "$ " is a command, lines after "> " go
// on with it, and the rest is what it prints. What the copy button of such a block takes
// can be pasted: VitePress leaves out what has the class vp-copy-ignore.
import type { Element, ElementContent, Text } from 'hast'

const ignored = (...children: ElementContent[]): Element =>
  ({ type: 'element', tagName: 'span', properties: { class: 'vp-copy-ignore' }, children })

const textOf = (node: ElementContent): string =>
  node.type === 'text' ? node.value : node.type === 'element' ? node.children.map(textOf).join('') : ''

// firstText is the text that a line begins with.
function firstText(node: ElementContent): Text | undefined {
  if (node.type === 'text') return node
  return node.type === 'element' ? node.children.map(firstText).find((found) => found?.value) : undefined
}

export const sessions = {
  name: 'sessions',
  code(this: { options: { lang: string } }, code: Element) {
    if (this.options.lang !== 'console') return
    let output = false
    code.children = code.children.map((node) => {
      if (node.type === 'text') return output ? ignored(node) : node // the end of a line
      const [prompt] = /^[$>] /.exec(textOf(node)) ?? []
      output = prompt === undefined
      if (node.type !== 'element') return node
      const first = firstText(node)
      if (prompt === undefined || first === undefined || !first.value.startsWith(prompt)) {
        node.children = output ? [ignored(...node.children)] : node.children
        return node
      }
      first.value = first.value.slice(prompt.length)
      node.children.unshift(ignored({ type: 'text', value: prompt }))
      return node
    })
  },
}
