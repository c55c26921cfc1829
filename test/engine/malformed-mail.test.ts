// Mail of any shape to queues and jobs: a message that no sender of ours writes is dropped and reported, and the timeline
// works on. Workflows have a test of their own (test/workflow/malformed.test.ts).

import { expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { job } from '../../src/layers/job/index.ts'
import { queue, workflow } from '../../src/layers/workflow/index.ts'
import { onEveryStore } from '../support/worlds.ts'

const narrow = queue('narrow', { concurrency: 1 })
const queued = workflow('queued', async (ctx, n: number) => await ctx.step('one', () => n + 1), { queue: narrow })
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
