// The dashboard opened in a real browser, over a real socket, on a store of its own.

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import axe from 'axe-core'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { open, type Reprise } from '../../src/index.ts'
import { type AccessToken, type Server, type ServeSettings, serve } from '../../src/server/index.ts'
import { defaultServerLimits } from '../../src/server/limits.ts'
import { type Listening, listen } from '../../src/server/listen.ts'
import { findBrowser, launch } from '../support/browser.mjs'
import { definitions, fillWorld } from './dashboard-world.ts'
import { tokens } from './support.ts'

export const found = await findBrowser()
if ('missing' in found) console.warn(`the dashboard is not looked at: ${found.missing}`)

/** The folder for screenshots, for inspection: REPRISE_SCREENSHOTS=folder. */
const pictures = process.env.REPRISE_SCREENSHOTS
const patienceMs = 60_000
const viewport = { width: 1360, height: 860 }

export class Dashboard {
  readonly folder: string
  readonly url: string
  readonly rp: Reprise
  readonly server: Server
  /** Errors, console output and foreign requests of a page. */
  readonly faults: string[] = []
  readonly #browser: Browser
  #listening: Listening
  #page: Page | null = null

  private constructor(folder: string, rp: Reprise, server: Server, listening: Listening, browser: Browser) {
    this.folder = folder
    this.rp = rp
    this.server = server
    this.#listening = listening
    this.url = listening.url
    this.#browser = browser
  }

  static async open(options: ServeSettings & { tokens?: readonly AccessToken[] } = {}): Promise<Dashboard> {
    const folder = mkdtempSync(join(tmpdir(), 'reprise-dashboard-'))
    const rp = await open(`sqlite:${join(folder, 'store.db')}`, { housekeeping: false })
    const [browser] = await Promise.all([launch(found), fillWorld(rp, folder)])
    const server = serve(rp, { tokens, definitions, ...options })
    const listening = await listen(server, { port: 0, limits: defaultServerLimits })
    const made = new Dashboard(folder, rp, server, listening, browser)
    made.#page = await made.enter('owner')
    return made
  }

  /** The page of the owner, which most tests use. */
  get page(): Page {
    return this.#page!
  }

  async close(): Promise<void> {
    await this.#browser.close()
    await this.#listening.close()
    await this.server.close()
    await this.rp.close()
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** No listener until it is cancelled. */
  async away(meanwhile: () => Promise<void>): Promise<void> {
    const { port } = new URL(this.url)
    await this.#listening.close()
    await meanwhile()
    this.#listening = await listen(this.server, { port: Number(port), limits: defaultServerLimits })
  }

  /** To a screen by the hash of its address. The page stays the same one, as when a link is clicked. */
  async show(hash: string): Promise<void> {
    await this.page.goto(`${this.url}/${hash}`)
  }

  async stranger(): Promise<BrowserContext> {
    const made = await this.#browser.newContext({ locale: 'en-US', viewport })
    made.setDefaultTimeout(patienceMs)
    return made
  }

  /**
   * A separate browser, signed in with the token of this name. Console output, errors and requests to another host are
   * faults.
   */
  async enter(name: string): Promise<Page> {
    const page = await (await this.stranger()).newPage()
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) this.faults.push(`${message.type()}: ${message.text()}`)
    })
    page.on('pageerror', (error) => this.faults.push(`thrown: ${error.message}`))
    page.on('request', (request) => {
      if (!request.url().startsWith(`${this.url}/`)) this.faults.push(`asked ${request.url()}`)
    })
    await page.goto(this.url + this.server.link(name))
    await page.getByRole('heading', { name: 'Runs' }).waitFor()
    return page
  }

  async picture(name: string): Promise<void> {
    if (pictures === undefined) return
    mkdirSync(pictures, { recursive: true })
    // The stream of changes stays open, so the network is never idle for long.
    await this.page.waitForLoadState('networkidle', { timeout: 1000 }).catch(() => undefined)
    await this.page.screenshot({ path: join(pictures, `${name}.png`) })
  }

  /** Rules of accessibility that the page breaks: of these, or null: of all. */
  async violations(rules: readonly string[] | null): Promise<string[]> {
    if (!(await this.page.evaluate('"axe" in window'))) await this.page.evaluate(axe.source)
    const options = { resultTypes: ['violations'], preload: false, iframes: false, ...(rules && { runOnly: rules }) }
    return (await this.page.evaluate(`axe.run(document, ${JSON.stringify(options)}).then(({ violations }) => violations.flatMap(
      ({ id, nodes }) => nodes.map(({ html, any }) => id + ': ' + html.slice(0, 160) + ' ' + (any[0]?.message ?? ''))))`)) as string[]
  }

  /** The elements that make the page scroll sideways in a window of this width, once it is laid out. */
  async tooWide(width: number): Promise<string[]> {
    await this.page.setViewportSize({ width, height: 800 })
    const wide = async () =>
      (await this.page.evaluate(`document.documentElement.scrollWidth <= ${width} ? [] : ['the page scrolls sideways',
        ...[...document.body.querySelectorAll('*')].filter((node) => node.getBoundingClientRect().right > ${width})
        .map((node) => node.outerHTML.slice(0, 120))]`)) as string[]
    let found = await wide()
    // A chart is drawn anew some moments after its box has changed.
    for (let looks = 0; found.length > 0 && looks < 40; looks += 1) {
      await this.page.waitForTimeout(50)
      found = await wide()
    }
    await this.page.setViewportSize(viewport)
    return found
  }
}
