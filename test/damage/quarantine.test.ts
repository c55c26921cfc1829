// G8: the row of one timeline is damaged. That timeline is quarantined: no process reads it or works on it, and every tool
// names it. The store opens, and all others work. verify with `repair` ends the quarantine.

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { housekeepingRound } from '../../src/engine/tools/housekeeping/housekeeping.ts'
import { open, type Reprise, timeline } from '../../src/index.ts'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { checkStore } from '../../src/operations/doctor.ts'
import { declareKinds } from '../../src/operations/known-models.ts'
import { loadDriver } from '../../src/stores/sqlite/file/driver.ts'
import { bin } from '../cli/support.ts'
import { newFolder, removeFolder } from '../crash/support.ts'
import { pause, until } from '../support/fixture.ts'

let folder: string
let url: string

const waiting = workflow('waiting', async (ctx, n: number) => n + (await ctx.signal<number>('go')))
const counter = timeline('counter', {
  initial: () => 0,
  apply: (sum: number, { by }: { readonly type: 'add'; readonly by: number }) => sum + by,
})

beforeEach(async () => {
  folder = newFolder(true)
  url = `sqlite:${join(folder, 'store.db')}`
  const rp = await at()
  for (const id of ['a', 'b', 'c']) {
    await (await rp.open(counter, id)).append({ type: 'add', by: 5 })
    await rp.run(waiting, 1, { id })
  }
  await asleep(rp)
  await rp.close()
})
afterEach(() => removeFolder(folder))

async function at(): Promise<Reprise> {
  return await open(url, { housekeeping: false })
}

async function asleep(rp: Reprise): Promise<void> {
  for (;;) {
    const heads = await rp.list({ prefix: 'workflow/' })
    if (heads.length === 3 && heads.every(({ owner }) => owner === null)) return
    await pause(10)
  }
}

async function edit(sql: string): Promise<void> {
  const database = (await loadDriver()).open(join(folder, 'store.db'), { isReadOnly: false })
  database.exec(sql)
  database.close()
}

const damages = [
  ['its status', `UPDATE reprise_timeline SET status = 'x' WHERE name LIKE 'workflow/%/b'`],
  ['its queue', `UPDATE reprise_timeline SET queue = 'x' WHERE name LIKE 'workflow/%/b'`],
  [
    'both copies of its head',
    `UPDATE reprise_head SET state = x'0102030405' WHERE tid IN (SELECT tid FROM reprise_timeline WHERE name LIKE 'workflow/%/b');
     UPDATE reprise_head_mark SET state = x'0102030405' WHERE tid IN (SELECT tid FROM reprise_timeline WHERE name LIKE 'workflow/%/b')`,
  ],
] as const

it.each(damages)('%s is damaged: the others work, and every tool names it', async (_, sql) => {
  await edit(sql)
  const rp = await at()
  const named: string[] = []
  rp.events.on('problem', ({ where }) => named.push(where))
  rp.work([waiting])
  const runs = workflows(rp).of(waiting)
  for (const id of ['a', 'c']) {
    await runs.get(id).signal('go', 1)
    expect(await runs.get(id).result({ timeout: '20s' })).toBe(2)
    expect((await rp.open(counter, id)).state).toBe(5)
  }
  await expect(runs.get('b').result({ timeout: '20s' })).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
  expect((await checkStore(rp)).find(({ name }) => name === 'quarantine')).toMatchObject({ state: 'bad' })
  const { faults } = await rp.verify()
  expect(faults.some(({ timeline: id }) => id?.endsWith('/b'))).toBe(true)
  await until(() => !!named.some((where) => where.endsWith('/b')))
  await rp.close()
  const listed = await promisify(execFile)(process.execPath, [bin, 'ls', '--url', url]).catch((error) => error)
  expect({ code: listed.code, names: /quarantined: workflow\/\S+\/b/.test(listed.stderr) }).toEqual({
    code: 8,
    names: true,
  })
  expect(listed.stdout).toContain('counter/a')
})

const ended = workflow('ended', async (ctx) => await ctx.step('do', () => 1))

it.each(damages)('%s is damaged: lists, expiry and collection pass over it, and name it', async (_, sql) => {
  const before = await at()
  for (const id of ['x', 'b', 'y']) await (await before.run(ended, { id })).result()
  await before.close()
  await edit(sql)
  const rp = await at()
  const named = new Set<string>()
  rp.events.on('problem', ({ where }) => named.add(where))
  const sound = ['counter/a', 'counter/b', 'counter/c', 'workflow/ended/x', 'workflow/ended/y']
  const all = [...sound, 'workflow/waiting/a', 'workflow/waiting/c']
  const ids = (heads: readonly { readonly timeline: string }[]) =>
    heads.map(({ timeline: id }) => id).filter((id) => !id.startsWith('reprise/'))
  expect(ids(await rp.list())).toEqual(all)
  expect([...named].sort()).toEqual(['workflow/ended/b', 'workflow/waiting/b'])
  const each: { timeline: string }[] = []
  for await (const head of rp.each({ prefix: 'workflow/' })) each.push(head)
  expect(ids(each)).toEqual(all.slice(3))
  expect(ids(await rp.list({ prefix: 'counter/', limit: 2 }))).toEqual(['counter/a', 'counter/b'])
  expect(ids(await rp.list({ prefix: 'workflow/', limit: 3 }))).toEqual(all.slice(3, 6))
  expect(ids(await rp.list({ status: 'completed' }))).toEqual(['workflow/ended/x', 'workflow/ended/y'])
  // A collection keeps the chunks that an unreadable timeline may need, and names the timeline.
  await declareKinds(rp)
  const { timelines, unknown, chunks } = await rp.collect()
  expect(ids(unknown)).toEqual(expect.arrayContaining(['workflow/ended/b', 'workflow/waiting/b']))
  expect(ids(timelines)).toEqual(all.slice(3))
  expect(chunks).toMatchObject({ swept: 0, unreadable: [{ timeline: 'workflow/ended/b' }, expect.anything()] })
  await pause(50)
  const expire = { ended: { 'workflow/': 20 } }
  const round = await housekeepingRound(rp, { every: 1, drill: 1, expire })
  expect(round!.expired).toEqual(['workflow/ended/x', 'workflow/ended/y'])
  await rp.close()
})

it('a damaged catalog of an ended run keeps that run, and others expire', async () => {
  const before = await at()
  for (const id of ['x', 'b', 'y']) await (await before.run(ended, { id })).result()
  for (const id of ['x', 'b', 'y']) await before.savepoint({ timeline: `workflow/ended/${id}`, seq: 1 })
  await before.close()
  await edit(
    `DELETE FROM reprise_manifest WHERE tid = (SELECT tid FROM reprise_timeline WHERE name LIKE 'workflow/ended%/b')`,
  )
  const rp = await at()
  for (const id of ['x', 'y']) {
    const [savepoint] = await rp.checkpoints(`workflow/ended/${id}`)
    await rp.release(`workflow/ended/${id}`, savepoint!.id)
  }
  await pause(50)
  const round = await housekeepingRound(rp, { every: 1, drill: 1, expire: { ended: { 'workflow/': 20 } } })
  expect(round!.expired).toEqual(['workflow/ended/x', 'workflow/ended/y'])
  expect(round!.kept).toEqual([expect.stringContaining('workflow/ended/b')])
  await declareKinds(rp)
  const { timelines, unknown, chunks } = await rp.collect()
  expect(unknown.map(({ timeline: id }) => id)).toContain('workflow/ended/b')
  expect(timelines.map(({ timeline: id }) => id)).toContain('workflow/waiting/a')
  expect(chunks).toMatchObject({ swept: 0, unreadable: [{ timeline: 'workflow/ended/b' }] })
  await rp.close()
})

it('a damaged neighbour does not block a rollback or a delete', async () => {
  await edit(`UPDATE reprise_timeline SET status = 'x' WHERE name = 'counter/b'`)
  const rp = await at()
  await (await rp.open(counter, 'a')).append({ type: 'add', by: 7 })
  await (await rp.open(counter, 'a')).close()
  await rp.rollback({ to: { timeline: 'counter/a', seq: 1 }, takeover: true })
  expect((await rp.open(counter, 'a', { takeover: true })).state).toBe(5)
  await (await rp.open(counter, 'c')).close()
  await rp.delete('counter/c')
  expect(await rp.head('counter/c')).toBeNull()
  await expect(rp.delete('counter/b')).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
  await rp.close()
})

/** Long, and nothing that becomes short when it is compressed. */
function textOf(name: string): string {
  return Array.from({ length: 400 }, (_, i) => createHash('sha256').update(`${name} ${i}`).digest('hex')).join('')
}

const tiered = timeline('tiered', {
  initial: () => ({ text: '' }),
  apply: (_: { text: string }, { text }: { readonly type: 'set'; readonly text: string }) => ({ text }),
  checkpoint: {},
})

it.each([
  ['its row', `UPDATE reprise_timeline SET status = 'x' WHERE name = 'tiered/b'`],
  [
    'its catalog',
    `DELETE FROM reprise_manifest WHERE tid = (SELECT tid FROM reprise_timeline WHERE name = 'tiered/b')`,
  ],
])('%s is damaged: what is old of the others goes to the cold tier, and it is named', async (_, sql) => {
  const tiers = { cold: { at: `file:${join(folder, 'cold')}`, keep: 1 } }
  const before = await open(url, { housekeeping: false, tiers })
  for (const id of ['a', 'b', 'c']) {
    const each = await before.open(tiered, id)
    for (const text of ['one', 'two']) {
      await each.append({ type: 'set', text: textOf(text + id) })
      await each.checkpoint()
    }
    await each.close()
  }
  await before.close()
  await edit(sql)
  const rp = await open(url, { housekeeping: false, tiers })
  const named = new Set<string>()
  rp.events.on('problem', ({ where }) => named.add(where))
  const report = await rp.tiers({ restMs: 0 })
  expect(report.tiers[1]!.moved).toBeGreaterThanOrEqual(2)
  expect(report.unreadable.map(({ timeline: id }) => id)).toEqual(['tiered/b'])
  expect([...named]).toContain('tiered/b')
  expect((await rp.open(tiered, 'c')).state.text).toBe(textOf('twoc'))
  await rp.close()
  const shown = await promisify(execFile)(process.execPath, [bin, 'tiers', '--url', url]).catch((error) => error)
  expect({ code: shown.code, names: /quarantined: tiered\/b/.test(shown.stderr) }).toEqual({ code: 8, names: true })
})
