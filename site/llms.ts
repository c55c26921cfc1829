// llms.txt and llms-full.txt (https://llmstxt.org): an index of the pages for language models, and their text in one file.

import { type Page, replaceLinks } from './pages.ts'
import { sectionsOf } from './sections.ts'

const heading = `# Reprise

> Long-running TypeScript that can be interrupted at any moment and resumes where it stopped: jobs, workflows, event sourcing,
> tables, pipelines and agents over one durable history, in SQLite or PostgreSQL.
`

export function llmsIndex(pages: readonly Page[]): string {
  const byPath = new Map(pages.map((page) => [page.path, page]))
  const sections = sectionsOf(pages).map(({ text, groups }) => {
    const lines = groups.flatMap((group) =>
      group.pages.map((path) => {
        const page = byPath.get(path)!
        return `- [${page.title}](${page.address.replace(/\.md$/, '.html')}): ${firstSentence(page.text)}`
      }),
    )
    return `## ${text}\n\n${lines.join('\n')}\n`
  })
  return [heading, ...sections].join('\n')
}

/** Every page but those of the API, whose types an editor reads from the package. */
export function llmsFull(pages: readonly Page[]): string {
  const texts = pages
    .filter(({ path }) => !/^docs\/(?:api\/(?!README)|formats\/)|^CHANGELOG|^bench/.test(path))
    .map(({ path, text }) => `<!-- ${path} -->\n\n${text.trim()}\n`)
  return [heading, ...texts].join('\n')
}

/** The first sentence of the first paragraph, without Markdown. */
export function firstSentence(text: string): string {
  const paragraphs = text
    .replaceAll(/<!--[\s\S]*?-->/g, '')
    .split(/\n{2,}/)
    .filter((part) => /^[A-Z*`[]/.test(part) && !part.startsWith('```'))
  const plain = linkTexts(paragraphs[0] ?? '').replaceAll(/\*\*|`|\s+/g, (match) => (match.trim() === '' ? ' ' : ''))
  return (/^.*?[.:](?= |$)/.exec(plain)?.[0] ?? plain).replace(/:$/, '.')
}

function linkTexts(text: string): string {
  return replaceLinks(text, () => '').replaceAll(/!?\[([^\]]*)\]\(\)/g, '$1')
}
