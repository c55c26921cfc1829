// Threads that are read page by page equal threads that are read whole, after any sequence of puts, prunes, captures and
// reopens; damage in a page is found when the page is read.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RepriseSaver } from '../../src/adapters/langgraph/index.ts'
import { decodeManifest } from '../../src/core/checkpoint/manifest.ts'
import { timelineId, toHex } from '../../src/core/coordinate.ts'
import { stateIo } from '../../src/engine/snapshot/kernel-io.ts'
import { liveChunks } from '../../src/engine/snapshot/restore.ts'
import { open, type Reprise } from '../../src/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore, type World } from '../support/worlds.ts'
import { emptyCheckpoint } from './langgraph-names.ts'
import { all, at, capture, idOf, messagesOf, put, talk } from './long-thread.ts'

const timeline = 'langgraph/t'
const kept = 4

/** Chunks of a checkpoint, the newest being 0. */
async function chunksOf(rp: Reprise, index: number): Promise<string[]> {
  const records = await rp.checkpoints(timeline)
  return (await liveChunks(decodeManifest(records[index]!.body), stateIo(hostOf(rp).kernel))).map(toHex)
}

/** An engine without these chunks; `read` lists the requested ones. */
async function without(world: World, lost: readonly string[]) {
  const rp = await world.engine({ redundancy: false })
  const { blobs } = hostOf(rp).kernel.store
  const get = blobs.get.bind(blobs)
  const read: string[] = []
  blobs.get = async (digests) => {
    const chunks = await get(digests)
    read.push(...digests.map(toHex))
    return chunks.map((chunk, i) => (lost.includes(toHex(digests[i]!)) ? null : chunk))
  }
  return { rp, saver: new RepriseSaver(rp), read }
}

/** 300 turns, of which the first 200 are in two checkpoints, and the history before them is gone. */
async function twice(world: World): Promise<Reprise> {
  const rp = await world.engine({ redundancy: false })
  const saver = new RepriseSaver(rp)
  await talk(saver, 't', 200, kept)
  await capture(rp, 't')
  await talk(saver, 't', 100, kept, 200)
  await capture(rp, 't')
  expect((await rp.head(timeline))!.floor).toBe(200)
  return rp
}

describe('a thread that is read page by page', () => {
  onEveryStore('C11 G7 damage', (world) => {
    it('leaves a checkpoint of which a page is lost for the one before it, whichever page it is', async () => {
      for (const which of [0, 0.3, 0.6, 0.99]) {
        const w = await world()
        const writer = await twice(w)
        const shared = new Set(await chunksOf(writer, 1))
        const own = (await chunksOf(writer, 0)).filter((chunk) => !shared.has(chunk))
        expect(own.length).toBeGreaterThan(5)
        const chunk = own[Math.floor(which * own.length)]!
        // The replay after the checkpoint reads the last pages while the thread is opened.
        await put(new RepriseSaver(writer), 't', 301, 300, kept)
        await writer.close()
        const { rp, saver, read } = await without(w, [chunk])
        const newest = await saver.getTuple(at('t'))
        expect(newest!.checkpoint.channel_values.messages).toEqual(messagesOf(301, kept))
        const tuples = await all(saver.list(at('t')))
        expect(tuples.map(({ checkpoint }) => checkpoint.id)).toEqual(tuples.map((_, i) => idOf(301 - i)))
        expect(tuples.map(({ checkpoint }) => checkpoint.channel_values.messages)).toEqual(
          tuples.map((_, i) => messagesOf(301 - i, kept)),
        )
        expect(read).toContain(chunk)
        expect((await rp.checkpoints(timeline))[0]!.invalid).toMatch(/is missing/)
        await put(saver, 't', 302, 301, kept)
        expect((await saver.getTuple(at('t')))!.checkpoint.channel_values.messages).toEqual(messagesOf(302, kept))
      }
    })

    it('reports an irreplaceable page to its reader, and continues with the others', async () => {
      const w = await world()
      await (await twice(w)).close()
      const probe = await without(w, [])
      await probe.saver.getTuple(at('t'))
      const before = new Set(probe.read)
      await probe.saver.getTuple(at('t', idOf(5)))
      const lost = probe.read.filter((chunk) => !before.has(chunk))
      expect(lost.length).toBeGreaterThan(0)
      await probe.rp.close()
      const { rp, saver } = await without(w, lost)
      for (let round = 0; round < 2; round++) {
        await expect(saver.getTuple(at('t', idOf(5)))).rejects.toThrow(/CHUNK_MISSING/)
        expect((await saver.getTuple(at('t')))!.checkpoint.channel_values.messages).toEqual(
          messagesOf(300 + round, kept),
        )
        await put(saver, 't', 301 + round, 300 + round, kept)
      }
      expect((await rp.checkpoints(timeline)).map(({ invalid }) => invalid)).toEqual([null, null])
    })

    it('falls back also where another process owns the thread', async () => {
      const w = await world()
      const writer = await twice(w)
      const owner = new RepriseSaver(writer)
      await put(owner, 't', 301, 300, kept)
      const probe = await without(w, [])
      await probe.saver.getTuple(at('t'))
      const before = new Set(probe.read)
      await probe.saver.getTuple(at('t', idOf(205)))
      const shared = new Set(await chunksOf(writer, 1))
      const lost = probe.read.filter((chunk) => !before.has(chunk) && !shared.has(chunk)).slice(0, 1)
      expect(lost).toHaveLength(1)
      // Found once by a reader of the page, and once by a replay of an entry that touches it.
      const [asking, following] = [await without(w, lost), await without(w, lost)]
      for (const { saver } of [asking, following]) {
        expect((await saver.getTuple(at('t')))!.checkpoint.channel_values.messages).toEqual(messagesOf(301, kept))
      }
      expect((await asking.saver.getTuple(at('t', idOf(205))))!.checkpoint.channel_values.messages).toEqual(
        messagesOf(205, kept),
      )
      await put(owner, 't', 302, 205, kept)
      for (const { saver, read } of [asking, following]) {
        expect((await saver.getTuple(at('t')))!.checkpoint.channel_values.messages).toEqual(messagesOf(302, kept))
        expect(read).toContain(lost[0])
      }
    })
  })

  it('C11 returns after any puts, writes, prunes and captures the stored values, from the store and from memory', async () => {
    const text = fc.nat(40).map((n) => `${n} ${'x'.repeat(400 + n)} ${Math.sin(n)}`)
    const edit = fc.oneof(
      {
        weight: 5,
        arbitrary: fc.record({ kind: fc.constant('push' as const), items: fc.array(text, { maxLength: 6 }) }),
      },
      { weight: 2, arbitrary: fc.record({ kind: fc.constant('cut' as const), at: fc.nat(12) }) },
      { weight: 2, arbitrary: fc.record({ kind: fc.constant('set' as const), at: fc.nat(12), item: text }) },
      { weight: 2, arbitrary: fc.record({ kind: fc.constant('write' as const), item: text, back: fc.nat(20) }) },
      {
        weight: 1,
        arbitrary: fc.record({ kind: fc.constant('prune' as const), keepLast: fc.integer({ min: 1, max: 9 }) }),
      },
      { weight: 2, arbitrary: fc.constant({ kind: 'capture' as const }) },
      { weight: 2, arbitrary: fc.constant({ kind: 'reopen' as const }) },
    )
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(edit, fc.nat(9)), { minLength: 20, maxLength: 120 }), async (edits) => {
        await using rp = await open('memory:')
        const saver = new RepriseSaver(rp)
        let made: { config: object; id: string; list: unknown[]; note: string; writes: unknown[] }[] = []
        let version = 0
        for (const [each, back] of edits) {
          const from = made[Math.max(0, made.length - 1 - (back > 7 ? 3 * (back - 7) : 0))]
          if (each.kind === 'capture') {
            if (version > 0) await capture(rp, 't')
          } else if (each.kind === 'reopen') await saver.end()
          else if (each.kind === 'prune') {
            await saver.prune('t', { keepLast: each.keepLast })
            made = made.slice(-each.keepLast)
          } else if (each.kind === 'write') {
            const to = made[Math.max(0, made.length - 1 - each.back)]
            if (!to) continue
            const task = `task ${++version}`
            await saver.putWrites(to.config, [['list', each.item]], task)
            to.writes.push([task, 'list', each.item])
          } else {
            const list = [...(from?.list ?? [])]
            if (each.kind === 'push') list.push(...each.items)
            else if (each.kind === 'cut') list.splice(each.at)
            else if (each.at < list.length) list[each.at] = each.item
            version += 1
            const note = `${version % 3} ${'n'.repeat(200)}`
            const checkpoint = {
              ...{ ...emptyCheckpoint(), id: idOf(version), channel_values: { list } },
              channel_versions: { list: version },
            }
            const metadata = { source: 'loop' as const, step: version, parents: {}, note }
            const config = await saver.put(from?.config ?? at('t'), checkpoint, metadata, { list: version })
            made.push({ config, id: checkpoint.id, list, note, writes: [] })
          }
        }
        await saver.end()
        const tuples = await all(new RepriseSaver(rp).list(at('t')))
        expect(tuples.map(({ checkpoint }) => checkpoint.id)).toEqual(made.map(({ id }) => id).reverse())
        for (const { id, list, note, writes } of made) {
          for (const reader of [saver, new RepriseSaver(rp)]) {
            const tuple = (await reader.getTuple(at('t', id)))!
            expect(tuple.checkpoint.channel_values).toEqual({ list })
            expect(tuple.metadata).toMatchObject({ note })
            expect([...tuple.pendingWrites!].sort()).toEqual([...writes].sort())
          }
        }
      }),
      { numRuns: 40 },
    )
  })
})

describe('a thread in the layout of before', () => {
  it('is refused with a code, not misread', async () => {
    const rp = await open('memory:')
    const old = await hostOf(rp).openTimeline(timelineId(timeline), {
      version: 'langgraph 1',
      initial: () => 0,
      apply: (count: number) => count + 1,
    })
    await old.write([{ type: 'pruned', data: [[], [], [], []] }])
    await old.close()
    await expect(new RepriseSaver(rp).getTuple(at('t'))).rejects.toMatchObject({ code: 'UPCAST_MISSING' })
    await rp.close()
  })
})
