// The dashboard in a real browser, over a real socket, on a store in which something of every model has happened. Skipped,
// with the reason, where there is no browser.

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import axe from 'axe-core'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { open, type Reprise } from '../../src/index.ts'
import { type Server, serve } from '../../src/server/index.ts'
import { defaultServerLimits } from '../../src/server/limits.ts'
import { type Listening, listen } from '../../src/server/listen.ts'
import { findBrowser, launch } from '../support/browser.mjs'
import { checkout, counter, definitions, fillWorld } from './dashboard-world.ts'
import { at, secret, tokens } from './support.ts'

const found = await findBrowser()
if ('missing' in found) console.warn(`the dashboard is not looked at: ${found.missing}`)

const program = fileURLToPath(new URL('../programs/dashboard-worker.mjs', import.meta.url))
/** Where pictures go, if somebody wants to look: REPRISE_SCREENSHOTS=folder. */
const pictures = process.env.REPRISE_SCREENSHOTS
const patienceMs = 120_000

let folder: string
let rp: Reprise
let server: Server
let listening: Listening
let browser: Browser
let context: BrowserContext
let page: Page
const children: ChildProcess[] = []
/** What a page said or asked for that it should not have. */
const faults: string[] = []

describe.skipIf('missing' in found)('the dashboard', () => {
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'reprise-dashboard-'))
    rp = await open(`sqlite:${join(folder, 'store.db')}`, { housekeeping: false })
    await fillWorld(rp, folder)
    server = serve(rp, { tokens, definitions })
    listening = await listen(server, { port: 0, limits: defaultServerLimits })
    browser = await launch(found)
    context = await enter('owner')
    page = await watched(context)
    await page.goto(`${listening.url}/`)
  })

  afterAll(async () => {
    for (const child of children) child.kill('SIGKILL')
    await browser?.close()
    await listening?.close()
    await server?.close()
    await rp?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  afterEach(() => {
    expect(faults.splice(0)).toEqual([])
  })

  it('lets a browser in by a link that works once, and tells one without it how to get in', async () => {
    const stranger = await browser.newContext({ locale: 'en-US' })
    stranger.setDefaultTimeout(patienceMs)
    const other = await stranger.newPage()
    await other.goto(`${listening.url}/`)
    await other.getByRole('heading', { name: 'This page needs a link' }).waitFor()
    const link = listening.url + server.link('reader')
    await other.goto(link)
    await other.getByText('reader · read').waitFor()
    expect((await other.request.get(link)).status()).toBe(401)
    await other.close()
  })

  it('has scripts and styles of its own only, under a policy that allows no others', async () => {
    const response = await page.request.get(`${listening.url}/`)
    const policy = response.headers()['content-security-policy']!
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'")
    expect(policy).not.toContain('unsafe')
    expect(await response.text()).not.toMatch(/https?:\/\//)
    const files = [...(await response.text()).matchAll(/(?:src|href)="(assets\/[^"]+)"/g)].map(([, path]) => path!)
    expect(files).toHaveLength(3)
    for (const file of files) {
      const { headers } = await fetch(`${listening.url}/${file}`)
      expect([file, headers.get('cache-control')]).toEqual([file, 'public, max-age=31536000, immutable'])
    }
  })

  const screens: readonly (readonly [name: string, hash: string, seen: string])[] = [
    ['runs', '#/runs', 'stuck undoing reserve: the warehouse does not take it back'],
    ['everything', '#/runs?all=1', 'agent/support/ticket-7'],
    ['run-failed', '#/t/workflow%2Fcheckout%2Forder-1004', 'no courier for this address'],
    ['run-retrying', '#/t/workflow%2Fcheckout%2Forder-1003?row=3', '503 from the bank: try again later'],
    ['job', '#/t/job%2Fpapers', '404 for that paper'],
    ['aggregate', '#/t/events%2Faccount%2Falice?tab=travel', 'What this entry changed'],
    ['time-travel', '#/t/counter%2Fvisits?tab=travel&seq=7', 'counter/what-if'],
    ['agent', '#/t/agent%2Fsupport%2Fticket-7?tab=travel', 'My parcel never came.'],
    ['table', '#/t/table%2Fsessions', 'reprise show table/sessions'],
    ['checkpoints', '#/t/save%2Ftraining?tab=checkpoints', 'Try a restore'],
    ['raw', '#/t/job%2Fpapers?tab=raw', 'started'],
    ['storage', '#/storage', 'Checkpoints taken last'],
    ['system', '#/system', 'pipeline/revenue'],
  ]

  it.each(screens)(
    'shows %s with real data, in light and dark, and breaks no rule of accessibility',
    async (name, hash, seen) => {
      await page.goto(`${listening.url}/${hash}`)
      await page.getByText(seen).locator('visible=true').first().waitFor()
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme })
        // Only colours differ.
        expect(await violations(page, colorScheme === 'dark' ? ['color-contrast'] : null)).toEqual([])
        if (pictures !== undefined) {
          mkdirSync(pictures, { recursive: true })
          await page.waitForLoadState('networkidle').catch(() => undefined)
          await page.screenshot({ path: join(pictures, `${name}-${colorScheme}.png`) })
        }
      }
      await page.emulateMedia({ colorScheme: 'light' })
    },
  )

  it('filters and searches by the address alone, and finds its way back', async () => {
    await page.goto(`${listening.url}/#/runs?text=order-100&status=waiting`)
    await page.getByRole('link', { name: 'workflow/checkout/order-1003' }).waitFor()
    await page.getByRole('link', { name: 'workflow/checkout/order-1004' }).waitFor({ state: 'detached' })
    await page.getByRole('button', { name: /^waiting/, pressed: true }).click()
    await page.getByRole('link', { name: 'workflow/checkout/order-1004' }).waitFor()
    expect(new URL(page.url()).hash).toBe('#/runs?text=order-100')
    await page.goBack()
    await page.getByRole('link', { name: 'workflow/checkout/order-1004' }).waitFor({ state: 'detached' })
  })

  it('shows a run that begins while it is looked at, and goes all the way by keyboard', async () => {
    await page.goto(`${listening.url}/#/runs?text=order-2000`)
    await page.getByText('Nothing matches').waitFor()
    await page.evaluate('window.stillHere = true')
    await rp.run(checkout, { cents: 500 }, { id: 'order-2000' })
    await page.getByText('waits for signal approve').waitFor()
    await page.keyboard.press('j')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'workflow/checkout/order-2000' }).waitFor()
    await page.getByRole('option', { name: /charge-card/ }).waitFor()
    await page.getByRole('button', { name: 'Signal…' }).focus()
    await page.keyboard.press('Enter')
    await page.getByLabel('Name of the signal').focus()
    await page.keyboard.type('approve')
    await page.keyboard.press('Tab')
    await page.keyboard.type('{ "by": "a person" }')
    await page.getByRole('button', { name: 'Send a signal' }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('option', { name: /completed/ }).waitFor()
    expect((await rp.head('workflow/checkout/order-2000'))?.status).toBe('completed')
    await page.keyboard.press('j')
    await page.getByRole('complementary').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('complementary').waitFor({ state: 'detached' })
    await page.keyboard.press('Escape')
    await page.getByRole('heading', { name: 'Runs' }).waitFor()
    expect(await page.evaluate('window.stillHere')).toBe(true)
  })

  it('plans a rollback, says what it undoes, and then goes back', async () => {
    await page.goto(`${listening.url}/#/t/counter%2Fwhat-if?tab=travel&seq=4`)
    await page.getByRole('button', { name: 'Roll back here…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText(/It goes on from entry 4/).waitFor()
    expect(await dialog.innerText()).toMatch(/2 of 6 entries no longer count/)
    await dialog.getByRole('button', { name: 'Roll back' }).click()
    await page.getByText('4 of 4').first().waitFor()
    expect((await rp.head('counter/what-if'))?.seq).toBe(4)
  })

  it('sends dead letters back, and decides what an agent waits for', async () => {
    await page.goto(`${listening.url}/#/t/job%2Fpapers`)
    await page.getByRole('button', { name: 'Send all back…' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Send dead letters back' }).click()
    await page.getByText('1 will be tried again').waitFor()
    await page.goto(`${listening.url}/#/t/agent%2Fsupport%2Fticket-7`)
    await page.getByRole('button', { name: 'Decide…' }).first().click()
    await page.getByRole('dialog').getByRole('button', { name: 'Decide' }).click()
    await page.getByText(/told agent\/support\/ticket-7: approve/).waitFor()
  })

  it('does the same to many runs after a look at each', async () => {
    await page.goto(`${listening.url}/#/runs?text=order-100`)
    await page.getByLabel('Select workflow/checkout/order-1001').check()
    await page.getByLabel('Select workflow/checkout/order-1002').check()
    await page.getByRole('button', { name: 'Cancel…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('it has ended').waitFor()
    await dialog.getByRole('button', { name: 'cancel 1 run' }).click()
    await page.getByText('cancel: asked 1 run').waitFor()
  })

  it('has no button that works for somebody who may only look', async () => {
    const reader = await watched(await enter('reader'))
    await reader.goto(`${listening.url}/#/t/workflow%2Fcheckout%2Forder-1003`)
    await reader.getByRole('option', { name: /charge-card/ }).waitFor()
    for (const name of ['Signal…', 'Cancel…', 'Fork…']) {
      expect(await reader.getByRole('button', { name, exact: true }).isDisabled()).toBe(true)
    }
    await reader.close()
  })

  it('asks for nothing that a token may not see or a state that nobody here can fold', async () => {
    const headers = { authorization: `Bearer ${secret('ann')}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ entries: [{ type: 'noted', data: { n: 1 } }] })
    const made = await fetch(`${listening.url}${at('ann/notes')}/entries`, { method: 'POST', headers, body })
    expect(made.status).toBe(200)
    const ann = await watched(await enter('ann'))
    await ann.goto(`${listening.url}/#/runs?all=1`)
    await ann.getByRole('link', { name: 'ann/notes' }).click()
    // The keys of this screen work once it is there.
    await ann.getByRole('option', { name: /noted/ }).waitFor()
    await ann.keyboard.press('t')
    await ann.getByText('The state needs its code').waitFor()
    for (const screen of ['system', 'storage']) {
      await ann.goto(`${listening.url}/#/${screen}`)
      await ann.getByText('This needs a token that reaches the whole store').first().waitFor()
    }
    await ann.close()
  })

  it('has thousands of entries in a list and only those in the page that are seen', async () => {
    const handle = await rp.open(counter, 'long')
    for (let n = 0; n < 10; n += 1) {
      await handle.append(Array.from({ length: 1000 }, (_, i) => ({ type: 'added' as const, by: i })))
    }
    await handle.close()
    await page.goto(`${listening.url}/#/t/counter%2Flong`)
    const list = page.getByRole('listbox', { name: 'Journal' })
    await page.getByText('10,000 rows').waitFor()
    await list.focus()
    await page.keyboard.press('Home')
    await page.locator('#row-0[aria-selected="true"]').waitFor()
    await page.keyboard.press('End')
    await page.locator('#row-9999[aria-selected="true"]').waitFor()
    expect(await page.getByRole('option').count()).toBeLessThan(120)
    expect(await page.locator('#row-9999').getAttribute('aria-setsize')).toBe('10000')
  })

  it('shows a worker killed, another one taking the run over, and the step that goes on, without a reload', async () => {
    const url = `sqlite:${join(folder, 'store.db')}`
    const first = await worker(url, 'first')
    await page.goto(`${listening.url}/#/t/workflow%2Fparcel%2Fp-1`)
    await page.evaluate('window.stillHere = true')
    writeFileSync(join(folder, 'pack'), '')
    await page.getByRole('option', { name: /pack/ }).waitFor()
    await page.getByText(/on worker first/).waitFor()
    first.kill('SIGKILL')
    // Gone with the run in its hands, or declared dead already by a process that lives.
    await page.getByText(/^stopped: /).waitFor()
    if (pictures !== undefined) await page.screenshot({ path: join(pictures, 'killed-light.png') })
    await worker(url, 'second')
    await page.getByText(/on worker second/).waitFor()
    for (const step of ['label', 'hand-over', 'notify']) writeFileSync(join(folder, step), '')
    await page.getByRole('option', { name: /taken over by another worker/ }).waitFor()
    await page.getByRole('option', { name: /completed/ }).waitFor()
    await page.getByRole('option', { name: /label/ }).click()
    await page.getByRole('complementary').getByText('second').waitFor()
    if (pictures !== undefined) await page.screenshot({ path: join(pictures, 'taken-over-light.png') })
    expect(await page.evaluate('window.stillHere')).toBe(true)
  })
})

async function worker(url: string, name: string): Promise<ChildProcess> {
  const child = fork(program, [url, folder, name], { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  children.push(child)
  const said: string[] = []
  child.stderr?.on('data', (text) => said.push(String(text)))
  await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(([code]) => {
      throw new Error(`the worker ended with ${code}: ${said.join('')}`)
    }),
  ])
  return child
}

/** A browser of its own, let in as the token of this name. */
async function enter(name: string): Promise<BrowserContext> {
  const made = await browser.newContext({ locale: 'en-US', viewport: { width: 1360, height: 860 } })
  made.setDefaultTimeout(patienceMs)
  const first = await made.newPage()
  await first.goto(listening.url + server.link(name))
  await first.close()
  return made
}

/** Whatever it says on the console, throws, or asks another host for, is a fault. */
async function watched(made: BrowserContext): Promise<Page> {
  const opened = await made.newPage()
  opened.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) faults.push(`${message.type()}: ${message.text()}`)
  })
  opened.on('pageerror', (error) => faults.push(`thrown: ${error.message}`))
  opened.on('request', (request) => {
    if (!request.url().startsWith(`${listening.url}/`)) faults.push(`asked ${request.url()}`)
  })
  return opened
}

/** Of these rules; null: of all. */
async function violations(looked: Page, rules: readonly string[] | null): Promise<string[]> {
  await looked.evaluate(axe.source)
  const options = JSON.stringify({ resultTypes: ['violations'], ...(rules && { runOnly: rules }) })
  return (await looked.evaluate(`axe.run(document, ${options}).then(({ violations }) => violations.flatMap(
    ({ id, nodes }) => nodes.map(({ html, any }) => id + ': ' + html.slice(0, 160) + ' ' + (any[0]?.message ?? ''))))`)) as string[]
}
