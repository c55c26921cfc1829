// The site without its builder: every page has a place, every link and anchor leads to a page, every block of code has a
// language. test/site/browser.test.ts looks at the built site.

import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { firstSentence, llmsFull, llmsIndex } from '../../site/llms.ts'
import { addressOf, anchorOf, type Page, readPages, replaceLinks, root, stage, targetOf } from '../../site/pages.ts'
import { sectionsOf } from '../../site/sections.ts'

const pages = readPages()
const placed = sectionsOf(pages).flatMap(({ groups }) => groups.flatMap((group) => group.pages))

it('every page has one place in the sections of the site', () => {
  expect(pages.length).toBeGreaterThan(100)
  expect(pages.map(({ path }) => path).filter((path) => !placed.includes(path))).toEqual([])
  expect(placed.filter((path, i) => placed.indexOf(path) !== i)).toEqual([])
})

it('the six sections are there, and the first page of the site is the tutorial', () => {
  expect(sectionsOf(pages).map(({ text }) => text)).toEqual([
    ...['Start', 'Guides', 'Concepts', 'Reference', 'Compare and move', 'Operate'],
  ])
  expect(placed[0]).toBe('docs/start/tutorial.md')
})

it('every link and every anchor leads to a page, a picture or a source', () => {
  const byPath = new Map(pages.map((page) => [page.path, page]))
  const dead: string[] = []
  let followed = 0
  const isFound = (page: Page, link: string) => {
    const target = link.startsWith('#') ? { path: page.path, anchor: link.slice(1) } : targetOf(page.path, link)
    if (target === null) return true
    followed += 1
    const to = byPath.get(target.path)
    if (!to) return target.anchor === '' && existsSync(join(root, target.path))
    return target.anchor === '' || anchorsOf(to.text).has(target.anchor)
  }
  for (const page of pages) {
    replaceLinks(page.text, (link) => {
      if (!isFound(page, link)) dead.push(`${page.path}: ${link}`)
      return link
    })
  }
  expect(dead).toEqual([])
  expect(followed).toBeGreaterThan(500)
})

it('would find a dead link, and leaves links in code alone', () => {
  const seen: string[] = []
  const text = 'a [b](c.md#d) `[e](f.md)`\n\n```ts\n// [g](h.md)\n```\n\n[`i`](j.md)'
  expect(replaceLinks(text, (link) => `${seen.push(link)}`)).toContain('[`i`](2)')
  expect(seen).toEqual(['c.md#d', 'j.md'])
  expect(targetOf('docs/guides/jobs.md', '../api#x')).toEqual({ path: 'docs/api/README.md', anchor: 'x' })
})

it('every block of code names its language, so that it is compiled, run, or marked as output', () => {
  const known = /^ *```(?:ts|ts before|js|sh|bash|json|sql|java|text|yaml|python|hex \w+)$/
  const unknown = pages.flatMap(({ path, text }) =>
    // Every second fence closes a block.
    [...text.matchAll(/^ *```.*$/gm)]
      .filter((_, i) => i % 2 === 0)
      .flatMap(([fence]) => (known.test(fence) ? [] : [`${path}: ${fence}`])),
  )
  expect(unknown).toEqual([])
})

it('pages are staged with links among themselves, and sources become pages', () => {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-site-'))
  try {
    stage(folder)
    expect(addressOf('docs/guides/README.md')).toBe('guides/index.md')
    expect(pages.filter(({ address }) => !existsSync(join(folder, address)))).toEqual([])
    expect(existsSync(join(folder, addressOf('examples/papers.ts')))).toBe(true)
    expect(existsSync(join(folder, 'index.md'))).toBe(true)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

it('E9: llms.txt names every page with its first sentence, llms-full.txt has their text', () => {
  const index = llmsIndex(pages)
  for (const { address } of pages) expect(index).toContain(`](${address.replace(/\.md$/, '.html')})`)
  expect(index.split('\n').filter((line) => /^- \[.*\]\(.*\): ?$/.test(line))).toEqual([])
  const full = llmsFull(pages)
  expect(full).toContain('<!-- docs/guides/jobs.md -->')
  expect(full).not.toContain('<!-- docs/api/table.md -->')
  expect(firstSentence('# T\n\n**A** [job](x.md) `runs`. And more.')).toBe('A job runs.')
})

function anchorsOf(text: string): Set<string> {
  const headings = [...text.replaceAll(/^( *)```[\s\S]*?^ *```$/gm, '').matchAll(/^#+ (.*)$/gm)]
  return new Set(headings.map(([, heading]) => anchorOf(heading!)))
}
