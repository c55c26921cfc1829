// The built site in a real browser: it builds without a dead link, its search finds, pages are accessible in both themes and
// fit a phone, and no request leaves it. The build takes a minute, so it runs on demand:
// REPRISE_SITE=all, or REPRISE_SITE=built for the site as it was built last.

import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'
import axe from 'axe-core'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { root } from '../../site/pages.ts'
import { findBrowser, launch } from '../support/browser.mjs'

const { REPRISE_SITE: wanted = '' } = process.env
const found = ['all', 'built'].includes(wanted) ? await findBrowser() : { missing: 'REPRISE_SITE=all builds it' }
if ('missing' in found) console.warn(`the built site is not looked at: ${found.missing}`)

const built = join(root, '.site/built')
const types: Readonly<Record<string, string>> = {
  ...{ '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' },
  ...{ '.png': 'image/png', '.json': 'application/json', '.txt': 'text/plain' },
}

describe.skipIf('missing' in found)('the built site', () => {
  const faults: string[] = []
  let server: Server
  let browser: Browser
  let page: Page
  let url = ''

  beforeAll(async () => {
    if (wanted === 'all') execFileSync('npm', ['run', 'docs'], { cwd: root, stdio: 'inherit' })
    server = createServer((request, response) => {
      const path = decodeURIComponent(new URL(request.url!, 'http://x').pathname)
      const file = [path, `${path}.html`, join(path, 'index.html')]
        .map((each) => join(built, each))
        .find((each) => existsSync(each) && statSync(each).isFile())
      if (!file) faults.push(`404 ${path}`)
      response.writeHead(file ? 200 : 404, { 'content-type': types[extname(file ?? '')] ?? 'text/plain' })
      response.end(file ? readFileSync(file) : '')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()))
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    browser = await launch(found)
    page = await browser.newPage({ viewport: { width: 1360, height: 860 } })
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) faults.push(`${message.type()}: ${message.text()}`)
    })
    page.on('pageerror', (error) => faults.push(`thrown: ${error.message}`))
    page.on('request', (request) => {
      if (!request.url().startsWith(`${url}/`) && !request.url().startsWith('data:')) faults.push(`to ${request.url()}`)
    })
  }, 600_000)

  afterAll(async () => {
    await browser?.close()
    server?.close()
  })

  const shown = ['/', '/start/tutorial', '/guides/', '/guides/jobs', '/concepts/append', '/api/save', '/errors']

  it.each(shown)('%s is accessible in both themes, fits a phone, and asks no other host', async (path) => {
    for (const scheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' })
      await page.goto(url + path)
      await page.locator('h1').first().waitFor()
      expect(await page.evaluate('document.documentElement.classList.contains("dark")')).toBe(scheme === 'dark')
      expect([scheme, await violations(page)]).toEqual([scheme, []])
    }
    await page.setViewportSize({ width: 390, height: 800 })
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390)
    await page.setViewportSize({ width: 1360, height: 860 })
    expect(faults.splice(0)).toEqual([])
  })

  it('the search finds prose, the name of an export and an error code, and opens the page', async () => {
    for (const [words, seen] of [
      ['compensation', /Sagas|Workflows/],
      ['stateStore', /stateStore/],
      ['FENCED', /FENCED/],
    ] as const) {
      await page.goto(`${url}/guides/`)
      await page.getByRole('button', { name: 'Search' }).first().click()
      await page.getByPlaceholder('Search').fill(words)
      await page.locator('.results .result').filter({ hasText: seen }).first().waitFor()
      await page.keyboard.press('Enter')
      await page.waitForURL((address) => address.pathname !== '/guides/')
    }
    expect(faults.splice(0)).toEqual([])
  })

  it('the index of the search has less than 800 KB and is loaded only by a search', () => {
    const chunks = readdirSync(join(built, 'assets/chunks'))
    const index = chunks.find((name) => name.startsWith('@localSearchIndex'))!
    expect(statSync(join(built, 'assets/chunks', index)).size).toBeLessThan(800_000)
    expect(readFileSync(join(built, 'guides/jobs.html'), 'utf8')).not.toContain(index)
  })

  it('every link of every page leads to a file of the site', () => {
    const pages = readdirSync(built, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.html'))
    expect(pages.length).toBeGreaterThan(120)
    const dead = new Set<string>()
    for (const name of pages) {
      const html = readFileSync(join(built, name), 'utf8')
      for (const [, link] of html.matchAll(/(?:href|src)="(\/[^"#?]*)/g)) {
        const at = [link!, `${link}.html`, join(link!, 'index.html')].map((each) => join(built, each))
        if (!at.some((each) => existsSync(each) && statSync(each).isFile())) dead.add(`${name}: ${link}`)
      }
    }
    expect([...dead]).toEqual([])
  })
})

async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axe.source)
  return (await page.evaluate(`axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.flatMap(
    ({ id, nodes }) => nodes.slice(0, 3).map(({ html, any }) => id + ': ' + html.slice(0, 160) + ' ' + (any[0]?.message ?? ''))))`)) as string[]
}
