// G8: the page with the rows of timelines (status, queue, wakeup) is damaged. Their history is sound, so their models rebuild
// the heads from it: ended runs are ended, waiting runs continue. Until its model is known, every verify names the timeline,
// and callers get an error instead of waiting.

import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { hostOf } from '../../src/engine/host/host.ts'
import { isReprise, open, type Reprise, timeline } from '../../src/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { queue, workflow, workflows } from '../../src/layers/workflow/index.ts'
import { checkStore } from '../../src/operations/doctor.ts'
import { declareKinds } from '../../src/operations/known-models.ts'
import { loadDriver } from '../../src/stores/sqlite/file/driver.ts'
import { renewStore } from '../../src/tools.ts'
import { newFolder, removeFolder } from '../crash/support.ts'
import { randomFrom } from '../programs/crash-model.mjs'
import { pause } from '../support/fixture.ts'

const folder = newFolder(true)
const file = join(folder, 'store.db')
const pageBytes = 4096

const flow = workflow('flow', async (ctx, n: number) => {
  const made = await ctx.step('make', () => n * 2)
  return n % 2 ? made + (await ctx.signal<number>('more')) : made
})
const sleeper = workflow('sleeper', async (ctx, ms: number) => {
  await ctx.sleep(ms)
  return 'awake'
})
const inLine = workflow('in-line', async (ctx, n: number) => n + (await ctx.signal<number>('go')), {
  queue: queue('line', { concurrency: 1 }),
})
const failing = workflow('failing', async () => {
  throw new Error('no')
})
const papers = job('papers', { source: () => [1, 2, 3], key: String, each: async () => {} })
const counter = timeline('counter', {
  initial: () => 0,
  apply: (sum: number, { by }: { readonly type: 'add'; readonly by: number }) => sum + by,
})
const works = [flow, sleeper, inLine, failing]

let root: number
let before: Map<string, string>

beforeAll(async () => {
  const rp = await at(file)
  expect(await (await rp.run(flow, 2, { id: 'ended' })).result()).toBe(4)
  await expect((await rp.run(failing, { id: 'failed' })).result()).rejects.toThrow('no')
  await rp.run(flow, 3, { id: 'waits' })
  await rp.run(sleeper, 1200, { id: 'sleeps' })
  await rp.run(inLine, 1, { id: 'first' })
  await rp.run(inLine, 2, { id: 'second' })
  await rp.run(papers).result()
  await (await rp.open(counter, 'a')).append({ type: 'add', by: 5 })
  for (const id of ['waits', 'sleeps', 'first']) await asleep(rp, id)
  await rp.close()
  const after = await at(file)
  before = await statuses(after)
  await after.close()
  const database = (await loadDriver()).open(file, { isReadOnly: false })
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  const found = database.prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'reprise_timeline'").get()
  root = Number((found as { rootpage: number }).rootpage)
  database.close()
})
afterAll(() => removeFolder(folder))

async function at(path: string): Promise<Reprise> {
  return await open(`sqlite:${path}`, { housekeeping: false })
}

async function asleep(rp: Reprise, id: string): Promise<void> {
  for (;;) {
    const heads = await rp.list({ prefix: 'workflow/' })
    if (heads.some((head) => head.timeline.endsWith(`/${id}`) && head.owner === null)) return
    await pause(10)
  }
}

async function statuses(rp: Reprise): Promise<Map<string, string>> {
  const heads = (await rp.list()).filter(({ timeline }) => !timeline.startsWith('reprise/'))
  return new Map(heads.map(({ timeline, status }) => [timeline, status]))
}

/** All rows of timelines are in the page that their tree begins with, and its bytes are chance. */
function damaged(name: string): string {
  const copy = join(folder, name)
  const bytes = readFileSync(file)
  const random = randomFrom(root)
  for (let i = 0; i < pageBytes; i++) bytes[(root - 1) * pageBytes + i] = random.below(256)
  writeFileSync(copy, bytes)
  copyFileSync(`${file}-ack`, `${copy}-ack`)
  return copy
}

/** The file may not open as it is: then it is written anew first, as the command line does. */
async function repaired(copy: string, know: (rp: Reprise) => Promise<void>) {
  const rp = await at(copy).catch(async (error) => {
    if (!isReprise(error, 'STORE_DAMAGED')) throw error
    await renewStore(`sqlite:${copy}`)
    return await at(copy)
  })
  await know(rp)
  const report = await rp.verify({ repair: true })
  return { rp, report }
}

it('the models rebuild the heads from history, and everything continues', async () => {
  const healed: string[] = []
  const { rp, report } = await repaired(damaged('known.db'), async (engine) => {
    engine.events.on('healed', ({ what }) => healed.push(what))
    await declareKinds(engine)
    hostOf(engine).know(counter)
  })
  expect(report.faults).toEqual([])
  // Rebuilt by verify or by the process that declared its model, whichever is first.
  expect(healed).toEqual(expect.arrayContaining([...before.keys()].map((name) => `head of ${name}`)))
  expect(await statuses(rp)).toEqual(before)
  expect((await rp.verify()).ok).toBe(true)
  rp.work(works)
  const run = workflows(rp)
  expect(await run.of(flow).get('ended').result({ timeout: '20s' })).toBe(4)
  await expect(run.of(failing).get('failed').result({ timeout: '20s' })).rejects.toThrow('no')
  await run.of(flow).get('waits').signal('more', 10)
  expect(await run.of(flow).get('waits').result({ timeout: '20s' })).toBe(16)
  expect(await run.of(sleeper).get('sleeps').result({ timeout: '20s' })).toBe('awake')
  for (const id of ['first', 'second']) await run.of(inLine).get(id).signal('go', 1)
  expect(await run.of(inLine).get('second').result({ timeout: '20s' })).toBe(3)
  expect((await rp.open(counter, 'a')).state).toBe(5)
  await rp.close()
})

it('a repair that does not know the models leaves them named, until a process with their code puts them right', async () => {
  const copy = damaged('unknown.db')
  const { rp: bare, report } = await repaired(copy, async () => {})
  const named = report.faults.filter(({ code }) => code === 'HEAD_LOST').map(({ timeline }) => timeline)
  expect(named).toEqual(expect.arrayContaining([...before.keys()]))
  await bare.close()

  const again = await at(copy)
  expect(
    (await again.verify()).faults.some(({ code, timeline }) => code === 'HEAD_LOST' && timeline === 'counter/a'),
  ).toBe(true)
  expect((await checkStore(again)).find(({ name }) => name === 'heads')).toMatchObject({ state: 'bad' })
  await again.close()

  const rp = await at(copy)
  rp.work([sleeper])
  expect(await workflows(rp).of(sleeper).get('sleeps').result({ timeout: '20s' })).toBe('awake')
  // Every caller rebuilds it: no call hangs.
  expect(await workflows(rp).of(flow).get('ended').result({ timeout: '20s' })).toBe(4)
  expect((await rp.open(counter, 'a')).state).toBe(5)
  await expect(workflows(rp).of(flow).get('ended').cancel()).rejects.toMatchObject({ code: 'ENDED' })
  await rp.close()
})
