// The site, from the Markdown of the package. `npm run docs` builds it into .site/built; `npm run docs:dev` serves it and follows
// changes.

import { watch, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig } from 'vitepress'
import { llmsFull, llmsIndex } from '../llms.ts'
import { anchorOf, root, stage, stageAgain } from '../pages.ts'
import { sectionsOf } from '../sections.ts'

const work = join(root, '.site')
const folder = join(work, 'pages')
const pages = stage(folder)

const linkOf = (path: string) => `/${pages.find((page) => page.path === path)!.address.replace(/(?:index)?\.md$/, '')}`
const titleOf = (path: string) => pages.find((page) => page.path === path)!.title
const sections = sectionsOf(pages)

const sidebar = sections.map(({ text, groups }) => {
  const listed = groups.map((group) => ({
    text: group.text,
    collapsed: true,
    items: group.pages.map((path) => ({ text: titleOf(path), link: linkOf(path) })),
  }))
  return { text, collapsed: text !== 'Start', items: listed.length === 1 ? listed[0]!.items : listed }
})

/** The pages of the API are found by the names of their exports: their text would be two thirds of the index. */
const namesOnly = /^api\//
const withoutCode = (text: string) => text.replaceAll(/^( *)```[\s\S]*?^ *```$/gm, '')

export default defineConfig({
  title: 'Reprise',
  description: 'Long-running TypeScript that resumes where it stopped, with a proof.',
  lang: 'en-US',
  srcDir: folder,
  outDir: join(work, 'built'),
  cacheDir: join(work, 'cache'),
  // A page has everything that it needs: no request leaves the site.
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  markdown: {
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    anchor: { slugify: anchorOf },
    toc: { slugify: anchorOf },
    headers: { slugify: anchorOf },
    // Tables and code scroll, so a keyboard must reach them.
    config(md) {
      md.renderer.rules.table_open = () => '<table tabindex="0">\n'
    },
  },
  themeConfig: {
    nav: sections.map(({ text, groups }) => ({ text, link: linkOf(groups[0]!.pages[0]!) })),
    sidebar,
    outline: { level: [2, 3] },
    socialLinks: [],
    search: {
      provider: 'local',
      options: {
        _render(src, env, md) {
          const page = env.relativePath as string
          if (page.startsWith('files/')) return ''
          const text = withoutCode(src)
          return md.render(namesOnly.test(page) ? (text.match(/^#+ .*$/gm) ?? []).join('\n\n') : text, env)
        },
      },
    },
  },
  buildEnd({ outDir }) {
    writeFileSync(join(outDir, 'llms.txt'), llmsIndex(pages))
    writeFileSync(join(outDir, 'llms-full.txt'), llmsFull(pages))
  },
  vite: {
    build: { chunkSizeWarningLimit: 1500 },
    plugins: [
      {
        name: 'stage-changed-pages',
        apply: 'serve',
        configureServer() {
          const watcher = watch(join(root, 'docs'), { recursive: true }, (_event, name) => {
            const changed = `docs/${name?.replaceAll('\\', '/')}`
            if (pages.some(({ path }) => path === changed)) stageAgain(folder, changed)
          })
          watcher.unref()
        },
      },
    ],
  },
})
