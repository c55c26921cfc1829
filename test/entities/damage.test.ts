// G7, G8: bytes damaged at random, in aggregates, tables, paged tables, projections and saves. They may cost time, or be
// refused by name, but never give a wrong answer. Two ways: answers of each store bent on their way up, and bits flipped
// in the files of a SQLite store, with chunks in it or in a directory. Rows of PostgreSQL: damage-rows.test.ts.
// More: REPRISE_ENTITY_FLIPS=20000 npx vitest run test/entities/damage.test.ts

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { recover } from '../../src/engine/history/recover.ts'
import { stateDigest } from '../../src/engine/tools/drill/drill.ts'
import { isReprise } from '../../src/index.ts'
import { newFolder, removeFolder } from '../crash/support.ts'
import { copyFolder, filesIn, openAt, type Place } from '../damage/world.ts'
import { randomFrom } from '../programs/crash-model.mjs'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'
import {
  fill,
  hours,
  judge,
  kept,
  log,
  pages,
  readersOf,
  report,
  savedAt,
  saves,
  seed,
  trials,
  type Verdict,
} from './damage-world.ts'
import { bendable, flipped, noise } from './support.ts'

const counts: Record<string, number> = { memory: 4000, sqlite: 600, postgres: 90 }

onEveryStore('damaged answers', (world) => {
  it('G7 G8: bits flipped in history, manifests and chunks on their way up: the same state, or refused by name', {
    timeout: hours,
  }, async () => {
    const w = await world()
    const rp = await w.engine()
    await fill(rp)
    const { kernel } = hostOf(rp)
    let target: { method: string; call: number; place: number; bit: number } | null = null
    let calls = 0
    const damage = <T>(method: string, bytes: T): T => {
      if (target?.method !== method || !(bytes instanceof Uint8Array) || calls++ !== target.call) return bytes
      return flipped(bytes, target.place % bytes.length, target.bit) as T
    }
    const store = bendable(kernel.store, {
      read: async (...args) =>
        (await kernel.store.read(...args)).map((run) => ({
          ...run,
          bytes: damage('read', run.bytes),
          digest: damage('read-digest', run.digest),
        })),
      checkpoints: async (timeline) =>
        (await kernel.store.checkpoints(timeline)).map((record) => ({
          ...record,
          body: damage('manifest', record.body),
        })),
      blobsGet: async (digests) => (await kernel.store.blobs.get(digests)).map((bytes) => damage('chunk', bytes)),
    })
    const bent = { ...kernel, store }
    const folds = [
      { id: 'table/kept', fold: kept.fold },
      { id: 'table/pages', fold: pages.fold },
      { id: 'events/log/x', fold: log.fold },
    ]
    const readers = await Promise.all(
      folds.map(async ({ id, fold }) => {
        const head = (await rp.head(id))!
        return async () => {
          const { state, report: told } = await recover(bent, head, fold as never)
          return { text: stateDigest(bent, state as never), skipped: told.skipped.length }
        }
      }),
    )
    const Reader = saves.read(rp).constructor as new (
      ...args: unknown[]
    ) => { latest(): Promise<{ value: { text: string }; skipped: readonly unknown[] }> }
    const reader = new Reader(bent, { name: 'saves', format: 1, keep: 3, upcasters: {} }, 'save/saves')
    // An older save may replace a damaged newest one, and reports that.
    const texts = savedAt.map((n) => noise(n, 2600)).reverse()
    readers.push(async () => {
      const { value, skipped } = await reader.latest()
      return {
        text: value.text === texts[skipped.length] ? 'the newest whole one' : value.text,
        skipped: skipped.length,
      }
    })
    const truths = await Promise.all(readers.map(async (read) => (await read()).text))
    // The bytes that each of them reads, so that every trial meets one.
    const asked = new Map<() => Promise<unknown>, { method: string; calls: number }[]>()
    for (const read of readers) {
      const found: { method: string; calls: number }[] = []
      for (const method of ['read', 'read-digest', 'manifest', 'chunk']) {
        calls = 0
        target = { method, call: Number.POSITIVE_INFINITY, place: 0, bit: 0 }
        await read()
        if (calls > 0) found.push({ method, calls })
      }
      asked.set(read, found)
    }
    const random = randomFrom(seed)
    const seen = new Map<string, number>()
    const wrong: string[] = []
    const count = trials(counts[w.kind]!)
    let hits = 0
    for (let trial = 0; trial < count; trial++) {
      const read = readers[trial % readers.length]!
      const among = asked.get(read)!
      const { method, calls: count } = among[random.below(among.length)]!
      target = { method, call: random.below(count), place: random.below(5000), bit: random.below(8) }
      calls = 0
      const verdict: Verdict = await judge(read, truths[trial % readers.length]!)
      if (calls > target.call) hits += 1
      if (verdict.startsWith('WRONG')) wrong.push(`seed ${seed}, trial ${trial}: ${verdict}`)
      seen.set(verdict.slice(0, 40), (seen.get(verdict.slice(0, 40)) ?? 0) + 1)
    }
    report(`${count} damaged answers of ${w.kind}, ${hits} of them met`, seen)
    expect(wrong.slice(0, 5)).toEqual([])
    // The alarm is wired: every trial met its byte, and some could not be survived.
    expect(hits).toBe(count)
    expect([...seen.keys()].some((word) => word.startsWith('refused'))).toBe(true)
    expect(seen.get('equal, by another way')).toBeGreaterThan(0)
  })
})

describe('damaged files', () => {
  const folder = newFolder(true)
  const copy = join(folder, 'copy')
  const layouts = ['sqlite', 'directory'] as const
  const placeIn = (parent: string, layout: string): Place => ({
    file: join(parent, 'store.db'),
    ...(layout === 'directory' && { chunks: join(parent, 'chunks') }),
  })
  const truths = new Map<string, readonly string[]>()

  beforeAll(async () => {
    for (const layout of layouts) {
      const rp = await openAt(placeIn(join(folder, layout), layout))
      await fill(rp)
      await rp.close()
      copyFolder(join(folder, layout), copy)
      truths.set(
        layout,
        await withStore(layout, async (opened) => {
          const all: string[] = []
          for (const read of readersOf(opened)) all.push((await read()).text)
          return all
        }),
      )
    }
  }, hours)
  afterAll(() => removeFolder(folder))

  async function withStore<R>(layout: string, use: (rp: Reprise) => Promise<R>): Promise<R> {
    const rp = await openAt(placeIn(copy, layout), 2)
    try {
      return await use(rp)
    } finally {
      await rp.close().catch(() => undefined)
    }
  }

  for (const layout of layouts) {
    it(`G7 G8: one bit flipped in a file of a store (${layout}): the written value, or refused by name`, {
      timeout: hours,
    }, async () => {
      const count = trials(100)
      const random = randomFrom(seed)
      const given = process.env.REPRISE_ENTITY_DAMAGE?.split(':')
      // Only the chunks of the directory: its database is like the other.
      const pool = filesIn(join(folder, layout))
        .filter((file) => (layout === 'sqlite' ? file.endsWith('.db') : file.startsWith('chunks')))
        .map((file) => ({ file, bytes: readFileSync(join(folder, layout, file)) }))
      const seen = new Map<string, number>()
      const wrong: string[] = []
      for (let trial = 0; trial < (given ? 1 : count); trial++) {
        const { file, bytes } = pool[random.below(pool.length)]!
        // Zeros are mostly unused space: they are flipped less often.
        let place = random.below(bytes.length)
        while (bytes[place] === 0 && random.chance(0.9)) place = random.below(bytes.length)
        const [name, offset, bit] = given
          ? [given[0]!, Number(given[1]), Number(given[2])]
          : [file, place, random.below(8)]
        copyFolder(join(folder, layout), copy)
        const path = join(copy, name)
        writeFileSync(path, flipped(readFileSync(path), offset, bit))
        const verdicts: Verdict[] = []
        try {
          await withStore(layout, async (rp) => {
            for (const [i, read] of readersOf(rp).entries()) verdicts.push(await judge(read, truths.get(layout)![i]!))
          })
        } catch (error) {
          if (!isReprise(error)) throw error
          verdicts.push(`refused: ${error.code}`)
        }
        for (const verdict of verdicts) {
          seen.set(verdict.slice(0, 40), (seen.get(verdict.slice(0, 40)) ?? 0) + 1)
          if (!verdict.startsWith('WRONG')) continue
          wrong.push(
            `${verdict}\n  REPRISE_ENTITY_DAMAGE='${name}:${offset}:${bit}' npx vitest run test/entities/damage.test.ts -t ${layout}`,
          )
        }
      }
      report(`${count} damaged stores (${layout})`, seen)
      expect(wrong.slice(0, 5), `${wrong.length} got through`).toEqual([])
    })
  }

  it('rings: another answer than the one that was written is noticed', async () => {
    copyFolder(join(folder, 'sqlite'), copy)
    await withStore('sqlite', async (rp) => await (await rp.open(log, 'x')).do('note', { text: 'one more' }))
    const verdicts = await withStore('sqlite', async (rp) => {
      const all: Verdict[] = []
      for (const [i, read] of readersOf(rp).entries()) all.push(await judge(read, truths.get('sqlite')![i]!))
      return all
    })
    expect(verdicts.filter((verdict) => verdict.startsWith('WRONG'))).toHaveLength(2)
  })
})
