// Mail of any shape to queues and jobs: a message that no sender of ours writes is dropped and reported, and the timeline
// works on. Workflows have a test of their own (test/workflow/malformed.test.ts).

import { expect, it, onTestFinished } from 'vitest'
import { open } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { sendMessage } from '../../src/engine/storage/message.ts'
import { job } from '../../src/layers/job/index.ts'
import { queue, workflow } from '../../src/layers/workflow/index.ts'
import { checkStore } from '../../src/operations/doctor.ts'
import { cli } from '../cli/support.ts'
import { until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { storeUrls } from '../support/store-urls.ts'
import { onEveryStore } from '../support/worlds.ts'

const narrow = queue('narrow', { concurrency: 1 })
const queued = workflow('queued', async (ctx, n: number) => await ctx.step('one', () => n + 1), { queue: narrow })
const waiting = workflow('waiting', async (ctx) => await ctx.signal('go'))
const items = job('items', { source: ['a', 'b'], each: () => undefined })

const shapes: readonly unknown[] = [
  ...[null, undefined, 0, 'x', true, [], {}, new Uint8Array(3), 12n, { run: null }, { run: 5 }, { keys: null }],
  ...[{ keys: 5 }, { keys: [null] }, { reason: 5 }, { keys: ['a'], edits: 5 }],
]

async function flood(rp: Reprise, timeline: string, kinds: readonly string[]): Promise<number> {
  for (const kind of kinds) for (const data of shapes) await rp.send(timeline, kind, data)
  return kinds.length * shapes.length
}

onEveryStore(
  'malformed mail',
  (world) => {
    it('never stops a queue', { timeout: 60_000 }, async () => {
      const rp = await (await world()).engine()
      let dropped = 0
      rp.events.on('problem', ({ error }) => {
        if ((error as { code?: string }).code === 'MALFORMED') dropped += 1
      })
      expect(await (await rp.run(queued, 1, { id: 'before' })).result({ timeout: '30s' })).toBe(2)
      const sent = await flood(rp, 'workflow-queue/narrow', ['enter', 'leave', 'no-such-kind'])
      expect(await (await rp.run(queued, 2, { id: 'after' })).result({ timeout: '30s' })).toBe(3)
      expect(dropped).toBe(sent)
    })

    it('never stops a job', { timeout: 60_000 }, async () => {
      const rp = await (await world()).engine()
      await flood(rp, 'job/items', ['redrive', 'discard', 'stop', 'job.redrive', 'job.discard', 'job.stop', 'other'])
      expect(await (await rp.run(items)).result()).toMatchObject({ done: 2 })
    })
  },
  ['sqlite', 'postgres'],
)

it.each(Object.keys(storeUrls))(
  'malformed mail is in the log of the store and in doctor, of a run, a job and a queue (%s)',
  { timeout: 60_000 },
  async (kind) => {
    const { url, remove } = storeUrls[kind]!()
    onTestFinished(() => void remove())
    await using rp = await open(url, { housekeeping: false })
    expect((await checkStore(rp)).filter(({ name }) => name === 'mail')).toEqual([])
    await rp.run(waiting, { id: 'w' })
    for (const timeline of ['workflow/waiting/w', 'job/items', 'workflow-queue/narrow']) {
      // From SQL or from a process without the definition: this one has the models and would refuse it.
      const { kernel } = hostOf(rp)
      await sendMessage(kernel, timeline, 'no-such-kind', 5, {})
    }
    await (await rp.run(items)).result()
    await (await rp.run(queued, 1, { id: 'q' })).result({ timeout: '30s' })
    const dropped = () => rp.log({ kind: 'mail-dropped' })
    await until(async () => (await dropped()).length === 3)
    expect(new Set((await dropped()).map(({ timeline }) => timeline))).toEqual(
      new Set(['workflow/waiting/w', 'job/items', 'workflow-queue/narrow']),
    )
    expect((await checkStore(rp)).filter(({ name }) => name === 'mail')).toMatchObject([
      { state: 'warning', what: expect.stringMatching(/^3 dropped .*no-such-kind.*not known/) },
    ])
    // Each timeline shows its own.
    for (const timeline of ['workflow/waiting/w', 'job/items']) {
      const { stdout } = await cli(['show', timeline, '--url', url], { cwd: process.cwd() })
      expect(stdout).toMatch(/^ *dropped .*the message .* of the kind no-such-kind was dropped: its kind is not known/m)
      expect(stdout.match(/no-such-kind/g)).toHaveLength(1)
    }
  },
)
