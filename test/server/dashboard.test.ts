// The dashboard in a real browser, on a store with events of every model: every screen, as different people see it. Actions are
// in dashboard-acts.test.ts. Skipped, with the reason, where there is no browser.

import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { hostOf } from '../support/host.ts'
import { Dashboard, found } from './dashboard-support.ts'
import { counter, square } from './dashboard-world.ts'
import { at, secret } from './support.ts'

let board: Dashboard

describe.skipIf('missing' in found)('D2: the dashboard', () => {
  beforeAll(async () => {
    board = await Dashboard.open()
  })

  afterAll(async () => {
    await board?.close()
  })

  afterEach(() => {
    expect(board.faults.splice(0)).toEqual([])
  })

  it('lets a browser in by a link that works once, and tells one without it how to get in', async () => {
    const other = await (await board.stranger()).newPage()
    await other.goto(`${board.url}/`)
    await other.getByRole('heading', { name: 'This page needs a link' }).waitFor()
    const link = board.url + board.server.link('reader')
    await other.goto(link)
    await other.getByText('reader · read').waitFor()
    await other.close()
    const third = await (await board.stranger()).newPage()
    await third.goto(link)
    await third.getByText('the link was already used, or has expired').waitFor()
    await third.getByLabel('Or paste a token').fill(secret('reader'))
    await third.getByRole('button', { name: 'Log in' }).click()
    await third.getByText('reader · read').waitFor()
    expect(await third.context().cookies()).toEqual([])
    await third.close()
  })

  it('makes marks of direction visible in an id, which would make it look like another', async () => {
    const { rp, page } = board
    const turned = await rp.open(counter, 'a\u202eb\u2066c')
    await turned.append({ type: 'added', by: 1 })
    await turned.close()
    await board.show('#/runs?all=1&text=counter')
    await page.getByRole('link', { name: 'counter/a\\u202eb\\u2066c' }).waitFor()
    expect(await page.locator('main').innerText()).not.toMatch(/[\u202a-\u202e\u2066-\u2069]/)
  })

  it('has scripts and styles of its own only, under a policy that allows no others', async () => {
    const response = await fetch(`${board.url}/`)
    const policy = response.headers.get('content-security-policy')!
    const page = await response.text()
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'")
    expect(policy).not.toContain('unsafe')
    expect(page).not.toMatch(/https?:\/\//)
    const files = [...page.matchAll(/(?:src|href)="(assets\/[^"]+)"/g)].map(([, path]) => path!)
    expect(files).toHaveLength(3)
    for (const file of files) {
      const { headers } = await fetch(`${board.url}/${file}`)
      expect([file, headers.get('cache-control')]).toEqual([file, 'public, max-age=31536000, immutable'])
    }
  })

  const screens: readonly (readonly [name: string, hash: string, seen: string])[] = [
    ['runs', '#/runs', 'stuck undoing reserve: the warehouse does not take it back'],
    ['everything', '#/runs?all=1', 'agent/support/ticket-7'],
    ['run-failed', '#/t/workflow%2Fcheckout%2Forder-1004', 'its steps were undone, so it cannot be retried'],
    ['run-retrying', '#/t/workflow%2Fcheckout%2Forder-1003?row=3', '503 from the bank: try again later'],
    ['run-rolled-back', '#/t/workflow%2Ftrip%2Ft-1', 'went back to hotel'],
    ['job', '#/t/job%2Fpapers', '404 for that paper'],
    ['aggregate', '#/t/events%2Faccount%2Falice?tab=travel', 'What this entry changed'],
    ['time-travel', '#/t/counter%2Fvisits?tab=travel&seq=7', 'counter/what-if'],
    ['run-travel', '#/t/workflow%2Fcheckout%2Forder-1002?tab=travel&seq=3', 'steps.charge-card'],
    ['agent', '#/t/agent%2Fsupport%2Fticket-7', 'refund({"cents":1999})'],
    ['agent-travel', '#/t/agent%2Fsupport%2Fticket-7?tab=travel', 'My parcel never came.'],
    ['table', '#/t/table%2Fsessions', 'set s1, s2'],
    ['pipeline', '#/t/pipeline%2Frevenue', 'before it: it does not run now'],
    ['checkpoints', '#/t/save%2Ftraining?tab=checkpoints', 'checkpoint policy'],
    ['raw', '#/t/job%2Fpapers?tab=raw', 'started'],
    ['memo', '#/runs?kind=memo', 'memo/square'],
    ['resource', '#/t/resource%2Fsites', 'web'],
    ['config-clients', '#/t/config%2Fflags%2Fclients', 'a limit must be positive'],
    ['storage', '#/storage', 'Checkpoints taken last'],
    ['system', '#/system', 'pipeline/revenue'],
  ]

  it.each(screens)(
    'shows %s with real data, in light and dark, wide and narrow, to every role',
    async (name, hash, seen) => {
      const { page } = board
      await board.show(hash)
      await page.getByText(seen).locator('visible=true').first().waitFor()
      expect(await page.getByRole('link', { name: 'Open JSON' }).count()).toBeGreaterThan(0)
      expect(await page.getByRole('button', { name: 'Copy as command line' }).count()).toBeGreaterThan(0)
      expect(await board.violations(null)).toEqual([])
      await board.picture(`${name}-light`)
      await page.emulateMedia({ colorScheme: 'dark' })
      await page.locator('html[data-theme="dark"]').waitFor()
      // Only colours differ.
      expect(await board.violations(['color-contrast'])).toEqual([])
      await board.picture(`${name}-dark`)
      await page.emulateMedia({ colorScheme: 'light' })
      expect(await board.tooWide(400)).toEqual([])
    },
  )

  it('filters and searches by the address alone, and finds its way back', async () => {
    const { page } = board
    await board.show('#/runs?text=order-100&status=waiting')
    await page.getByRole('link', { name: 'workflow/checkout/order-1003' }).waitFor()
    await page.getByRole('link', { name: 'workflow/checkout/order-1004' }).waitFor({ state: 'detached' })
    await page.getByRole('button', { name: /^waiting/, pressed: true }).click()
    await page.getByRole('link', { name: 'workflow/checkout/order-1004' }).waitFor()
    expect(new URL(page.url()).hash).toBe('#/runs?text=order-100')
    await page.goBack()
    await page.getByRole('link', { name: 'workflow/checkout/order-1004' }).waitFor({ state: 'detached' })
  })

  it('shows the status and the step of each run on a phone, without other columns', async () => {
    const { page } = board
    await page.setViewportSize({ width: 390, height: 800 })
    await board.show('#/runs?text=order-1003')
    const row = page.getByRole('row', { name: /order-1003/ })
    await row.locator('.stands').getByText('503 from the bank').waitFor()
    const boxes = await Promise.all(
      ['a', '.status', '.stands'].map(async (part) => (await row.locator(part).boundingBox())!),
    )
    const ends = boxes.map(({ x, width }) => x >= 0 && x + width <= 390)
    expect(ends).toEqual([true, true, true])
    // One under the other: none is squeezed by its neighbour.
    for (const [i, { y, height }] of boxes.slice(0, -1).entries()) {
      expect(boxes[i + 1]!.y).toBeGreaterThanOrEqual(y + height - 1)
    }
    // The error text has the width of the screen; the buttons are below.
    await board.show('#/t/workflow%2Fcheckout%2Forder-1005')
    const words = page.locator('.trouble-words')
    await words.waitFor()
    const [said, acts] = [(await words.boundingBox())!, (await page.locator('.trouble-acts').boundingBox())!]
    expect(said.width).toBeGreaterThan(240)
    expect(acts.y).toBeGreaterThanOrEqual(said.y + said.height)
    await page.setViewportSize({ width: 1360, height: 860 })
  })

  it('shows the id and the incarnation of the store, and the life and the branch of a timeline', async () => {
    const { page, rp } = board
    const { id, incarnation } = await hostOf(rp).kernel.identity.load(true)
    await board.show('#/system')
    await page.getByText(`store ${id}, incarnation ${incarnation}`).waitFor()
    // Made anew under its id, and rolled back since.
    for (const entries of [1, 3]) {
      const open = await rp.open(counter, 'again')
      for (let n = 0; n < entries; n++) await open.append({ type: 'added', by: 1 })
      await open.close()
      if (entries === 1) await rp.delete('counter/again')
    }
    await rp.rollback({ to: { timeline: 'counter/again', seq: 2 } })
    await board.show('#/t/counter%2Fagain')
    await page.locator('.facts > div', { hasText: /^life2$/ }).waitFor()
    await page.locator('.facts > div', { hasText: /^branch1$/ }).waitFor()
  })

  it('has a row for each execution of a step, and shows a takeover only where there was one', async () => {
    const { page } = board
    await board.show('#/t/workflow%2Ftrip%2Ft-1')
    await page.getByRole('option', { name: /cancelled/ }).waitFor()
    const titles = await page.locator('.row-title b').allInnerTexts()
    expect(titles.filter((title) => title === 'hotel')).toHaveLength(2)
    expect(titles.filter((title) => title === 'undo hotel')).toHaveLength(2)
    expect(titles).toContain('taken up by a worker')
    expect(titles).not.toContain('taken over by another worker')
  })

  it('counts the process that serves among the workers, as its table does', async () => {
    await board.show('#/system')
    await board.page.getByRole('cell', { name: 'alive' }).waitFor()
    await board.page.getByText('1 worker alive').waitFor()
    await board.page.getByRole('table', { name: 'Remembered results' }).getByText('memo/square').waitFor()
  })

  it('shows who has which version of a configuration, who refused one and why, and the kinds of resources', async () => {
    const { page } = board
    await board.show('#/system')
    const versions = page.getByRole('table', { name: 'Who has which version of flags' })
    await versions.getByRole('row', { name: 'version 1 2 100 %' }).waitFor()
    const refusals = page.getByRole('table', { name: 'Who refused a version of flags' })
    await refusals.getByRole('row', { name: /edge-2 version 2 a limit must be positive/ }).waitFor()
    await page.getByRole('table', { name: 'Resources' }).getByText('1 object').waitFor()
    await refusals.scrollIntoViewIfNeeded()
    await board.picture('system-configs')
  })

  it('shows the hit rate of the memos of the serving process', async () => {
    const squares = await board.rp.open(square)
    for (const side of [8, 8]) await squares.call(side)
    await board.show('#/system')
    const memos = board.page.getByRole('table', { name: 'Memos' })
    await memos.getByRole('row', { name: 'square 50 % 1 1' }).waitFor()
    const why = board.page.getByRole('table', { name: 'Why memos missed' })
    await why.getByRole('row', { name: /^square other arguments/ }).waitFor()
    await why.scrollIntoViewIfNeeded()
    await board.picture('system-memos')
  })

  it('shows the settings of the server with their origins, explicit ones first', async () => {
    await board.show('#/system')
    const settings = board.page.getByRole('table', { name: 'Settings' })
    await settings.getByRole('row', { name: 'access tokens option serve()' }).waitFor()
    await settings.getByRole('row', { name: 'limits.concurrency 128 default' }).waitFor()
    const origins = await settings.locator('tbody tr td:last-child').allInnerTexts()
    const usual = origins.indexOf('default')
    expect([usual > 0, new Set(origins.slice(usual))]).toEqual([true, new Set(['default'])])
    await settings.scrollIntoViewIfNeeded()
    await board.picture('system-settings')
  })

  it('has no working button for a read-only token', async () => {
    const reader = await board.enter('reader')
    await reader.goto(`${board.url}/#/t/workflow%2Fcheckout%2Forder-1003`)
    await reader.getByRole('option', { name: /charge-card/ }).waitFor()
    for (const name of ['Signal…', 'Cancel…', 'Fork…']) {
      expect(await reader.getByRole('button', { name, exact: true }).isDisabled()).toBe(true)
    }
    await reader.close()
  })

  it('requests nothing that a token may not see, and no state that cannot be folded here', async () => {
    const headers = { authorization: `Bearer ${secret('ann')}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ entries: [{ type: 'noted', data: { n: 1 } }] })
    const made = await fetch(`${board.url}${at('ann/notes')}/entries`, { method: 'POST', headers, body })
    expect(made.status).toBe(200)
    const ann = await board.enter('ann')
    await ann.goto(`${board.url}/#/runs?all=1`)
    await ann.getByRole('link', { name: 'ann/notes' }).click()
    // The keys of this screen work once it is shown.
    await ann.getByRole('option', { name: /noted/ }).waitFor()
    await ann.keyboard.press('t')
    await ann.getByText('The state needs its code').waitFor()
    for (const screen of ['system', 'storage']) {
      await ann.goto(`${board.url}/#/${screen}`)
      await ann.getByText('This needs a token that reaches the whole store').first().waitFor()
    }
    await ann.close()
  })

  it('has thousands of entries in a list and only those in the page that are seen', async () => {
    const { page } = board
    const handle = await board.rp.open(counter, 'long')
    for (let n = 0; n < 10; n += 1) {
      await handle.append(Array.from({ length: 1000 }, (_, i) => ({ type: 'added' as const, by: i })))
    }
    await handle.close()
    await board.show('#/t/counter%2Flong')
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
})
