// Redundancy is a setting of the store: every process that opens it follows, a change is recorded, and an older store has none
// until a collection.

import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { type Digest, toHex } from '../../src/core/coordinate.ts'
import { isRedundancy } from '../../src/core/store/blobs.ts'
import type { Store } from '../../src/core/store/ports.ts'
import { open, openStore } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { noise } from '../entities/support.ts'

const drafts = save<string>('drafts', { keep: 3 })
const quiet = { housekeeping: false } as const
const ever = Number.MAX_SAFE_INTEGER

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

function newUrl(): string {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-choice-'))
  folders.push(folder)
  return `sqlite:${join(folder, 'app.db')}`
}

async function using<T>(url: string, options: object, work: (rp: Reprise) => Promise<T>): Promise<T> {
  const rp = await open(url, { ...quiet, ...options })
  try {
    return await work(rp)
  } finally {
    await rp.close()
  }
}

async function beneath<T>(url: string, work: (store: Store) => Promise<T>): Promise<T> {
  const store = await openStore(url, {})
  try {
    return await work(store)
  } finally {
    await store.close()
  }
}

async function redundancyIn(url: string): Promise<number> {
  return await beneath(url, async ({ blobs }) => {
    return (await blobs.list(null, 10_000)).filter(({ digest }) => isRedundancy(digest)).length
  })
}

async function put(rp: Reprise, n: number): Promise<void> {
  const series = await rp.open(drafts)
  await series.put(noise(n, 30_000))
  await series.close()
}

/** Whether the newest save is read after a chunk of it is gone. */
async function survives(url: string): Promise<boolean> {
  const newest = await using(url, { readOnly: true }, async (rp) => (await drafts.read(rp).latest()).value)
  const digest = await beneath(url, async ({ blobs }) => {
    const found: Digest[] = []
    for (const row of await blobs.list(null, 10_000)) if (!isRedundancy(row.digest)) found.push(row.digest)
    const largest = (await blobs.get(found)).map((bytes, i) => [bytes?.length ?? 0, found[i]!] as const)
    const [, picked] = largest.sort(([a], [b]) => b - a)[0]!
    await blobs.delete([picked], ever)
    return toHex(picked)
  })
  return await using(url, {}, async (rp) => {
    try {
      const { ok, faults, healed } = await rp.verify({ repair: true })
      return ok && healed.length > 0 && faults.length === 0 && (await drafts.read(rp).latest()).value === newest
    } catch (error) {
      throw new Error(`without chunk ${digest}`, { cause: error })
    }
  })
}

describe('the choice of redundancy', () => {
  it('is made once, followed by processes without a choice, recorded when changed, and not kept per process', async () => {
    const url = newUrl()
    await using(url, { redundancy: false }, async (rp) => await put(rp, 1))
    expect(await redundancyIn(url)).toBe(0)
    await using(url, {}, async (rp) => {
      await put(rp, 2)
      await rp.collect({ graceMs: 0 })
    })
    expect(await redundancyIn(url)).toBe(0)
    const told: unknown[] = []
    await using(url, { redundancy: true, worker: 'ann' }, async (rp) => {
      await put(rp, 3)
      await rp.collect({ graceMs: 0 })
      told.push(JSON.parse(String((await rp.head('reprise/store'))?.attributes.$redundancy)))
    })
    expect(told).toMatchObject([{ isOn: true, before: false, by: 'ann' }])
    expect(await redundancyIn(url)).toBeGreaterThan(0)
    expect(await survives(url)).toBe(true)
  })

  it('reaches a process that was open before, when it collects', async () => {
    const url = newUrl()
    await using(url, {}, async (old) => {
      await put(old, 1)
      await using(url, { redundancy: false }, async (rp) => await put(rp, 2))
      expect(await redundancyIn(url)).toBeGreaterThan(0)
      await old.collect({ graceMs: 0 })
      await put(old, 3)
    })
    expect(await redundancyIn(url)).toBe(0)
  })

  it('is not written by who only reads', async () => {
    const url = newUrl()
    await using(url, {}, async (rp) => await put(rp, 1))
    await using(url, { redundancy: false, readOnly: true }, async (rp) => await rp.verify())
    await using(url, {}, async (rp) => {
      expect((await rp.head('reprise/store'))?.attributes.$redundancy).toBeUndefined()
      await put(rp, 2)
    })
    expect(await survives(url)).toBe(true)
  })

  it('is yes by default: an older store has its redundancy after the next collection', async () => {
    const url = newUrl()
    await using(url, {}, async (rp) => await put(rp, 1))
    await beneath(url, async ({ blobs }) => {
      const ours = (await blobs.list(null, 10_000)).map(({ digest }) => digest).filter(isRedundancy)
      await blobs.delete(ours, ever)
    })
    expect(await redundancyIn(url)).toBe(0)
    await using(url, {}, async (rp) => await rp.collect())
    expect(await survives(url)).toBe(true)
  })
})

describe('what redundancy costs', () => {
  /** The file after collection, with nothing free in it. */
  async function bytesOf(redundancy: boolean): Promise<number> {
    const url = newUrl()
    await using(url, { redundancy }, async (rp) => {
      const series = await rp.open(drafts)
      const parts = Array.from({ length: 400 }, (_, i) => noise(i, 2000))
      for (let n = 0; n < 5; n++) {
        for (let i = 0; i < 40; i++) parts[(i * 9 + n * 37) % parts.length] = noise(1000 * (n + 1) + i, 2000)
        await series.put(parts.join(''))
      }
      await series.close()
      await rp.collect({ graceMs: 0 })
    })
    // One round returns some of the free pages.
    await beneath(url, async (store) => {
      for (let round = 0; round < 3; round++) await store.upkeep.tidy(0)
    })
    return statSync(url.slice('sqlite:'.length)).size
  }

  it('is at most 15 % of the bytes of a file, scattered changes included', async () => {
    const [without, kept] = [await bytesOf(false), await bytesOf(true)]
    expect(without).toBeGreaterThan(500_000)
    expect(kept).toBeGreaterThan(without)
    expect(kept / without).toBeLessThanOrEqual(1.15)
  })
})
