// `reprise ls --status` and the server's lists find timelines by the status that they show, also where the store has another one:
// a waiting run that a live worker has taken is running, although it has written nothing yet.

import { join } from 'node:path'
import { open } from 'reprise'
import { workflow } from 'reprise/workflow'
import { expect, it } from 'vitest'
import { newGate, temporaryFolder } from '../support/fixture.ts'
import { json } from './support.ts'

interface Row {
  readonly timeline: string
  readonly status: string
}

it('a run is listed under the status that it shows, and under no other', async () => {
  const folder = temporaryFolder('status')
  const url = `sqlite:${join(folder, 'store.db')}`
  const rp = await open(url)
  const gate = newGate()
  const begun = newGate()
  const order = workflow('order', async (ctx) => {
    await ctx.signal('go')
    await ctx.step('slow', async () => {
      begun.open()
      await gate.opened
    })
  })
  const [run] = await Promise.all(['b', 'a', 'c'].map(async (id) => await rp.run(order, { id })))
  const list = async (...args: readonly string[]) => {
    const { value } = await json<Row[]>(['ls', ...args, '--url', url], { cwd: folder })
    return value.map(({ timeline, status }) => [timeline, status])
  }
  await expect.poll(async () => (await list('--status', 'waiting')).length).toBe(3)
  await run!.signal('go')
  await begun.opened
  const all = [
    ['workflow/order/a', 'waiting'],
    ['workflow/order/b', 'running'],
    ['workflow/order/c', 'waiting'],
  ]
  expect(await list()).toEqual(all)
  for (const limit of ['1', '2', '100']) {
    expect(await list('--status', 'running', '--limit', limit)).toEqual([all[1]])
  }
  expect(await list('--status', 'waiting')).toEqual([all[0], all[2]])
  gate.open()
  await run!.result()
  await rp.close()
})
