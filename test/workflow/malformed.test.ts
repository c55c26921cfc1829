// Entries and mail of any shape: an imported history or a message that no sender of ours writes. Each belongs to its run: the
// run is set aside with a visible reason, or the message is refused. The worker and the other runs are not affected.

import { expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const simple = workflow('simple', async (ctx, n: number) => {
  const first = await ctx.step('first', () => n)
  return first + (await ctx.signal<number>('more'))
})
const types = [
  ...['started', 'waits', 'began', 'retry', 'beat', 'done', 'failed', 'timer', 'signal', 'update', 'updated', 'child'],
  ...['patched', 'rode', 'loop', 'cancel', 'undoing', 'undo.retry', 'stuck', 'undone', 'restored', 'resumed', 'held'],
  ...['settled', 'continued', 'rollback', 'undo', 'rolled', 'retried', 'forked', 'admitted', 'completed'],
  ...['ended-badly', 'terminated', 'no-such-type'],
]
const kinds = [
  'signal',
  'update',
  'cancel',
  'terminate',
  'child',
  'settle',
  'resume',
  'rollback',
  'admit',
  'no such kind',
]
const shapes: readonly unknown[] = [
  ...[null, undefined, 0, -1, 'x', '', true, [], [null], {}, new Uint8Array(3), new Map(), 12n],
  ...[{ id: null }, { id: 5 }, { id: {} }, { id: 'first' }, { id: 'nowhere' }, { id: 'first', error: null }],
  ...[{ name: null }, { name: 5, value: {} }, { name: {} }, { update: null }, { update: 5, name: 5 }, { reason: {} }],
  ...[{ to: null }, { to: 5 }, { to: 'first', seq: 'x' }, { took: 5 }, { took: [null] }, { ids: 5 }, { for: 5 }],
  ...[
    { error: 5 },
    { error: null },
    { command: null },
    { command: 5 },
    { command: 'x' },
    { seed: 'x', behaviour: 'y' },
  ],
  ...[
    { seed: 1, behaviour: 5, queue: 5 },
    { seed: 1, behaviour: 5, parent: 5 },
    { seed: 1, behaviour: 5, deadline: 'x' },
  ],
]

/** As after an import: arbitrary entries, never read by a model. */
async function store(rp: Reprise, id: string, entries: readonly { type: string; data: unknown }[]): Promise<void> {
  const host = hostOf(rp)
  const raw = { version: 'raw', initial: () => 0, apply: (n: number) => n + 1 }
  const open = await host.openTimeline(timelineId(`workflow/simple/${id}`), raw)
  await open.write(
    entries.map((entry) => ({ ...entry })),
    {},
  )
  await open.shut({ queue: 'workflow/simple', wakeup: host.kernel.worker.now(), status: 'waiting' })
}

const started = { type: 'started', data: { input: 1, seed: 1, behaviour: 5 } }
const settled = [
  'completed',
  'failed',
  'cancelled',
  'terminated',
  'quarantined',
  'diverged',
  'waiting',
  'queued',
  'held',
]

onEveryStore(
  'malformed',
  (world) => {
    it('entries of a run stop that run alone', { timeout: 120_000 }, async () => {
      const w = await world()
      const writer = await w.engine()
      const ids: string[] = []
      for (const type of types) {
        for (const [n, data] of shapes.entries()) {
          const id = `${type.replaceAll(' ', '-')}-${n}`
          ids.push(id)
          await store(writer, id, type === 'started' ? [{ type, data }] : [started, { type, data }])
        }
      }
      await writer.close()
      const problems: unknown[] = []
      const uncaught: unknown[] = []
      const hear = (error: unknown) => uncaught.push(error)
      process.on('uncaughtException', hear)
      const rp = await w.engine()
      rp.events.on('problem', ({ error }) => problems.push(error))
      rp.work([simple])
      const good = await rp.run(simple, 40, { id: 'good' })
      await good.signal('more', 2)
      expect(await good.result({ timeout: '60s' })).toBe(42)
      const pending = async () => (await rp.list({ prefix: 'workflow/simple/', status: 'running' })).length
      for (let i = 0; i < 600 && (await pending()) > 0; i++) await new Promise((resolve) => setTimeout(resolve, 50))
      process.off('uncaughtException', hear)
      expect(uncaught).toEqual([])
      for (const id of ids) {
        const head = await rp.head(`workflow/simple/${id}`)
        expect(settled, id).toContain(head!.status)
        if (head!.status === 'quarantined') expect(head!.attributes.problem, id).toMatch(/./)
      }
      await rp.close()
    })

    it('mail to a run never stops it', { timeout: 120_000 }, async () => {
      const w = await world()
      const rp = await w.engine()
      const uncaught: unknown[] = []
      const hear = (error: unknown) => uncaught.push(error)
      process.on('uncaughtException', hear)
      const sent: string[] = []
      for (const kind of kinds) {
        for (const [n, data] of shapes.entries()) {
          const id = `${kind.replaceAll(' ', '-')}-${n}`
          await rp.run(simple, 40, { id })
          try {
            await rp.send(`workflow/simple/${id}`, kind, data)
            sent.push(id)
          } catch (error) {
            expect(error, id).toMatchObject({ code: 'INVALID_ARGUMENT' })
          }
        }
      }
      for (const kind of kinds) {
        for (const n of shapes.keys()) {
          const id = `${kind.replaceAll(' ', '-')}-${n}`
          const run = workflows(rp).of(simple).get(id)
          await run.signal('more', 2).catch((error: { code: string }) => expect(error.code, id).toBe('ENDED'))
          const result = await run.result({ timeout: '60s' }).catch((error: { code: string }) => error.code)
          expect([42, 'RUN_FAILED', 'CANCELLED'], `${id}: ${String(result)}`).toContain(result)
        }
      }
      process.off('uncaughtException', hear)
      expect(uncaught).toEqual([])
      expect(sent.length).toBeGreaterThan(0)
      await rp.close()
    })
  },
  ['sqlite'],
)
