// Features of the memory store only: worlds that are shared, snapshotted and damaged on purpose.

import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { OperationId, TimelineId, WorkerId } from '../../core/coordinate.ts'
import { originDigest, packEntries, verifyEntries } from '../../core/history/entry-run.ts'
import type { Commit, EntryRun, Hash, Store } from '../../core/store/ports.ts'
import { Log, SharedMap } from './copy-on-write.ts'
import { cells, createWorld, type MemoryWorld, openMemory, snapshot } from './index.ts'

const hash: Hash = (bytes) => new Uint8Array(createHash('sha256').update(bytes).digest())
const id = 'a' as TimelineId
const open = (world: MemoryWorld, namespace = 'n') => openMemory({ namespace, hash, world, clock: () => 1000 })

describe('a world', () => {
  it('goes back to a snapshot: later changes are gone, and both continue separately', async () => {
    const world = createWorld()
    const store = open(world)
    await append(store, 'one')
    const image = snapshot(world)
    await append(store, 'two')
    await store.blobs.put([{ digest: hash(new Uint8Array([1])), bytes: new Uint8Array([1]) }])

    const restored = open(image)
    expect(await seqOf(restored)).toBe(1)
    expect(await restored.blobs.list(null, 10)).toEqual([])
    await append(restored, 'other two')
    await append(restored, 'other three')

    expect(await texts(store)).toEqual(['one', 'two'])
    expect(await texts(restored)).toEqual(['one', 'other two', 'other three'])
    expect((await store.feed('', {}, 10)).items).toHaveLength(2)
    expect((await restored.feed('', {}, 10)).items).toHaveLength(3)
  })

  it('can be restored from the same snapshot again and again', async () => {
    const world = createWorld()
    await append(open(world), 'one')
    const image = snapshot(world)
    for (let attempt = 0; attempt < 3; attempt++) {
      const restored = open(snapshot(image))
      await append(restored, `attempt ${attempt}`)
      expect(await texts(restored)).toEqual(['one', `attempt ${attempt}`])
    }
    expect(await texts(open(image))).toEqual(['one'])
  })

  it('G7: exposes its bytes as cells, so that a flipped bit can be found', async () => {
    const world = createWorld()
    const store = open(world)
    const digest = await append(store, 'one')
    await store.blobs.put([{ digest: hash(new Uint8Array([1])), bytes: new Uint8Array([1]) }])
    expect(cells(world).map((cell) => cell.kind)).toEqual(['run', 'chunk'])
    for (const cell of cells(world)) cell.bytes[0]! ^= 1
    const [run] = await store.read(id, 0, 1000)
    expect(run!.digest).toEqual(digest)
    const before = { seq: 0, digest: originDigest(hash, id) }
    expect(() => verifyEntries(hash, id, run!, before)).toThrow(/HISTORY_DAMAGED/)
    expect((await store.upkeep.inspect()).map((fault) => fault.what)).toEqual(['it does not match its digest'])
  })

  it('frees most of the feed once most of it was trimmed, and keeps its order', async () => {
    const world = createWorld()
    const store = open(world)
    let digest = new Uint8Array() as EntryRun['digest']
    for (let n = 0; n < 1500; n++) digest = await append(store, `${n}`)
    const trim = { seq: 1500, digest, restsOn: [] }
    const guard = { timeline: id, epoch: 1 }
    await store.commit([{ operation: 'trim' as OperationId, guard, trim }])
    expect(world.spaces.get('n')!.feed.length).toBe(0)
    await append(store, 'next')
    expect((await store.feed('', {}, 10)).items.map((item) => item.run.first)).toEqual([1501])
  })
})

describe('the shared containers', () => {
  it('a log and its older views behave like copied arrays', () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant('append' as const), view: fc.nat(), value: fc.nat() }),
      fc.record({ kind: fc.constant('drop' as const), view: fc.nat(), value: fc.nat(5) }),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const views: { log: Log<number>; list: number[] }[] = [{ log: new Log(), list: [] }]
        for (const { kind, view, value } of steps) {
          const { log, list } = views[view % views.length]!
          if (kind === 'append') views.push({ log: log.append(value), list: [...list, value] })
          else views.push({ log: log.dropFirst(value), list: list.slice(value) })
        }
        for (const { log, list } of views) {
          expect([...log]).toEqual(list)
          expect([log.length, log.at(0), log.last(), log.at(list.length)]).toEqual([
            list.length,
            list[0],
            list.at(-1),
            undefined,
          ])
        }
      }),
    )
  })

  it('a map and its snapshots behave like copied maps', () => {
    const step = fc.record({ kind: fc.constantFrom('set', 'delete', 'share'), view: fc.nat(), key: fc.nat(4) })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const views = [{ shared: new SharedMap<number, number>(), map: new Map<number, number>() }]
        for (const [n, { kind, view, key }] of steps.entries()) {
          const { shared, map } = views[view % views.length]!
          if (kind === 'share') views.push({ shared: shared.share(), map: new Map(map) })
          else if (kind === 'set') {
            shared.set(key, n)
            map.set(key, n)
          } else expect(shared.delete(key)).toBe(map.delete(key))
        }
        for (const { shared, map } of views) expect(new Map(shared.entries())).toEqual(map)
      }),
    )
  })
})

async function append(store: Store, text: string): Promise<EntryRun['digest']> {
  const [head] = await store.head([id])
  const before = head?.digest ?? originDigest(hash, id)
  const seq = head?.seq ?? 0
  const data = new TextEncoder().encode(text)
  const run = packEntries(hash, { before, first: seq + 1, epoch: 1 }, [{ type: 'noted', version: 1, time: 0, data }])
  const operation = `${text} ${seq}` as OperationId
  const commit: Commit = head
    ? { operation, guard: { timeline: id, epoch: head.epoch, seq, digest: before }, run }
    : {
        operation,
        guard: { timeline: id, epoch: 0, seq, digest: before },
        take: { worker: 'w' as WorkerId, from: 'free', create: { digest: before } },
        run,
      }
  const [outcome] = await store.commit([commit])
  expect(outcome).toMatchObject({ ok: true, isDuplicate: false })
  return run.digest
}

async function seqOf(store: Store): Promise<number | undefined> {
  return (await store.head([id]))[0]?.seq
}

/** The text is the tail of each run's bytes, after the entry's header. */
async function texts(store: Store): Promise<string[]> {
  const runs = await store.read(id, 0, 1_000_000)
  return runs.map((run) => new TextDecoder().decode(run.bytes).split('\u0000').at(-1)!)
}
