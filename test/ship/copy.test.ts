// A shipped store that is restored beside its original: with `copy`, every key differs from the original's, effects of the
// original are inherited, and a restore that is killed at any moment leaves no store with the original's keys.

import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { open, timeline } from '../../src/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { restoreShipped } from '../../src/tools.ts'
import { bin } from '../cli/support.ts'

const folder = mkdtempSync(join(tmpdir(), 'reprise-ship-copy-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const counter = timeline('counter', {
  initial: () => 0,
  apply: (total: number, entry: { type: 'added'; by: number }) => total + entry.by,
})
const calls: string[] = []
const pay = workflow('pay', async (ctx, _order: { cents: number }) => {
  await ctx.signal('go')
  await ctx.step('charge', ({ key }) => void calls.push(key))
})

type Engine = Awaited<ReturnType<typeof open>>

async function effect(rp: Engine, id: string, name: string): Promise<string> {
  const c = await rp.open(counter, id, { takeover: true })
  const found: string[] = []
  await c.effects.run(name, ({ key }) => void found.push(key), { input: { cents: 500 } })
  await c.close()
  return found[0] ?? ''
}

/** Keys of effects in timelines that existed and in a new one, and of a step in a run that was waiting. */
async function keysIn(url: string): Promise<string[]> {
  const rp = await open(url, { housekeeping: false })
  const keys: string[] = []
  for (const id of ['plain', 'fork', 'rolled', 'new']) keys.push(await effect(rp, id, 'later'))
  rp.work([pay])
  const run = await rp.run(pay, { cents: 5 }, { id: 'order' })
  calls.length = 0
  await run.signal('go')
  await run.result()
  await rp.close()
  return [...keys, ...calls]
}

async function shipped(name: string): Promise<{ place: string; url: string }> {
  const place = join(folder, `${name}-place`)
  const url = `sqlite:${join(folder, `${name}.db`)}`
  const rp = await open(url, { housekeeping: false })
  rp.work([pay])
  await rp.run(pay, { cents: 5 }, { id: 'order' })
  for (const id of ['plain', 'rolled']) await effect(rp, id, 'first')
  await rp.fork({ timeline: 'counter/plain', seq: (await rp.head('counter/plain'))!.seq }, 'counter/fork')
  await effect(rp, 'fork', 'second')
  const { seq } = (await rp.head('counter/rolled'))!
  await effect(rp, 'rolled', 'undone')
  await rp.rollback({ to: { timeline: 'counter/rolled', seq } })
  await effect(rp, 'rolled', 'again')
  await rp.ship(place, { once: true })
  await rp.close()
  return { place, url }
}

it('without copy every key stays, with copy every key changes', async () => {
  const { place, url } = await shipped('keys')
  const [same, copy] = [join(folder, 'same.db'), join(folder, 'copy.db')]
  await restoreShipped(place, `sqlite:${same}`)
  await restoreShipped(place, `sqlite:${copy}`, { copy: true })
  const keys = await keysIn(url)
  expect(keys).toHaveLength(5)
  expect(await keysIn(`sqlite:${same}`)).toEqual(keys)
  const own = await keysIn(`sqlite:${copy}`)
  expect(own).toHaveLength(5)
  expect(own.filter((key) => keys.includes(key))).toEqual([])
})

it('effects from before the copy belong to the original, those after it to the copy', async () => {
  const { place } = await shipped('effects')
  const url = `sqlite:${join(folder, 'effects-copy.db')}`
  await restoreShipped(place, url, { copy: true })
  const rp = await open(url, { housekeeping: false })
  for (const id of ['plain', 'fork', 'rolled']) {
    const timeline = `counter/${id}`
    expect((await rp.effectsOf(timeline)).map(({ inheritedFrom }) => inheritedFrom === undefined)).not.toContain(true)
    const { seq } = (await rp.head(timeline))!
    await effect(rp, id, 'own')
    const owners = async () =>
      (await rp.effectsOf(timeline)).map(({ name, inheritedFrom = '' }) => [name, inheritedFrom])
    expect((await owners()).at(-1)).toEqual(['own', ''])
    // A rollback of the copy does not make the effects of the original its own.
    await rp.rollback({ to: { timeline, seq } })
    await effect(rp, id, 'own again')
    expect((await owners()).filter(([, from]) => from === '')).toEqual([['own again', '']])
  }
  expect(await rp.verify()).toMatchObject({ ok: true })
  await rp.close()
})

it('a restore of a copy that is killed while the identities change leaves no store, and is repeated', async () => {
  const { place, url } = await shipped('killed')
  const keys = await keysIn(url)
  for (let i = 0; i < 3; i++) {
    const file = join(folder, `killed-${i}.db`)
    const restore = ['restore', place, '--copy', '--into', `sqlite:${file}`]
    await new Promise<void>((resolve) => {
      const child = spawn(process.execPath, [bin, ...restore], { stdio: 'ignore' })
      const look = setInterval(() => existsSync(`${file}.part-wal`) && child.kill('SIGKILL'), 1)
      child.on('exit', () => {
        clearInterval(look)
        resolve()
      })
    })
    if (!existsSync(file)) await restoreShipped(place, `sqlite:${file}`, { copy: true })
    const own = await keysIn(`sqlite:${file}`)
    expect(own.filter((key) => keys.includes(key))).toEqual([])
  }
})
