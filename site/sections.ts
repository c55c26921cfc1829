// The order of the site: six sections, from the lists that the README.md of a folder keeps for its readers. A page that no list
// has is a failure of test/site/pages.test.ts.

import { type Page, read, replaceLinks, targetOf } from './pages.ts'

export interface Group {
  readonly text: string
  /** Paths of pages in the repository. */
  readonly pages: readonly string[]
}

export interface Section {
  readonly text: string
  readonly groups: readonly Group[]
}

/** Pages of the list of guides that readers expect under Reference. */
const reference = ['docs/guides/cli.md', 'docs/guides/server.md', 'docs/guides/sql-values.md', 'docs/guides/lint.md']

export function sectionsOf(pages: readonly Page[]): Section[] {
  const guides = new Map(listsOf('docs/guides/README.md').map((group) => [group.text, group.pages]))
  const guidesOf = (name: string) => {
    const listed = guides.get(name)
    if (!listed) throw new Error(`docs/guides/README.md has no section ${name}`)
    return listed.filter((path) => !reference.includes(path))
  }
  const folder = (name: string) => {
    const own = listsOf(`docs/${name}/README.md`).flatMap((group) => group.pages)
    return [`docs/${name}/README.md`, ...own.filter((path) => path.startsWith(`docs/${name}/`))]
  }
  const others = guidesOf('Tasks')
  return [
    { text: 'Start', groups: [{ text: 'Start', pages: ['docs/start/tutorial.md'] }] },
    {
      text: 'Guides',
      groups: [
        { text: 'By task', pages: ['docs/guides/README.md', ...others] },
        { text: 'By model', pages: guidesOf('Models') },
      ],
    },
    { text: 'Concepts', groups: [{ text: 'Concepts', pages: [...folder('concepts'), 'docs/guarantees.md'] }] },
    {
      text: 'Reference',
      groups: [
        { text: 'Commands, HTTP, errors', pages: [...reference, 'docs/errors.md', 'docs/runtimes.md'] },
        { text: 'API', pages: folder('api') },
        { text: 'Stored formats', pages: folder('formats') },
      ],
    },
    {
      text: 'Compare and move',
      groups: [
        { text: 'Move', pages: [...folder('moving'), ...guidesOf('Moving and connecting')] },
        { text: 'Compare', pages: [...guidesOf('Comparisons'), 'bench/README.md'] },
      ],
    },
    {
      text: 'Operate',
      groups: [{ text: 'Operate', pages: [...guidesOf('Operating'), 'CHANGELOG.md', 'SECURITY.md'] }],
    },
  ].map((section) => ({ ...section, groups: section.groups.map((group) => onlyOf(group, pages)) }))
}

/** Some lists also name files that are not pages of the site. */
function onlyOf(group: Group, pages: readonly Page[]): Group {
  return { ...group, pages: group.pages.filter((path) => pages.some((page) => page.path === path)) }
}

/** The pages that a page links in lists and tables, by heading. */
export function listsOf(path: string): Group[] {
  return read(path)
    .split(/^## /m)
    .map((part) => {
      const pages: string[] = []
      const lines = part.split('\n').filter((line) => /^(?:- |\| ?\[)/.test(line))
      replaceLinks(lines.join('\n'), (link) => {
        const target = targetOf(path, link)
        if (target?.path.endsWith('.md')) pages.push(target.path)
        return link
      })
      return { text: part.split('\n', 1)[0]!, pages: [...new Set(pages)] }
    })
    .filter(({ pages }) => pages.length > 0)
}
