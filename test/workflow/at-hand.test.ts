// A paused process finds its timers due and its answers waiting. A waiting answer counts before the timeout.

import { stat } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { open, type Reprise } from '../../src/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { slowStore } from '../../src/testing/index.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

let rp: Reprise
beforeEach(async () => {
  rp = await open('memory:')
})
afterEach(() => rp.close())

/** The answer arrives long before the process continues. */
function answerWhileStopped(): Promise<string> {
  const answer = new Promise<string>((resolve) => stat(process.cwd(), () => resolve('answer')))
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 150)
  return answer
}

it('the answer of a step counts before its timeout', async () => {
  const asking = workflow('asking', (ctx) =>
    ctx.step('ask', answerWhileStopped, { timeout: '20ms', retry: { attempts: 1 } }),
  )
  expect(await (await rp.run(asking, { id: '1' })).result()).toBe('answer')
})

it('a heartbeat counts before its timeout', async () => {
  const beating = workflow('beating', (ctx) =>
    ctx.step(
      'beat',
      async ({ heartbeat }) => {
        await answerWhileStopped()
        await heartbeat()
        return await new Promise((resolve) => stat(process.cwd(), () => resolve('alive')))
      },
      { heartbeatTimeout: '100ms', retry: { attempts: 1 } },
    ),
  )
  expect(await (await rp.run(beating, { id: '1' })).result()).toBe('alive')
})

/** Another process; its reads of heads are answered late, with the state of the request, once `isOver` is set. */
async function lateReader(world: World, isOver: () => Promise<boolean>) {
  const late = { isOn: false, isOnAfterCommit: false }
  const store = slowStore(await world.store(), (method, when) => {
    if (method === 'commit' && when === 'after' && late.isOnAfterCommit) late.isOn = true
    if (!late.isOn || method !== 'head' || when === 'before') return undefined
    late.isOn = false
    return (async () => {
      while (!(await isOver())) await pause(5)
    })()
  })
  return { late, rp: await world.engine({ ports: { store } }) }
}

onEveryStore(
  'waiting with a timeout',
  (world) => {
    it('returns the result that was durable before it, although the store reported it late', async () => {
      const w = await world()
      const here = await w.engine()
      let finish = () => {}
      const ending = workflow('ending', (ctx) =>
        ctx.step('last', () => new Promise<string>((resolve) => (finish = () => resolve('result')))),
      )
      const run = await here.run(ending, { id: 'r' })
      const calledAt = Date.now()
      const { late, rp: there } = await lateReader(w, async () => {
        finish()
        return (await run.status()).isEnded && Date.now() > calledAt + 1500
      })
      const handle = await there.run(ending, { id: 'r', here: false })
      late.isOn = true
      expect(await handle.result({ timeout: '1s' })).toBe('result')
    })

    it('gives the answer to an update that was durable before it', async () => {
      const w = await world()
      const here = await w.engine()
      const updated = workflow('updated', async (ctx) => {
        ctx.onUpdate('add', (n: number) => n + 1)
        await ctx.signal('end')
      })
      const run = await here.run(updated, { id: 'r' })
      const calledAt = Date.now()
      const { late, rp: there } = await lateReader(w, async () => {
        const isAnswered = Object.keys((await run.state()).updates).length > 0
        return isAnswered && Date.now() > calledAt + 1500
      })
      const handle = await there.run(updated, { id: 'r', here: false })
      late.isOnAfterCommit = true
      expect(await handle.update<number>('add', 1, { timeout: '1s' })).toBe(2)
      late.isOnAfterCommit = false
      await run.signal('end')
    })
  },
  ['memory'],
)
