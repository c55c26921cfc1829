// Things that are done in the dashboard, and things that happen while it is looked at: by keyboard, with bad input, while the
// server is away, and while a worker is killed.

import type { ChildProcess } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { open, type Reprise } from '../../src/index.ts'
import { collectSink, pipeline, valueSource } from '../../src/layers/pipeline/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { shownHead } from '../../src/operations/heads.ts'
import { entriesAfter } from '../../src/operations/history.ts'
import { until } from '../support/until.ts'
import { startWorker } from '../support/worker-process.ts'
import { Dashboard, found } from './dashboard-support.ts'
import { checkout, counter, Faucet, gate, gated, greet, visitsOf } from './dashboard-world.ts'
import { secret, tokens } from './support.ts'

const program = fileURLToPath(new URL('../programs/dashboard-worker.mjs', import.meta.url))

let board: Dashboard
let others: Readonly<Record<string, Reprise>>
const children: ChildProcess[] = []

describe.skipIf('missing' in found)('the dashboard', () => {
  beforeAll(async () => {
    others = { red: await open('memory:'), blue: await open('memory:') }
    const both = { name: 'both', token: secret('both'), role: 'write', namespaces: ['red', 'blue'] } as const
    board = await Dashboard.open({ tokens: [...tokens, both], namespaces: others })
  })

  afterAll(async () => {
    gate.open()
    for (const child of children) child.kill('SIGKILL')
    await board?.close()
    await Promise.all(Object.values(others).map((each) => each.close()))
  })

  afterEach(async () => {
    // A test that failed with a dialog open does not fail the tests after it.
    if ((await board.page.getByRole('dialog').count()) > 0) await board.page.reload()
    expect(board.faults.splice(0)).toEqual([])
  })

  it('shows a run that begins while it is looked at, and goes all the way by keyboard', async () => {
    const { page, rp } = board
    await board.show('#/runs?text=order-2000')
    await page.getByText('Nothing matches').waitFor()
    await page.evaluate('window.stillHere = true')
    await rp.run(checkout, { cents: 500 }, { id: 'order-2000' })
    await page.getByText('waits for signal approve').waitFor()
    await page.keyboard.press('j')
    await page.locator('#run-0:focus').waitFor()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'workflow/checkout/order-2000' }).waitFor()
    await page.getByRole('option', { name: /charge-card/ }).waitFor()
    await page.getByRole('button', { name: 'Signal…' }).focus()
    await page.keyboard.press('Enter')
    const dialog = page.getByRole('dialog')
    // The signal that is awaited is filled in, and the first field has the focus.
    await dialog.locator('#field-name:focus').waitFor()
    expect(await dialog.getByLabel('Name of the signal').inputValue()).toBe('approve')
    await page.keyboard.press('Tab')
    // The fault in the value is shown at its place, and disappears when the value is valid.
    await page.keyboard.type('{ "by" "a person" }')
    await dialog.getByText('line 1, column 8: expected :, got "').waitFor()
    const send = dialog.getByRole('button', { name: 'Send a signal' })
    expect(await send.isDisabled()).toBe(true)
    await dialog.getByLabel('Value').fill('{ "by": "a person" }')
    await send.focus()
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

  it('starts a run with a form from its schema, shows a fault at its field, and goes to the run', async () => {
    const { page, rp } = board
    await board.show('#/runs?text=greet')
    await page.getByText('Nothing matches').waitFor()
    const button = page.getByRole('button', { name: 'Start a run…' })
    await button.click()
    const dialog = page.getByRole('dialog')
    await dialog.locator('#field-definition:focus').waitFor()
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    await page.locator('button:focus', { hasText: 'Start a run…' }).waitFor()
    await button.blur()
    await page.keyboard.press('n')
    // No schema: an earlier input is the example.
    await dialog.getByLabel('Definition').selectOption('workflow checkout')
    expect(JSON.parse(await dialog.getByLabel('Input').inputValue())).toHaveProperty('cents')
    await dialog.getByLabel('Definition').selectOption('workflow greet')
    await dialog.getByText('who is greeted').waitFor()
    expect(await dialog.getByLabel('times').inputValue()).toBe('1')
    const start = dialog.getByRole('button', { name: 'Start' })
    expect([await start.isDisabled(), await start.getAttribute('title')]).toEqual([true, 'name: must be given'])
    await dialog.getByLabel('name').fill('A')
    await dialog.getByLabel('tone').selectOption('loud')
    await dialog.getByLabel('Id', { exact: true }).fill('first')
    expect(await board.violations(null)).toEqual([])
    await board.picture('start')
    expect(await board.tooWide(390)).toEqual([])
    await start.click()
    await dialog.locator('#field-input\\.name-hint.fault', { hasText: 'a name has two letters at least' }).waitFor()
    await board.picture('start-refused')
    expect(await rp.head('workflow/greet/first')).toBeNull()
    await dialog.getByLabel('name').fill('Ann')
    await start.click()
    await page.getByRole('heading', { name: 'workflow/greet/first' }).waitFor()
    await page.getByRole('option', { name: /completed/ }).waitFor()
    const outcome = await (await rp.run(greet, undefined as never, { id: 'first' })).result()
    expect(outcome).toBe('HELLO Ann')
    // The browser logs every response that refuses.
    expect(board.faults.splice(0)).toEqual([expect.stringContaining('400')])
  })

  it('has a key for each usual action, and a palette that finds screens, actions and runs', async () => {
    const { page, rp } = board
    await rp.run(checkout, { cents: 100 }, { id: 'order-4000' })
    await board.show('#/t/workflow%2Fcheckout%2Forder-4000')
    await page.getByText('waits for signal approve').first().waitFor()
    const dialog = page.getByRole('dialog')
    for (const [key, title] of [
      ['s', 'Send a signal'],
      ['c', 'Cancel'],
      ['f', 'Fork'],
    ] as const) {
      await page.keyboard.press(key)
      await dialog.getByRole('heading', { name: title }).waitFor()
      await page.keyboard.press('Escape')
      await dialog.waitFor({ state: 'detached' })
    }
    // Another address closes a dialog, also one that belongs to no screen.
    await page.keyboard.press('n')
    await dialog.getByRole('heading', { name: 'Start a run' }).waitFor()
    await board.show('#/runs')
    await dialog.waitFor({ state: 'detached' })
    await page.goBack()
    await page.getByText('waits for signal approve').first().waitFor()
    // It did not fail: there is nothing to retry.
    await page.keyboard.press('r')
    await page.keyboard.press('Control+k')
    await dialog.getByRole('heading', { name: 'Go to or do' }).waitFor()
    await dialog.getByRole('option', { name: 'Signal…' }).waitFor()
    expect(await dialog.getByRole('option', { name: 'Retry…' }).count()).toBe(0)
    expect(await board.violations(null)).toEqual([])
    await board.picture('palette')
    await page.keyboard.type('order-4000')
    await dialog.getByRole('option', { name: 'workflow/checkout/order-4000' }).waitFor()
    await dialog.getByRole('combobox').fill('needs')
    await dialog.getByRole('option', { name: 'Needs a person' }).waitFor()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Needs a person' }).waitFor()
  })

  it('keeps a filter under a name, lists it after a reload and in the palette, and removes it', async () => {
    const { page } = board
    await board.show('#/runs')
    await page.getByRole('link', { name: /^workflow\/checkout\/order-1001/ }).waitFor()
    // Without a filter there is nothing to save.
    expect(await page.getByRole('button', { name: 'Save this view…' }).count()).toBe(0)
    await board.show('#/runs?status=failed&text=order-10')
    await page.getByRole('button', { name: 'Save this view…' }).click()
    const dialog = page.getByRole('dialog')
    expect(await dialog.getByRole('button', { name: 'Save', exact: true }).isDisabled()).toBe(true)
    await page.keyboard.type('Failed orders')
    await board.picture('save-view')
    expect(await board.violations(null)).toEqual([])
    await page.keyboard.press('Enter')
    await dialog.waitFor({ state: 'detached' })
    await board.show('#/runs')
    await page.reload()
    const views = page.getByRole('navigation', { name: 'Saved views' })
    await views.getByRole('link', { name: 'Failed orders' }).click()
    await page.getByRole('link', { name: 'workflow/checkout/order-1004' }).waitFor()
    await page.getByRole('link', { name: 'workflow/checkout/order-1001' }).waitFor({ state: 'detached' })
    // The address contains the view, so it can be shared.
    expect(new URL(page.url()).hash).toBe('#/runs?text=order-10&status=failed')
    await board.picture('saved-views')
    await board.show('#/system')
    await page.keyboard.press('Control+k')
    await dialog.getByRole('combobox').fill('failed orders')
    await dialog.getByRole('option', { name: 'View: Failed orders' }).waitFor()
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: 'workflow/checkout/order-1004' }).waitFor()
    await views.getByRole('button', { name: 'Remove the view Failed orders' }).click()
    await views.getByRole('link', { name: 'Failed orders' }).waitFor({ state: 'detached' })
  })

  it('compares two runs that are selected, and says why two others cannot be', async () => {
    const { page, rp } = board
    for (const [id, cents] of [
      ['order-5001', 100],
      ['order-5002', 200],
    ] as const) {
      await rp.run(checkout, { cents }, { id })
    }
    await board.show('#/runs?text=order-500')
    await page.getByLabel('Select workflow/checkout/order-5001').check()
    expect(await page.getByRole('link', { name: 'Compare' }).count()).toBe(0)
    await page.getByLabel('Select workflow/checkout/order-5002').check()
    await page.getByRole('link', { name: 'Compare' }).click()
    expect(new URL(page.url()).hash).toBe(
      '#/t/workflow%2Fcheckout%2Forder-5001?tab=travel&other=workflow%2Fcheckout%2Forder-5002',
    )
    const changes = page.getByRole('region', { name: 'Changes' })
    await changes.getByRole('listitem').filter({ hasText: 'cents' }).getByText('200').first().waitFor()
    expect(await changes.getByLabel('Compare with').inputValue()).toBe('workflow/checkout/order-5002')
    await board.picture('compare')
    await changes.getByRole('link', { name: 'Open it' }).click()
    await page.getByRole('heading', { name: 'workflow/checkout/order-5002' }).waitFor()
    await board.show('#/t/workflow%2Fcheckout%2Forder-5001?tab=travel&other=workflow%2Fnobody')
    await changes.getByRole('alert').waitFor()
    // The browser itself notes each response of this kind.
    expect(board.faults.splice(0)).toEqual([expect.stringContaining('404')])
  })

  it('counts what needs a person in the title of the tab, and groups the errors by their cause', async () => {
    const { page } = board
    await board.show('#/runs?attention=1')
    const causes = page.getByRole('region', { name: 'Causes' })
    await causes.getByRole('link', { name: /no courier for this address/ }).click()
    await page.getByRole('link', { name: 'workflow/checkout/order-1004' }).waitFor()
    await page.getByRole('link', { name: 'workflow/checkout/order-1005' }).waitFor({ state: 'detached' })
    const shown = await page.locator('.causes strong').allInnerTexts()
    expect(shown).toEqual(['1'])
    await expect.poll(() => page.title(), { timeout: 30_000 }).toMatch(/^\(\d+\) Reprise$/)
    await board.picture('causes')
  })

  it('draws the live flow of a pipeline, and shows its age if it runs elsewhere', async () => {
    const { page, rp } = board
    const faucet = new Faucet()
    const run = await rp.run(visitsOf('visits', faucet)).started()
    await run.checkpoint()
    await board.show('#/system')
    await page.getByRole('table', { name: 'Pipelines' }).getByRole('link', { name: 'pipeline/visits' }).click()
    const flow = page.getByRole('region', { name: 'What flows' })
    await flow.getByText('as it is now').waitFor()
    const read = (part: RegExp, count: number) =>
      flow
        .getByRole('row', { name: part })
        .getByRole('cell', { name: String(count), exact: true })
        .first()
    await page.evaluate('window.stillHere = true')
    for (let n = 0; n < 7; n += 1) faucet.give()
    await read(/^visits source/, 7).waitFor()
    for (let n = 0; n < 6; n += 1) faucet.give()
    await read(/^visits source/, 13).waitFor()
    await read(/^rooms sink/, 13).waitFor()
    expect(await page.evaluate('window.stillHere')).toBe(true)
    expect(await flow.locator('svg .part').count()).toBe(6)
    expect(await flow.locator('svg .line').count()).toBe(5)
    await flow.getByRole('link', { name: 'Open JSON' }).focus()
    await page.keyboard.press('Tab')
    await flow.locator('.flow-graph:focus').waitFor()
    expect(await board.violations(null)).toEqual([])
    await board.picture('flow')
    expect(await board.tooWide(400)).toEqual([])
    await run.stop()
    await flow.getByText('before it: it does not run now').waitFor()
    const elsewhere = await open(`sqlite:${join(board.folder, 'store.db')}`, { housekeeping: false })
    const again = await elsewhere.run(visitsOf('visits', faucet)).started()
    await flow.getByText('before it: it runs in another process').waitFor()
    faucet.give()
    await read(/^visits source/, 1).waitFor()
    faucet.end()
    await again.result()
    await elsewhere.close()
  })

  it('plans a rollback, lists the undone entries, and then rolls back', async () => {
    const { page, rp } = board
    await board.show('#/t/counter%2Fwhat-if?tab=travel&seq=4')
    await page.getByRole('button', { name: 'Roll back here…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText(/It goes on from entry 4/).waitFor()
    expect(await dialog.innerText()).toMatch(/2 of 6 entries no longer count/)
    await dialog.getByRole('button', { name: 'Roll back' }).click()
    await page.getByText('4 of 4').first().waitFor()
    expect((await rp.head('counter/what-if'))?.seq).toBe(4)
  })

  it('names readers that have acted on undone entries, and rolls back only when forced', async () => {
    const { page, rp } = board
    await rp.fork({ timeline: 'counter/what-if', seq: 4 }, 'counter/acted')
    await board.show('#/t/counter%2Fwhat-if?tab=travel&seq=3')
    // The page was at entry 4 before: its button would plan that rollback.
    await page.getByText('3 of 4').first().waitFor()
    const dialog = page.getByRole('dialog')
    // A navigation in progress closes a dialog that is opened too early: it is opened again.
    const named = dialog.getByText('counter/acted was forked at 4')
    for (let tries = 0; tries < 5; tries++) {
      await page.getByRole('button', { name: 'Roll back here…' }).click()
      const isNamed = await named.waitFor({ timeout: 8000 }).then(
        () => true,
        () => false,
      )
      if (isNamed) break
      await page.keyboard.press('Escape')
    }
    await named.waitFor()
    const act = dialog.getByRole('button', { name: 'Roll back' })
    expect(await act.isDisabled()).toBe(true)
    await dialog.getByLabel(/Roll back all the same/).check()
    await act.click()
    await page.getByText('counter/what-if goes on from 3').waitFor()
    // The entry that names them follows it.
    expect((await rp.head('counter/what-if'))?.seq).toBe(4)
  })

  it('forks a run with the result of a step edited, by keyboard, and the fork shows it and continues with it', async () => {
    const { page, rp } = board
    await rp.run(checkout, { cents: 700 }, { id: 'order-3000' })
    await board.show('#/t/workflow%2Fcheckout%2Forder-3000')
    await page.getByRole('option', { name: /charge-card/ }).click()
    const panel = page.getByRole('complementary')
    // Its outcome is read before it is offered as what to edit.
    await panel.getByText('pay_81').first().waitFor()
    await panel.getByRole('button', { name: 'Fork with an edit…' }).focus()
    await page.keyboard.press('Enter')
    const dialog = page.getByRole('dialog')
    const value = dialog.getByLabel('Goes on with')
    expect(JSON.parse(await value.inputValue())).toEqual({ id: 'pay_81', cents: 700 })
    expect(await dialog.getByLabel('Edited step').inputValue()).toBe('charge-card')
    expect(await board.violations(null)).toEqual([])
    await dialog.getByLabel('Name of the fork').focus()
    await page.keyboard.type('order-3001')
    await value.fill('{ "id" }')
    await dialog.getByText('line 1, column 8: expected :, got }').waitFor()
    const send = dialog.getByRole('button', { name: 'Fork', exact: true })
    expect(await send.isDisabled()).toBe(true)
    await value.fill('')
    expect([await send.isDisabled(), await send.getAttribute('title')]).toEqual([true, 'Goes on with: must be given'])
    await value.fill('{ "id": "pay_99" }')
    expect(await dialog.innerText()).toContain(`--set 'charge-card={ "id": "pay_99" }'`)
    await board.picture('fork-edit')
    await send.focus()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'workflow/checkout/order-3001' }).waitFor()
    await page.getByText('charge-card, by owner').waitFor()
    await page.getByRole('option', { name: /edited by owner, in place of entry/ }).waitFor()
    await rp.send('workflow/checkout/order-3001', 'signal', { name: 'approve', value: { by: 'ann' } })
    await page.getByRole('option', { name: /completed/ }).waitFor()
    const shipped = []
    for await (const entry of entriesAfter(rp, (await rp.head('workflow/checkout/order-3001'))!, 0)) {
      if (entry.type === 'done' && (entry.data as { id: string }).id === 'ship') shipped.push(entry.data)
    }
    expect(shipped).toMatchObject([{ result: { payment: 'pay_99' } }])
    expect((await rp.head('workflow/checkout/order-3000'))?.status).toBe('waiting')
  })

  it('shows the four ways out of a run whose code has changed, and each works', async () => {
    const { page, rp } = board
    const drifting = (step: string) =>
      workflow('drifting', async (ctx) => {
        await ctx.step('reserve', () => 1)
        await ctx.step(step, () => step)
        return await ctx.signal('go')
      })
    const before = await open(`sqlite:${join(board.folder, 'store.db')}`)
    const old = drifting('charge')
    before.work([old])
    for (const id of ['d-1', 'd-2']) {
      const run = await before.run(old, { id })
      await until(async () => (await run.waitsFor()).some(({ kind }) => kind === 'signal'))
    }
    await before.close()
    const after = drifting('pay')
    rp.work([after])
    for (const id of ['d-1', 'd-2']) await workflows(rp).of(after).get(id).signal('go', 'on')
    const statusOf = async (id: string) => (await rp.head(`workflow/drifting/${id}`))?.status
    await until(async () => (await statusOf('d-1')) === 'diverged' && (await statusOf('d-2')) === 'diverged')

    await board.show('#/t/workflow%2Fdrifting%2Fd-1')
    const ways = page.getByRole('region', { name: 'Ways out' })
    await ways.getByText('reprise check FILE').waitFor()
    expect(await ways.getByRole('listitem').locator('b').allInnerTexts()).toEqual([
      'Deploy code that agrees',
      'Fork at entry 2',
      'Roll back to entry 2',
      'Terminate',
    ])
    expect(await board.violations(null)).toEqual([])
    expect(await board.tooWide(400)).toEqual([])
    await board.picture('run-diverged')

    const dialog = page.getByRole('dialog')
    await ways.getByRole('button', { name: 'Fork a copy…' }).click()
    expect(await dialog.getByLabel('After entry').inputValue()).toBe('2')
    await dialog.getByLabel('Name of the fork').fill('d-3')
    await dialog.getByRole('button', { name: 'Fork' }).click()
    await page.getByRole('heading', { name: 'workflow/drifting/d-3' }).waitFor()
    await page.getByRole('option', { name: /pay/ }).waitFor()

    await board.show('#/t/workflow%2Fdrifting%2Fd-1')
    await ways.getByRole('button', { name: 'Roll back…' }).click()
    await dialog.getByText(/It goes on from entry 2/).waitFor()
    await dialog.getByRole('button', { name: 'Roll back' }).click()
    await page.getByText('workflow/drifting/d-1 goes on from 2').waitFor()
    // The new code cannot undo the step: the request waits beside the signal.
    const { status, mail } = (await rp.head('workflow/drifting/d-1'))!
    expect([status, mail]).toEqual(['diverged', 2])

    await board.show('#/t/workflow%2Fdrifting%2Fd-2')
    // The page of the run before has the same buttons.
    await page.getByRole('heading', { name: 'workflow/drifting/d-2' }).waitFor()
    // A signal is kept, and its sender learns that no run reads it yet.
    await page.getByRole('button', { name: 'Signal…' }).click()
    await dialog.getByLabel('Name of the signal').fill('go')
    await dialog.getByRole('button', { name: 'Send a signal' }).click()
    await page
      .getByText(/^sent go to workflow\/drifting\/d-2; the run is diverged, and reads it once a worker/)
      .waitFor()
    await ways.getByRole('button', { name: 'Terminate it…' }).click()
    await dialog.getByRole('button', { name: 'Terminate' }).click()
    await until(async () => (await statusOf('d-2')) === 'terminated')
    await ways.waitFor({ state: 'detached' })
  })

  it('forks a table with an edited row from where its history is looked at', async () => {
    const { page, rp } = board
    const stock = table<number>('edited')
    const t = await rp.open(stock)
    for (const n of [1, 2]) await t.set('apples', n)
    await t.close()
    await board.show('#/t/table%2Fedited?tab=travel&seq=1')
    await page.getByRole('button', { name: 'Fork here…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name of the fork').fill('table/edited/trial')
    await dialog.getByLabel('Edited row').fill('apples')
    await dialog.getByLabel('Goes on with').fill('70')
    expect(await dialog.getByLabel('Input').count()).toBe(0)
    await dialog.getByRole('button', { name: 'Fork', exact: true }).click()
    await page.getByRole('heading', { name: 'table/edited/trial' }).waitFor()
    await page.getByText('apples, by owner').waitFor()
    const trial = await rp.open(stock, 'trial')
    expect([trial.get('apples'), (await rp.head('table/edited'))?.seq]).toEqual([70, 2])
    await trial.close()
  })

  it('shows another history where it went back and grew again since', async () => {
    const { page, rp } = board
    const handle = await rp.open(counter, 'branch')
    await handle.append([1, 2, 3].map((by) => ({ type: 'added' as const, by })))
    await board.show('#/t/counter%2Fbranch')
    await page.getByRole('option', { name: /"by":3/ }).waitFor()
    await handle.close()
    await rp.rollback({ to: { timeline: 'counter/branch', seq: 1 } })
    const again = await rp.open(counter, 'branch')
    await again.append([7, 8, 9].map((by) => ({ type: 'added' as const, by })))
    await again.close()
    await page.getByRole('option', { name: /"by":9/ }).waitFor()
    await page.getByRole('option', { name: /"by":2/ }).waitFor({ state: 'detached' })
    await page.getByRole('option', { name: /"by":7/ }).waitFor()
  })

  it('shows the operator that each dead letter of a pipeline failed in', async () => {
    const { page, rp } = board
    const failing = pipeline('failing', (p) => {
      p.from('numbers', valueSource([7]))
        .map((n): number => {
          throw new TypeError(`not ${n}`)
        })
        .to('out', collectSink())
    })
    await rp.run(failing).result()
    await board.show('#/t/pipeline%2Ffailing')
    await page.locator('.letters').getByText('in map#1: not 7').waitFor()
  })

  it('sends dead letters back, and decides what an agent waits for', async () => {
    const { page } = board
    await board.show('#/t/job%2Fpapers')
    await page.getByRole('button', { name: 'Send all back…' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Send dead letters back' }).click()
    await page.getByText('1 will be retried').waitFor()
    await board.show('#/t/agent%2Fsupport%2Fticket-7')
    await page.getByRole('button', { name: 'Decide…' }).first().click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('heading', { name: 'Approve refund?' }).waitFor()
    await dialog.getByText('1999').waitFor()
    await dialog.getByText('It cannot be undone.').waitFor()
    expect(await board.violations(null)).toEqual([])
    await board.picture('approve')
    await dialog.getByRole('button', { name: 'Approve' }).click()
    await page.getByText(/recorded for agent\/support\/ticket-7: approve; the server resumes it/).waitFor()
    // The server has the agent, so the session continues by itself.
    await page.getByText('I refunded your order.').first().waitFor()
    await page.getByText('needs a person').waitFor({ state: 'detached' })
  })

  it('acts on many runs after a check of each, and only with verbs that each accepts', async () => {
    const { page } = board
    await board.show('#/runs?text=order-100')
    await page.getByLabel('Select workflow/checkout/order-1001').check()
    await page.getByLabel('Select workflow/checkout/order-1002').check()
    await page.getByRole('button', { name: 'Cancel…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('it had already ended: completed').waitFor()
    await dialog.getByRole('button', { name: 'cancel 1 run' }).click()
    await page.getByText('cancel: asked 1 run').waitFor()
    await page.getByText('cancelled', { exact: true }).waitFor()
    await page.getByLabel('Select workflow/checkout/order-1001').check()
    await page.getByRole('button', { name: 'Retry…' }).click()
    await dialog.getByText('only a run that failed can be retried').waitFor()
    expect(await dialog.getByRole('button', { name: 'retry 0 runs' }).isDisabled()).toBe(true)
    await dialog.getByRole('button', { name: 'Leave them' }).click()
    await board.show('#/t/workflow%2Fcheckout%2Forder-1001')
    await page.getByRole('option', { name: /cancelled/ }).waitFor()
    await page.getByRole('button', { name: 'Fork…', exact: true }).waitFor()
    expect(await page.getByRole('button', { name: 'Retry…' }).count()).toBe(0)
  })

  it('shows a run as running while a step of it is, also if it waited before', async () => {
    const { page, rp } = board
    await rp.run(gated, { id: 'g-1', delay: 1 })
    await board.show('#/runs?text=g-1')
    const row = page.getByRole('row', { name: /workflow\/gated\/g-1/ })
    await row.locator('.stands').getByText('running').waitFor()
    expect(await row.locator('.status').innerText()).toBe('running')
    await page.getByRole('button', { name: /^running 1/ }).waitFor()
  })

  it('lets a token that reaches two namespaces change between them', async () => {
    for (const [name, each] of Object.entries(others)) {
      const handle = await each.open(counter, `of-${name}`)
      await handle.append({ type: 'added', by: 1 })
      await handle.close()
    }
    const page = await board.enter('both')
    await page.goto(`${board.url}/#/runs?all=1`)
    await page.getByRole('link', { name: 'counter/of-red' }).waitFor()
    await page.getByLabel('Namespace').selectOption('blue')
    await page.getByRole('link', { name: 'Everything' }).click()
    await page.getByRole('link', { name: 'counter/of-blue' }).click()
    await page.getByRole('option', { name: /added/ }).waitFor()
    expect(new URL(page.url()).hash).toBe('#/@blue/t/counter%2Fof-blue')
    // Events there are received.
    const handle = await others.blue!.open(counter, 'of-blue')
    await handle.append({ type: 'added', by: 41 })
    await handle.close()
    await page.getByRole('option', { name: /41/ }).waitFor()
    await page.reload()
    await page.getByRole('option', { name: /41/ }).waitFor()
    await page.close()
  })

  it('reconnects by itself after an outage of the server', async () => {
    const { page } = board
    await board.show('#/system')
    await page.getByText('1 worker alive').waitFor()
    await board.away(async () => {
      await page.getByText('not connected').waitFor()
      await board.show('#/storage')
      await page.getByText('the server does not answer').first().waitFor()
      await board.show('#/system')
      await page.getByText('the server does not answer').first().waitFor()
    })
    await page.getByText('1 worker alive').waitFor()
    await page.getByText('the server does not answer').first().waitFor({ state: 'detached' })
    // The browser logs each request that found no server, or that the end of the server cut.
    const faults = board.faults.splice(0)
    const isCut = /ERR_(CONNECTION_(REFUSED|RESET|CLOSED)|EMPTY_RESPONSE|SOCKET_NOT_CONNECTED|INCOMPLETE_CHUNKED)/
    expect(faults.filter((fault) => !isCut.test(fault))).toEqual([])
  })

  it('is not live while the server is silent behind an open connection, and is live again after it', async () => {
    // A proxy that keeps its connections and forwards nothing, as a stopped server or a lost network does.
    const pipes: Socket[] = []
    const proxy = createTcpServer((client) => {
      const server = connect(Number(new URL(board.url).port), '127.0.0.1')
      pipes.push(client, server)
      for (const each of [client, server]) each.on('error', () => undefined)
      client.pipe(server).pipe(client)
      if (isSilent) for (const each of [client, server]) each.pause()
    })
    let isSilent = false
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    const page = await (await board.stranger()).newPage()
    await page.goto(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}${board.server.link('owner')}`)
    const mark = page.locator('.live')
    await mark.getByText('as of now').waitFor()
    isSilent = true
    for (const each of pipes) each.pause()
    await mark.getByText(/as of [2-9] s ago/).waitFor()
    await mark.getByText('not connected').waitFor()
    isSilent = false
    for (const each of pipes) each.resume()
    await mark.getByText('as of now').waitFor()
    await page.close()
    for (const each of pipes) each.destroy()
    proxy.close()
  })

  it('shows a worker killed, another one taking the run over, and the step that continues, without a reload', async () => {
    const { page, folder } = board
    const url = `sqlite:${join(folder, 'store.db')}`
    const first = await worker(url, 'first')
    await board.show('#/t/workflow%2Fparcel%2Fp-1')
    await page.evaluate('window.stillHere = true')
    writeFileSync(join(folder, 'pack'), '')
    await page.getByRole('option', { name: /pack/ }).waitFor()
    await page.getByText(/on worker first/).waitFor()
    first.kill('SIGKILL')
    // A worker that died while it had the run, or one that another process declared dead.
    await page.getByText(/^no worker has it: |^its worker .* is gone: /).waitFor()
    await board.picture('killed-light')
    const second = await worker(url, 'second')
    await page.getByText(/on worker second/).waitFor()
    for (const step of ['label', 'hand-over', 'notify']) writeFileSync(join(folder, step), '')
    await page.getByRole('option', { name: /taken over by another worker/ }).waitFor()
    await page.getByRole('option', { name: /completed/ }).waitFor()
    await page.getByRole('option', { name: /label/ }).click()
    await page.getByRole('complementary').getByText('second').waitFor()
    await board.picture('taken-over-light')
    expect(await page.evaluate('window.stillHere')).toBe(true)
    second.kill('SIGKILL')
  })

  it('does not show a run as waiting for a signal that it has, while it runs and after its worker is gone', async () => {
    const { page, rp, folder } = board
    const id = 'workflow/letter/l-1'
    const letters = workflows(rp).of(workflow('letter', async () => undefined))
    const postman = await worker(`sqlite:${join(folder, 'store.db')}`, 'postman')
    await board.show('#/runs?text=letter')
    const row = page.getByRole('row', { name: new RegExp(id) })
    const other = page.getByRole('row', { name: /l-2/ })
    for (const each of [row, other]) await each.getByText('waits for signal stamped').waitFor()
    await letters.get('l-1').signal('stamped')
    await row.locator('.stands').getByText('running').waitFor()
    expect(await row.locator('.status').innerText()).toBe('running')
    // Lists of the command line and of the server have the word of the page.
    expect(shownHead(rp, (await rp.head(id))!).status).toBe('running')
    postman.kill('SIGKILL')
    await row.getByText('waits for a worker').waitFor()
    await letters.get('l-2').signal('stamped')
    await other.getByText('waits for a worker').waitFor()
    for (const each of [row, other]) expect(await each.innerText()).not.toContain('signal')
    await board.show(`#/t/${encodeURIComponent(id)}`)
    await page.locator('.stands-line').getByText('waits for a worker').waitFor()
    expect(await page.locator('.timeline-head').innerText()).not.toContain('waits for signal')
  })
})

function worker(url: string, name: string): Promise<ChildProcess> {
  return startWorker(program, [url, board.folder, name], children)
}
