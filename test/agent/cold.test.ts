// The first read of a thread in a process: its cost does not grow with the thread, and damage in an unread page is found when
// the page is read.

import type { CheckpointTuple } from '@langchain/langgraph-checkpoint'
import { describe, expect, it } from 'vitest'
import { threadFold } from '../../src/adapters/langgraph/fold.ts'
import { RepriseSaver } from '../../src/adapters/langgraph/index.ts'
import { pause } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore, type World } from '../support/worlds.ts'
import { all, at, type Counted, capture, count, idOf, messagesOf, put, talk } from './long-thread.ts'

/** The chunks and bytes that the first read in a new process takes from the store. */
async function cold<T>(world: World, read: (saver: RepriseSaver) => Promise<T>): Promise<Counted & { result: T }> {
  const rp = await world.engine()
  const counted = count(rp)
  const result = await read(new RepriseSaver(rp))
  const taken = { ...counted, result }
  await rp.close()
  return taken
}

const kept = 8
const reads: Record<string, (saver: RepriseSaver, turns: number) => Promise<readonly CheckpointTuple[]>> = {
  'the newest tuple': async (saver) => [(await saver.getTuple(at('t')))!],
  'a tuple by its id': async (saver, turns) => [(await saver.getTuple(at('t', idOf(turns / 2))))!],
  'a list of ten': (saver) => all(saver.list(at('t'), { limit: 10 })),
  'a list of ten before another, with a filter': (saver, turns) =>
    all(saver.list(at('t'), { limit: 10, before: at('t', idOf(turns / 4)), filter: { source: 'loop' } })),
}
const firstOf: Record<string, (turns: number) => number> = {
  'a tuple by its id': (turns) => turns / 2,
  'a list of ten before another, with a filter': (turns) => turns / 4 - 1,
}

describe('RepriseSaver in a new process', { timeout: 300_000 }, () => {
  onEveryStore(
    'a short thread',
    (world) => {
      it('is read without the guard for user code, which is for folds of users', async () => {
        const w = await world()
        const writer = await w.engine()
        await talk(new RepriseSaver(writer), 't', 5, kept)
        await writer.close()
        const rp = await w.engine()
        const { kernel } = hostOf(rp)
        let asked = 0
        const guardsFolds = kernel.guardsFolds.bind(kernel)
        Object.assign(kernel, { guardsFolds: () => ++asked > 0 && guardsFolds() })
        expect((await new RepriseSaver(rp).getTuple(at('t')))?.checkpoint.id).toBe(idOf(5))
        expect(asked).toBe(0)
      })
    },
    ['sqlite'],
  )

  onEveryStore('C11 a long thread', (world) => {
    it('reads the returned checkpoint and a bounded rest, after 500 turns as after 5,000', async () => {
      const taken: Record<string, Counted[]> = {}
      for (const turns of [500, 5000]) {
        const w = await world()
        const writer = await w.engine()
        await talk(new RepriseSaver(writer), 't', turns, kept)
        await capture(writer, 't')
        await writer.close()
        for (const [name, read] of Object.entries(reads)) {
          const { result, ...counted } = await cold(w, (saver) => read(saver, turns))
          const first = firstOf[name]?.(turns) ?? turns
          expect(result.map(({ checkpoint }) => checkpoint.channel_values.messages)).toEqual(
            result.map((_, i) => messagesOf(first - i, kept)),
          )
          taken[name] = [...(taken[name] ?? []), counted]
        }
      }
      for (const [name, [few, many]] of Object.entries(taken)) {
        expect(many!.entries, name).toBe(0)
        expect(many!.chunks, name).toBeLessThan(30)
        // Ten times the turns; the directories, of a line a page, are what grows.
        expect(many!.bytes, name).toBeLessThan(2 * few!.bytes + 64 * 1024)
        expect(many!.bytes, name).toBeLessThan(200 * 1024)
      }
    })

    it('replays no more than the policy leaves behind the last checkpoint, and captures no short thread', async () => {
      for (const { turns, entriesMax } of [
        { turns: 900, entriesMax: 900 },
        { turns: 2000, entriesMax: 512 + 200 },
      ]) {
        const w = await world()
        const writer = await w.engine()
        await talk(new RepriseSaver(writer), 't', turns, kept)
        // A checkpoint that is in progress may take its time.
        const timeline = await hostOf(writer).openTimeline('langgraph/t' as never, threadFold)
        for (let look = 0; look < 200 && timeline.checkpointing.entriesSince > entriesMax; look++) {
          await pause(25)
        }
        expect((await writer.checkpoints('langgraph/t')).length > 0).toBe(turns > 1024)
        await writer.close()
        const { entries, result } = await cold(w, (saver) => saver.getTuple(at('t')))
        expect(result!.checkpoint.channel_values.messages).toEqual(messagesOf(turns, kept))
        expect(entries).toBeLessThanOrEqual(entriesMax)
      }
    })

    it('continues, prunes and forgets a thread of which it has read little', async () => {
      const w = await world()
      const first = await w.engine()
      await talk(new RepriseSaver(first), 't', 400, kept)
      await capture(first, 't')
      await first.close()
      const second = await w.engine()
      const saver = new RepriseSaver(second)
      const counted = count(second)
      await put(saver, 't', 401, 400, kept)
      // An old checkpoint too: an unread page is written to.
      await put(saver, 't', 402, 3, kept)
      await saver.putWrites(at('t', idOf(200)), [['messages', 'late']], 'task')
      expect(counted.chunks).toBeLessThan(40)
      await second.close()
      // The replayed entries load the pages that they touch.
      const third = await w.engine()
      const reader = new RepriseSaver(third)
      expect((await reader.getTuple(at('t', idOf(401))))!.checkpoint.channel_values.messages).toEqual(
        messagesOf(401, kept),
      )
      expect((await reader.getTuple(at('t', idOf(402))))!.parentConfig!.configurable!.checkpoint_id).toBe(idOf(3))
      expect((await reader.getTuple(at('t', idOf(200))))!.pendingWrites).toEqual([['task', 'messages', 'late']])
      await reader.end()
      expect(await reader.prune('t', { keepLast: 2 })).toEqual({ checkpoints: 400 })
      await reader.end()
      const left = await all(reader.list(at('t')))
      expect(left.map(({ checkpoint }) => checkpoint.channel_values.messages)).toEqual([
        messagesOf(402, kept),
        messagesOf(401, kept),
      ])
      expect((await third.verify()).faults).toEqual([])
      await reader.deleteThread('t')
      expect(await reader.getTuple(at('t'))).toBeUndefined()
    })

    it('reads a fork and the rest after a rollback page by page too', async () => {
      const w = await world()
      const rp = await w.engine()
      const saver = new RepriseSaver(rp)
      await talk(saver, 't', 300, kept)
      await capture(rp, 't')
      const where = (await rp.head('langgraph/t'))!
      await talk(saver, 't', 20, kept, 300)
      await rp.fork({ timeline: 'langgraph/t', seq: where.seq }, 'langgraph/f')
      await put(saver, 'f', 301, 300, kept)
      await rp.rollback({ to: { timeline: 'langgraph/t', seq: where.seq } })
      for (const reader of [saver, new RepriseSaver(await w.engine())]) {
        expect((await reader.getTuple(at('t')))!.checkpoint.id).toBe(idOf(300))
        expect((await reader.getTuple(at('f')))!.checkpoint.channel_values.messages).toEqual(messagesOf(301, kept))
        expect((await reader.getTuple(at('f', idOf(7))))!.checkpoint.channel_values.messages).toEqual(
          messagesOf(7, kept),
        )
      }
    })
  })
})
