// An import includes the wakeup and mail of a timeline, so that a run is executed where it arrives; a killed import resumes
// where it stopped, whichever commit it died in.

import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import type { Commit } from '../../src/core/store/ports.ts'
import { open } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { timeline } from '../../src/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { pause, temporaryFolder } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { programPath } from '../support/programs.ts'
import { dropSchema, newSchemaName } from '../support/schema.ts'
import { onEveryStore } from '../support/worlds.ts'

const program = programPath('import-killed')

const counter = timeline('counter', {
  initial: () => ({ total: 0, pad: '' }),
  apply: (state, entry: { type: 'added'; by: number }) => ({ total: state.total + entry.by, pad: 'x'.repeat(5000) }),
})

let folder: string
beforeEach(() => {
  folder = temporaryFolder('import')
})

async function until(isDone: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + 90_000
  while (!(await isDone())) {
    if (Date.now() > end) throw new Error('waited too long')
    await pause(20)
  }
}

onEveryStore('an imported run', (world) => {
  it('has its queue, wakeup, status, attributes and unread mail, and is executed', async () => {
    const [here, there] = [await world(), await world()]
    let charges = 0
    const pay = workflow('pay', async (ctx, cents: number) => {
      await ctx.step('charge', () => void charges++)
      const said = await ctx.signal<string>('go')
      await ctx.sleep(20)
      return `${cents} ${said}`
    })
    const rp = await here.engine()
    await rp.run(pay, 5, { id: 'o1', attributes: { shop: 'a' }, priority: 3 })
    await until(async () => (await rp.head('workflow/pay/o1'))!.seq >= 2)
    await rp.close()
    const sender = await here.engine()
    await sender.send('workflow/pay/o1', 'signal', { name: 'go', value: 'yes' }, { key: 'go-1' })
    const head = (await sender.head('workflow/pay/o1'))!
    const file = join(folder, 'run.reprise')
    await sender.export({ timeline: 'workflow/pay/o1', seq: head.seq }, file)
    const other = await there.engine()
    await other.import(file, { as: 'workflow/pay/copy' })
    const arrived = (await other.head('workflow/pay/copy'))!
    expect(arrived).toMatchObject({ queue: head.queue, status: head.status, priority: 3, mail: 1 })
    // A copy is due at once, even if its original waits.
    expect(arrived.wakeup).not.toBeNull()
    expect(arrived.wakeup ?? 0).toBeGreaterThanOrEqual(head.wakeup ?? 0)
    expect(arrived.attributes).toMatchObject({ shop: 'a', workflow: 'pay' })
    other.work([pay])
    await until(async () => (await other.head('workflow/pay/copy'))!.status === 'completed')
    expect(await (await other.run(pay, 5, { id: 'copy' })).result()).toBe('5 yes')
    expect(charges).toBe(1)
    // An earlier place of its history is not the place at which it waits.
    await sender.export({ timeline: 'workflow/pay/o1', seq: 1 }, file)
    await other.import(file, { as: 'workflow/pay/early' })
    expect(await other.head('workflow/pay/early')).toMatchObject({ queue: null, wakeup: null, mail: 0 })
  })
})

const runs = 24

describe.each(['sqlite', 'postgres'])('an import that is killed (%s)', (kind) => {
  let schema: string
  let url: string
  beforeEach(() => {
    schema = newSchemaName()
    const server = new URL(inject('postgresUrl'))
    server.searchParams.set('schema', schema)
    url = kind === 'sqlite' ? `sqlite:${join(folder, 'to.db')}` : server.href
  })
  afterEach(() => dropSchema(inject('postgresUrl'), schema))

  /** How many runs the import still had to write. */
  async function importAgain(file: string): Promise<{ rp: Reprise; written: number }> {
    const rp = await open(url)
    const { store } = hostOf(rp).kernel
    const commit = store.commit.bind(store)
    let written = 0
    store.commit = (batch: readonly Commit[]) => {
      written += batch.filter((each) => each.run).length
      return commit(batch)
    }
    await rp.import(file)
    return { rp, written }
  }

  // The first commit is the note of the import, the second makes the timeline.
  it.each([1, 2, 10, runs + 2, runs + 3, runs + 4])('after %i commits resumes', async (commits) => {
    const source = await open(`sqlite:${join(folder, 'from.db')}`)
    const ticks = await source.open(counter, 'x')
    for (let n = 0; n < runs; n++) {
      await ticks.append({ type: 'added', by: n })
      if (n === 10) await ticks.checkpoint()
    }
    await ticks.checkpoint()
    await ticks.close()
    const file = join(folder, 'x.reprise')
    await source.export({ timeline: 'counter/x', seq: runs }, file)
    await source.close()
    const killed = spawnSync(process.execPath, [program, url, file, String(commits)], { encoding: 'utf8' })
    if (killed.signal !== 'SIGKILL') expect(killed.stdout, killed.stderr).toContain('imported')
    const isOver = killed.signal !== 'SIGKILL'
    if (isOver) return
    const { rp, written } = await importAgain(file)
    expect(written).toBe(Math.max(0, Math.min(runs, runs + 2 - commits)))
    const there = await rp.open(counter, 'x')
    expect(there.state.total).toBe((runs * (runs - 1)) / 2)
    expect(there.recovery.entriesReplayed).toBe(0)
    expect((await rp.checkpoints('counter/x')).map((each) => each.seq)).toEqual([runs, 11])
    expect((await rp.verify()).faults).toEqual([])
    await rp.close()
  })
})
