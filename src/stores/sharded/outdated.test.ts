// Processes that knew a timeline before it moved to an added shard: former owners, and processes that lack the shard.

import { describe, expect, it } from 'vitest'
import { originDigest } from '../../core/history/entry-run.ts'
import type { Store } from '../../core/store/ports.ts'
import { shardOf } from '../../core/store/shards.ts'
import { asMessage, asOperation, asTimeline, asWorker, hash, message, worker } from '../../testing/conformance/kit.ts'
import { createWorld, openMemory } from '../memory/index.ts'
import { openSharded, type ShardSource } from './index.ts'

const id = asTimeline(Array.from({ length: 100 }, (_, i) => `t/${i}`).find((each) => shardOf(each, 3) === 2)!)
let operations = 0

function take(store: Store, epoch: number) {
  operations += 1
  const create = { digest: originDigest(hash, id) }
  const how = { worker: asWorker('w'), from: 'anyone' as const, create }
  return store.commit([{ operation: asOperation(`take ${operations}`), guard: { timeline: id, epoch }, take: how }])
}

async function grown(): Promise<{ readonly old: Store; readonly whole: Store }> {
  const worlds = [0, 1, 2].map(() => createWorld())
  const source = (i: number): ShardSource => ({
    name: `memory ${i}`,
    open: async () => openMemory({ namespace: 'n', hash, world: worlds[i]! }),
  })
  const openAnother = (url: string) => source(Number(url))
  const old = await openSharded([source(0), source(1)])
  const whole = await openSharded([source(0), source(1)], { openAnother })
  for (let epoch = 0; epoch < 5; epoch++) expect((await take(old, epoch))[0]!.ok).toBe(true)
  const mail = { guard: null, send: [message(id, 'read'), message(id, 'unread')] }
  await old.commit([{ operation: asOperation('mail'), ...mail }])
  const read = { guard: { timeline: id, epoch: 5 }, consume: [asMessage('read')] }
  expect((await old.commit([{ operation: asOperation('read'), ...read }]))[0]!.ok).toBe(true)
  await whole.beat(worker('mover'))
  const { moved } = await whole.shards!.grow({ url: '2', worker: asWorker('mover'), waitMs: 0 })
  expect(moved).toBe(1)
  return { old, whole }
}

describe('a timeline that moved to a shard that was added', () => {
  it('is fenced against every owner that it had', async () => {
    const { whole } = await grown()
    const [head] = await whole.head([id])
    for (let epoch = 1; epoch < head!.epoch; epoch++) {
      const guard = { timeline: id, epoch }
      const [outcome] = await whole.commit([{ operation: asOperation(`stale ${epoch}`), guard, status: 'stale' }])
      expect(outcome).toMatchObject({ ok: false, code: 'FENCED' })
    }
    expect(head!.epoch).toBeGreaterThan(5)
    expect((await take(whole, head!.epoch))[0]!.ok).toBe(true)
  })

  it('knows the mail that it had, read or not', async () => {
    const { whole } = await grown()
    await whole.head([id])
    const again = { guard: null, send: [message(id, 'read'), message(id, 'unread'), message(id, 'new')] }
    await whole.commit([{ operation: asOperation('again'), ...again }])
    expect((await whole.inbox(id, 10)).messages.map((each) => each.id)).toEqual(['unread', 'new'])
    expect(await whole.upkeep.consumed(id, null, 10)).toEqual(['read'])
  })

  it('is refused to a process that lacks the shard, and nothing is swept by it', async () => {
    const { old, whole } = await grown()
    await expect((async () => await take(old, 5))()).rejects.toMatchObject({ code: 'SHARDS_GREW' })
    await expect(old.head([id])).rejects.toMatchObject({ code: 'SHARDS_GREW' })
    await expect(old.timelines({ limit: 10 })).rejects.toMatchObject({ code: 'SHARDS_GREW' })
    const chunk = { digest: hash(new Uint8Array([1])), bytes: new Uint8Array([1]) }
    await whole.blobs.put([chunk], 1)
    await expect(old.blobs.delete([chunk.digest], 10)).rejects.toMatchObject({ code: 'SHARDS_GREW' })
    expect(await whole.blobs.get([chunk.digest])).toEqual([chunk.bytes])
  })
})
