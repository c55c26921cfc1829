// Determinism is enforced (A5.1, G13): recorded values inside workflow code, refusals that name the call and the line.

import { execSync } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { isReprise } from '../../src/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { until } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

onEveryStore(
  'workflow code outside of steps',
  (world) => {
    it.each([
      ['setTimeout', () => setTimeout(() => undefined, 1)],
      ['setImmediate', () => setImmediate(() => undefined)],
      ['setInterval', () => clearInterval(setInterval(() => undefined, 1))],
      ['fetch', () => fetch('http://localhost:1')],
      ['fs.readFileSync', () => readFileSync('package.json')],
      ['fs.promises.readFile', () => readFile('package.json')],
      ['child_process.execSync', () => execSync('true')],
      ['timers/promises.setTimeout', () => pause(1)],
    ])('may not call %s, and is told the line (A5.1)', async (name, call) => {
      const bad = workflow('bad', async (ctx) => {
        await ctx.step('fine', () => readFileSync('package.json').length)
        await call()
      })
      const rp = await (await world()).engine()
      const error = await (await rp.run(bad)).result().catch((thrown) => thrown)
      expect(isReprise(error, 'NON_DETERMINISTIC')).toBe(true)
      expect(error.message).toContain(name)
      expect(error.data.at).toMatch(/determinism\.test\.ts:\d+:\d+/)
    })

    it('gets the clock, chance and ids from history: the same in a replay (A5.1)', async () => {
      const seen: unknown[][] = []
      const values = workflow('values', async (ctx) => {
        const own: unknown[] = [Date.now(), new Date().toISOString(), Math.random(), crypto.randomUUID(), randomUUID()]
        own.push(randomBytes(4).toString('hex'), ctx.now(), ctx.random(), ctx.uuid(), performance.now())
        await ctx.step('a', () => 1)
        own.push(Date.now(), Math.random(), new Date() instanceof Date, Date())
        const [p, q] = await ctx.parallel([async () => Math.random(), async () => Math.random()])
        own.push(p, q, p !== q)
        ctx.onQuery('values', () => own)
        seen.push(own)
        await ctx.signal('go')
        return own
      })
      const rp = await (await world()).engine()
      const run = await rp.run(values, { id: 'v' })
      await until(() => seen.length !== 0)
      expect(await run.query('values')).toEqual(seen[0])
      // Released: from now on every query runs its code anew.
      await expect.poll(async () => (await rp.head('workflow/values/v'))!.owner).toBeNull()
      expect((await run.status()).status).toBe('waiting')
      expect(await run.query('values')).toEqual(seen[0])
      await run.signal('go')
      expect(await run.result()).toEqual(seen[0])
      expect(seen.length).toBeGreaterThanOrEqual(3)
      expect(seen[0]).toContain(true)
    })
  },
  ['memory', 'sqlite'],
)

it('the guard is gone when the last engine has closed', async () => {
  const { open } = await import('../../src/index.ts')
  const before = globalThis.setTimeout
  const OriginalDate = Date
  const rp = await open('memory:')
  const run = await rp.run(workflow('w', async () => 1))
  expect(globalThis.setTimeout).not.toBe(before)
  await run.result()
  await rp.close()
  expect(globalThis.setTimeout).toBe(before)
  expect(globalThis.Date).toBe(OriginalDate)
})
