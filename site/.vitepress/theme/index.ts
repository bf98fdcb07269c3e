import type { Theme } from 'vitepress'
import theme from 'vitepress/theme'
import Diagram from './Diagram.vue'
import Recording from './Recording.vue'
import Versions from './Versions.vue'
import './style.css'

export default {
  extends: theme,
  enhanceApp({ app }) {
    app.component('BerthDiagram', Diagram)
    app.component('BerthRecording', Recording)
    app.component('BerthVersions', Versions)
  },
} satisfies Theme
