// History below the newest checkpoints in a colder place: the moved part, that all of it can be read again, and that nothing is
// lost on the way despite kills, forks and concurrent writes. Places are folders here; test/s3 has the same in an object store.

import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import type { Blobs } from '../../src/core/store/ports.ts'
import { forwardBlobs } from '../../src/core/store/store-wrapper.ts'
import { hostOf } from '../../src/engine/host/host.ts'
import { type Options, open, type Reprise, timeline } from '../../src/index.ts'
import { entriesAfter } from '../../src/operations/history.ts'
import { temporaryFolder } from '../support/fixture.ts'

let folder: string
beforeEach(() => {
  folder = temporaryFolder('history')
})

type Added = { readonly type: 'added'; readonly by: number; readonly text: string }
const counter = timeline('counter', {
  initial: () => ({ total: 0, count: 0 }),
  apply: (state, entry: Added) => ({ total: state.total + entry.by, count: state.count + 1 }),
  retain: { checkpoints: 2, history: 'tiered' },
})
const id = 'counter/a'
const cold = () => join(folder, 'cold')
const tiers = () => ({ cold: { at: cold(), history: true } })
const start = (options: Options = {}) => open(`sqlite:${join(folder, 'app.db')}`, { housekeeping: false, ...options })
const textOf = (n: number) => Array.from({ length: 40 }, (_, i) => `${(n * 7919 * (i + 1)) % 99991}`).join(' ')

/** Appends `count` entries, with a checkpoint after every ten. */
async function add(rp: Reprise, count: number, name = 'a'): Promise<void> {
  const open = await rp.open(counter, name)
  for (let left = count; left > 0; ) {
    const from = open.coordinate.seq
    // Some of them in one run, so that forks leave in the middle of it.
    const together = Math.min(left, 5 - (from % 5))
    await Promise.all(
      Array.from({ length: together }, (_, i) => from + i + 1).map((n) =>
        open.append({ type: 'added', by: n, text: textOf(n) }),
      ),
    )
    left -= together
    if ((from + together) % 10 === 0) await open.checkpoint()
  }
  await open.close()
}

async function readAll(rp: Reprise, timeline = id): Promise<number[]> {
  const seqs: number[] = []
  for await (const { seq, data } of entriesAfter(rp, (await rp.head(timeline))!, 0)) {
    expect((data as Added).text).toBe(textOf(seq))
    seqs.push(seq)
  }
  return seqs
}

const upTo = (n: number) => Array.from({ length: n }, (_, i) => i + 1)
const sum = (n: number) => (n * (n + 1)) / 2

describe('A8.3: history in a colder place', () => {
  it('leaves the store once it was read back, and every process reads it from there', async () => {
    const rp = await start({ tiers: tiers() })
    await add(rp, 60)
    const dry = await rp.tiers({ dryRun: true })
    expect((await rp.head(id))!.floor).toBe(0)
    const { history } = await rp.tiers()
    expect(history).toMatchObject({ tier: 'cold', segments: 1, moved: dry.history.moved, refused: [] })
    const { floor } = (await rp.head(id))!
    expect(floor).toBe(50)
    expect(await hostOf(rp).kernel.store.read(timelineId(id), 0, 1)).toMatchObject([{ first: 51 }])
    expect((await rp.checkpoints(id)).every(({ seq }) => seq >= 50)).toBe(true)
    await rp.close()
    const again = await start()
    expect(await readAll(again)).toEqual(upTo(60))
    const report = await again.verify()
    expect(report).toMatchObject({ ok: true, faults: [], orphans: 0 })
    expect(report.entries).toBeGreaterThanOrEqual(60)
    // A repetition has nothing to do.
    expect((await again.tiers()).history.moved).toBe(0)
    await again.close()
  })

  it('grows by whole segments: a small one is rewritten with its successor', async () => {
    const rp = await start({ tiers: tiers() })
    for (let round = 1; round <= 4; round++) {
      await add(rp, 20)
      expect((await rp.tiers()).history.segments).toBe(1)
      await rp.collect({ graceMs: -60_000 })
      expect(await readAll(rp)).toEqual(upTo(20 * round))
      const lines = await hostOf(rp).kernel.segments.all(timelineId(id))
      expect(lines.length - (await rp.checkpoints(id)).length).toBe(1)
    }
    expect((await rp.verify()).ok).toBe(true)
    await rp.close()
  })

  it('stays in the store without a matching tier, and the report gives the reason', async () => {
    const rp = await start({ tiers: { cold: { at: cold(), keep: 5 } } })
    await add(rp, 40)
    const { history } = await rp.tiers()
    expect(history).toMatchObject({ tier: null, segments: 0, moved: 0 })
    expect(history.refused[0]!.why).toMatch(/no tier accepts history/)
    await rp.collect()
    expect((await rp.head(id))!.floor).toBe(0)
    await rp.close()
  })

  it('is forked and rolled back to, at any sequence, and outlives the timeline that was forked', async () => {
    const rp = await start({ tiers: tiers() })
    await add(rp, 60)
    await rp.tiers()
    const fork = await rp.fork({ timeline: id, seq: 17 }, 'b')
    expect(fork).toMatchObject({ timeline: 'counter/b', seq: 17 })
    const b = await rp.open(counter, 'b')
    expect(b.state).toEqual({ total: sum(17), count: 17 })
    await b.append({ type: 'added', by: 18, text: textOf(18) })
    await b.close()
    expect(await readAll(rp, 'counter/b')).toEqual(upTo(18))
    // The parent goes, with everything that was its own.
    await rp.delete(id)
    await rp.collect({ graceMs: -60_000 })
    expect(await readAll(rp, 'counter/b')).toEqual(upTo(18))
    expect((await rp.verify()).faults).toEqual([])
    await rp.rollback({ to: { timeline: 'counter/b', seq: 9 } })
    const back = await rp.open(counter, 'b')
    expect(back.state).toEqual({ total: sum(9), count: 9 })
    await back.close()
    await add(rp, 41, 'b')
    expect(await readAll(rp, 'counter/b')).toEqual(upTo(50))
    await rp.tiers()
    await rp.collect({ graceMs: -60_000 })
    expect(await readAll(rp, 'counter/b')).toEqual(upTo(50))
    expect((await rp.verify()).faults).toEqual([])
    await rp.close()
  })

  it('a fork that starts in the middle of a large segment continues with a segment of its own', async () => {
    const rp = await start({ tiers: tiers() })
    const grow = async (name: string, count: number) => {
      const open = await rp.open(counter, name)
      for (let i = 0; i < count; i++) {
        await open.append({ type: 'added', by: 1, text: randomBytes(60_000).toString('base64') })
        if (i % 10 === 9) await open.checkpoint()
      }
      await open.close()
    }
    await grow('a', 40)
    await rp.tiers()
    const [large] = await hostOf(rp).kernel.segments.of(timelineId(id))
    expect(large!.totalBytes).toBeGreaterThan(1024 * 1024)
    await rp.fork({ timeline: id, seq: 13 }, 'b')
    await grow('b', 30)
    await rp.tiers()
    expect((await rp.head('counter/b'))!.floor).toBe(33)
    const seqs: number[] = []
    for await (const { seq } of entriesAfter(rp, (await rp.head('counter/b'))!, 0)) seqs.push(seq)
    expect(seqs).toEqual(upTo(43))
    expect((await rp.verify()).faults).toEqual([])
    await rp.close()
  })

  it('makes state anew where every checkpoint is damaged', async () => {
    const rp = await start({ tiers: tiers() })
    await add(rp, 40)
    await rp.tiers()
    for (const { id: checkpoint } of await rp.checkpoints(id))
      await rp.markCheckpoint(id, checkpoint, { why: 'a test' })
    const again = await rp.open(counter, 'a')
    expect(again.state).toEqual({ total: sum(40), count: 40 })
    await again.close()
    await rp.close()
  })

  it('is part of an export, and is not needed by the importing store', async () => {
    const rp = await start({ tiers: tiers() })
    await add(rp, 40)
    await rp.tiers()
    await rp.export({ timeline: id, seq: 40 }, join(folder, 'a.rpx'))
    await rp.close()
    const other = await open(`sqlite:${join(folder, 'other.db')}`, { housekeeping: false })
    await other.import(join(folder, 'a.rpx'))
    expect(await readAll(other)).toEqual(upTo(40))
    await other.close()
  })

  it('is collected with its timeline, and not before', async () => {
    const rp = await start({ tiers: tiers() })
    await add(rp, 40)
    await rp.tiers()
    await rp.collect({ graceMs: -60_000 })
    expect(await readAll(rp)).toEqual(upTo(40))
    await rp.erase(id)
    expect((await rp.tiers({ dryRun: true })).tiers.map(({ chunks }) => chunks)).toEqual([0, 0])
    await rp.close()
  })

  it('A1.3: a damaged or lost segment is named by verify, and neither stops the work nor is read', async () => {
    const rp = await start({ tiers: tiers() })
    await add(rp, 40)
    await rp.tiers()
    const [line] = await hostOf(rp).kernel.segments.of(timelineId(id))
    const file = readdirSync(cold(), { recursive: true, encoding: 'utf8' }).find((name) => /[0-9a-f]{64}$/.test(name))!
    const sound = readFileSync(join(cold(), file))
    for (const damage of [
      () =>
        writeFileSync(
          join(cold(), file),
          sound.map((byte) => byte ^ 1),
        ),
      () => rmSync(join(cold(), file)),
    ]) {
      damage()
      const { faults } = await rp.verify()
      expect(faults.map(({ where }) => where)).toEqual([expect.stringContaining(`segment ${line!.id}`)])
      await expect(readAll(rp)).rejects.toMatchObject({ code: 'HISTORY_DAMAGED', data: { segment: line!.id } })
      const work = await rp.open(counter, 'a')
      expect(work.state.count).toBe(40)
      await work.close()
    }
    writeFileSync(join(cold(), file), sound)
    expect((await rp.verify()).ok).toBe(true)
    await rp.close()
  })

  it.each([
    ['lost', (file: string) => rmSync(file)],
    [
      'damaged',
      (file: string) =>
        writeFileSync(
          file,
          readFileSync(file).map((byte) => byte ^ 1),
        ),
    ],
  ])('G8: a %s segment is written anew from a copy that has its entries, and from no other', async (_, spoil) => {
    const rp = await start({ tiers: tiers() })
    await add(rp, 40)
    const exported = join(folder, 'sound.reprise')
    await rp.export({ timeline: id, seq: 40 }, exported)
    const other = await open('memory:', { housekeeping: false })
    await add(other, 20)
    await (await other.open(counter, 'a')).append({ type: 'added', by: 1, text: 'another branch' })
    const branch = join(folder, 'branch.reprise')
    await other.export({ timeline: id, seq: 21 }, branch)
    await other.close()
    await rp.tiers()
    for (const name of readdirSync(cold(), { recursive: true, encoding: 'utf8' }))
      if (/[0-9a-f]{64}$/.test(name)) spoil(join(cold(), name))
    expect((await rp.verify({ repair: true, from: branch })).ok).toBe(false)
    const { ok, healed } = await rp.verify({ repair: true, from: exported })
    expect(healed).toMatchObject([{ timeline: id, seq: 1, from: exported, isPutRight: true }])
    expect([ok, await readAll(rp)]).toEqual([true, upTo(40)])
    await rp.tiers()
    expect([(await rp.verify()).ok, await readAll(rp)]).toEqual([true, upTo(40)])
    await rp.close()
  })

  it('an unreachable place is no damage: its data cannot be read, and the rest continues', async () => {
    const rp = await start({ tiers: tiers() })
    await add(rp, 40)
    await rp.tiers()
    await rp.close()
    renameSync(cold(), join(folder, 'unmounted'))
    const blind = await start()
    await expect(readAll(blind)).rejects.toMatchObject({ code: 'CHUNKS_ELSEWHERE' })
    await add(blind, 10)
    await blind.close()
    renameSync(join(folder, 'unmounted'), cold())
    const again = await start()
    expect(await readAll(again)).toEqual(upTo(50))
    await again.close()
  })

  it('single entries in a segment are not erased in silence', async () => {
    const rp = await start({ tiers: tiers() })
    await add(rp, 40)
    await rp.tiers()
    await rp.open(counter, 'a').then((open) => open.close())
    const plan = await rp.eraseEntries(id, { entries: { from: 3, to: 3 }, dryRun: true })
    expect(plan.refusals.map(({ why }) => why).join()).toMatch(/is in a colder tier/)
    await rp.close()
  })

  it('is sealed with the key ring: nothing of it can be read in the place', async () => {
    const keys = { current: 'k1', keys: { k1: new Uint8Array(32).fill(7) } }
    const rp = await start({ tiers: tiers(), keys } as Options)
    await add(rp, 40)
    await rp.tiers()
    expect(await readAll(rp)).toEqual(upTo(40))
    await rp.close()
    const files = readdirSync(cold(), { recursive: true, encoding: 'utf8' }).filter((name) =>
      /[0-9a-f]{64}$/.test(name),
    )
    expect(files.length).toBeGreaterThan(0)
    for (const file of files) expect(readFileSync(join(cold(), file)).includes(Buffer.from('added'))).toBe(false)
  })
})

it('killed at every call to the place and at every commit, all of history exists, and the next round continues', async () => {
  for (let k = 1; ; k++) {
    const file = `sqlite:${join(folder, `${k}.db`)}`
    const place = join(folder, `cold-${k}`)
    const rp = await open(file, { housekeeping: false, tiers: { cold: { at: place, history: true } } })
    await add(rp, 30)
    const { kernel } = hostOf(rp)
    let calls = 0
    const step = async <T>(work: () => Promise<T> | T): Promise<T> => {
      if (++calls >= k) throw new Error('killed')
      return await work()
    }
    const dying = (blobs: Blobs) =>
      forwardBlobs(blobs, {
        put: (chunks, at) => step(() => blobs.put(chunks, at)),
        get: (digests) => step(() => blobs.get(digests)),
        touch: (digests, at) => step(() => blobs.touch(digests, at)),
      })
    kernel.tiers.places = kernel.tiers.places.map((each) => ({
      ...each,
      open: async () => {
        const opened = await each.open()
        return { ...opened, blobs: dying(opened.blobs) }
      },
    }))
    const { committer } = kernel
    const submit = committer.submit.bind(committer)
    // Either before it is sent, or after it was applied.
    committer.submit = async (commit) => {
      await step(() => undefined)
      const outcome = await submit(commit)
      await step(() => undefined)
      return outcome
    }
    const isWhole = await rp.tiers().then(
      () => true,
      () => false,
    )
    committer.submit = submit
    await rp.close()
    const again = await open(file, { housekeeping: false })
    expect(await readAll(again), `killed at call ${k}`).toEqual(upTo(30))
    await again.tiers()
    await again.collect({ graceMs: -60_000 })
    expect((await again.head(id))!.floor, `killed at call ${k}`).toBe(20)
    expect(await readAll(again), `killed at call ${k}`).toEqual(upTo(30))
    expect((await again.verify()).ok).toBe(true)
    await again.close()
    if (isWhole) {
      expect(k).toBeGreaterThan(4)
      break
    }
  }
})

it('a segment that reads back differently leaves history in the store', async () => {
  const rp = await start({ tiers: tiers() })
  await add(rp, 30)
  const { kernel } = hostOf(rp)
  kernel.tiers.places = kernel.tiers.places.map((each) => ({
    ...each,
    open: async () => {
      const opened = await each.open()
      const get: Blobs['get'] = async (digests) =>
        (await opened.blobs.get(digests)).map((b) => b?.map((x) => x ^ 1) ?? null)
      return { ...opened, blobs: forwardBlobs(opened.blobs, { get }) }
    },
  }))
  const { history } = await rp.tiers()
  expect(history.moved).toBe(0)
  expect(history.refused[0]!.why).toMatch(/cannot be read/)
  expect((await rp.head(id))!.floor).toBe(0)
  await rp.close()
})

it('two processes: a collector beside the mover takes nothing that is named, and an owner that comes between is respected', async () => {
  const rp = await start({ tiers: tiers() })
  const other = await start()
  await add(rp, 30)
  const { kernel } = hostOf(rp)
  let isBetween = true
  kernel.tiers.places = kernel.tiers.places.map((each) => ({
    ...each,
    open: async () => {
      const opened = await each.open()
      const put: Blobs['put'] = async (chunks, at) => {
        await opened.blobs.put(chunks, at)
        if (!isBetween) return
        isBetween = false
        // Sweeps every unreferenced chunk, regardless of announcements.
        await other.collect({ graceMs: -60_000 })
        await add(other, 1)
      }
      return { ...opened, blobs: forwardBlobs(opened.blobs, { put }) }
    },
  }))
  const first = await rp.tiers()
  expect(first.history.moved === 0 ? first.history.refused.length : 1).toBe(1)
  expect(await readAll(other)).toEqual(upTo(31))
  await rp.tiers()
  expect((await rp.head(id))!.floor).toBe(20)
  expect(await readAll(other)).toEqual(upTo(31))
  expect((await other.verify()).faults).toEqual([])
  await other.close()
  await rp.close()
})
