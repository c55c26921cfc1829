// `verify --repair --from`: damage beyond the store's own redundancy (many damaged places at once) is repaired from any sound
// copy: another store, a folder of chunks, an export, a backup. The report lists the repairs, their sources and the remaining
// damage.

import { copyFileSync, cpSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { Digest } from '../../src/core/coordinate.ts'
import { isRedundancy } from '../../src/core/store/blobs.ts'
import { open, openStore } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { keyOf, kinds } from '../../src/engine/storage/redundancy/keys.ts'
import { save } from '../../src/layers/save/index.ts'
import { loadDriver } from '../../src/stores/sqlite/file/driver.ts'
import { cli } from '../cli/support.ts'
import { newFolder, removeFolder } from '../crash/support.ts'
import { noise } from '../entities/support.ts'

const drafts = save<readonly string[]>('drafts', { keep: 3 })
const quiet = { housekeeping: false } as const
const ever = Number.MAX_SAFE_INTEGER

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) removeFolder(folder)
})

interface Place {
  readonly folder: string
  readonly file: string
  readonly url: string
  readonly options: { readonly blobs?: string; readonly namespace?: string }
}

async function made(hasFolder: boolean): Promise<Place & { readonly truth: unknown }> {
  const folder = newFolder(true)
  folders.push(folder)
  const file = join(folder, 'app.db')
  const options = hasFolder ? { blobs: `file:${join(folder, 'chunks')}` } : {}
  const place = { folder, file, url: `sqlite:${file}`, options }
  const truth = await using(place, async (rp) => {
    const series = await rp.open(drafts)
    for (let n = 0; n < 4; n++)
      await series.put(Array.from({ length: 40 }, (_, i) => noise(i < 30 ? i : n * 99 + i, 1500)))
    await series.close()
    await rp.collect({ graceMs: 0 })
    return await saved(rp)
  })
  return { ...place, truth }
}

async function using<T>({ url, options }: Place, work: (rp: Reprise) => Promise<T>): Promise<T> {
  const rp = await open(url, { ...quiet, ...options })
  try {
    return await work(rp)
  } finally {
    await rp.close()
  }
}

async function saved(rp: Reprise): Promise<unknown> {
  const reader = drafts.read(rp)
  const values: unknown[] = []
  for (const { id } of await reader.list()) values.push((await reader.load(id)).value)
  return values
}

/** All parity goes, and half of the chunks: some are missing, some hold something else. */
async function ruin({ url, options }: Place): Promise<void> {
  const store = await openStore(url, options)
  const digests = (await store.blobs.list(null, 10_000)).map(({ digest }) => digest)
  const bad: Digest[] = digests.filter((digest, i) => i % 2 === 0 || isRedundancy(digest))
  await store.blobs.delete(bad, ever)
  for (const digest of bad.filter((each, i) => i % 4 === 0 && !isRedundancy(each))) {
    await store.blobs.put([{ digest, bytes: new Uint8Array(100) }])
  }
  await store.close()
}

async function expectRepaired(place: Place & { readonly truth: unknown }, from: string): Promise<void> {
  await ruin(place)
  await using(place, async (rp) => {
    const before = await rp.verify()
    expect(before.ok).toBe(false)
    expect(before.faults.length).toBeGreaterThan(0)
    const repaired = await rp.verify({ repair: true, from })
    expect({ ok: repaired.ok, faults: repaired.faults }).toEqual({ ok: true, faults: [] })
    expect(repaired.healed.some((fault) => fault.from === from && fault.isPutRight)).toBe(true)
    expect(await rp.verify()).toMatchObject({ ok: true, healed: [], faults: [] })
    expect(await saved(rp)).toEqual(place.truth)
    // The log is written aside.
    await vi.waitFor(
      async () => {
        const log = await rp.log({ kind: 'repair' })
        expect(log.some(({ what }) => what.includes('repaired'))).toBe(true)
      },
      { timeout: 120_000 },
    )
  })
}

describe('a repair from elsewhere', () => {
  it('takes chunks from another store', async () => {
    const place = await made(false)
    const copy = join(place.folder, 'copy.db')
    copyFileSync(place.file, copy)
    await expectRepaired(place, `sqlite:${copy}`)
  })

  it('looks for the copy in its own namespace, or in the named one, and reports where it finds nothing', async () => {
    const place = await made(false)
    const file = join(place.folder, 'all.rpb')
    const copy = join(place.folder, 'copy.db')
    await using(place, (rp) => rp.backup(file))
    for (const namespace of ['prod', 'restored']) {
      const rp = await open(`sqlite:${copy}`, { ...quiet, namespace })
      await rp.restore(file)
      await rp.close()
    }
    const mine = join(place.folder, 'mine.db')
    copyFileSync(copy, mine)
    for (const from of [`sqlite:${copy}`, `sqlite:${copy}?namespace=restored`]) {
      await ruin({ ...place, url: `sqlite:${mine}`, options: { namespace: 'prod' } })
      const rp = await open(`sqlite:${mine}`, { ...quiet, namespace: 'prod' })
      const { ok, healed } = await rp.verify({ repair: true, from })
      expect({ ok, hasHealed: healed.some((fault) => fault.from === from) }).toEqual({ ok: true, hasHealed: true })
      expect(await saved(rp)).toEqual(place.truth)
      await expect(rp.verify({ repair: true, from: `sqlite:${copy}?namespace=none` })).rejects.toThrow(/namespace=NAME/)
      await rp.close()
    }
  })

  it('takes chunks from a mirror of the folder of chunks', async () => {
    const place = await made(true)
    const mirror = join(place.folder, 'mirror')
    cpSync(join(place.folder, 'chunks'), mirror, { recursive: true })
    await expectRepaired(place, mirror)
  })

  it('takes chunks from a backup and from an export', async () => {
    for (const make of ['backup', 'export'] as const) {
      const place = await made(false)
      const file = join(place.folder, 'kept')
      await using(place, async (rp) => {
        if (make === 'backup') await rp.backup(file)
        else await rp.export({ timeline: 'save/drafts', seq: (await rp.head('save/drafts'))!.seq }, file)
      })
      await expectRepaired(place, file)
    }
  })

  it('reports the remaining damage if the other place lacks the data too, and refuses other places', async () => {
    const place = await made(false)
    const copy = join(place.folder, 'copy.db')
    copyFileSync(place.file, copy)
    await ruin({ ...place, url: `sqlite:${copy}` })
    await ruin(place)
    await using(place, async (rp) => {
      const { ok, faults } = await rp.verify({ repair: true, from: `sqlite:${copy}` })
      expect({ ok, hasFaults: faults.length > 0 }).toEqual({ ok: false, hasFaults: true })
      await expect(rp.verify({ repair: true, from: join(place.folder, 'nowhere') })).rejects.toThrow(/NOT_FOUND/)
      await expect(rp.verify({ from: place.file } as never)).rejects.toThrow(/INVALID_ARGUMENT/)
    })
  })

  it('takes a damaged line of the catalog from there', async () => {
    const place = await made(false)
    const copy = join(place.folder, 'copy.db')
    copyFileSync(place.file, copy)
    const store = await openStore(place.url, {})
    const ours = (await store.blobs.list(null, 10_000)).map(({ digest }) => digest).filter(isRedundancy)
    await store.blobs.delete(ours, ever)
    await store.close()
    const database = (await loadDriver()).open(place.file, { isReadOnly: false })
    database
      .prepare(
        `UPDATE reprise_manifest SET body = zeroblob(length(body)) WHERE tid IN (SELECT tid FROM reprise_timeline WHERE name LIKE 'save/%')`,
      )
      .run()
    database.close()
    await using(place, async (rp) => {
      expect((await rp.verify()).faults.length).toBeGreaterThan(0)
      const { faults, healed } = await rp.verify({ repair: true, from: `sqlite:${copy}` })
      // The rows themselves are written back: nothing is named the next time.
      expect(faults).toEqual([])
      expect(healed.filter(({ where }) => where.endsWith('catalog')).length).toBeGreaterThan(0)
      expect(await saved(rp)).toEqual(place.truth)
      expect(await rp.verify()).toMatchObject({ ok: true, faults: [], healed: [] })
    })
  })

  it('recounts the lines if one is lost for good, and reports the number', async () => {
    const place = await made(false)
    const store = await openStore(place.url, {})
    const ours = (await store.blobs.list(null, 10_000)).map(({ digest }) => digest).filter(isRedundancy)
    await store.blobs.delete(ours, ever)
    await store.close()
    const database = (await loadDriver()).open(place.file, { isReadOnly: false })
    database.exec(`DELETE FROM reprise_manifest WHERE number = (SELECT min(m.number) FROM reprise_manifest m
      JOIN reprise_timeline t USING (tid) WHERE t.name LIKE 'save/%')`)
    database.close()
    await using(place, async (rp) => {
      const before = await rp.verify()
      expect(before.faults.map(({ timeline }) => timeline)).toContain('save/drafts')
      const { faults } = await rp.verify({ repair: true })
      expect(faults.map(({ timeline, what }) => [timeline, what])).toEqual([
        ['save/drafts', 'one row of its catalog was lost, without a copy; the others were counted again'],
      ])
      expect((await rp.verify()).faults).toEqual([])
    })
  })

  it('puts a chunk that lay aside back into its place: the next verify finds nothing', async () => {
    const place = await made(false)
    // As it is after the page of the chunk was damaged, its copy was put aside, and the file was written anew.
    const store = await openStore(place.url, place.options)
    const [first] = (await store.blobs.list(null, 1)).map(({ digest }) => digest)
    const [bytes] = await store.blobs.get([first!])
    await store.blobs.delete([first!], ever)
    await store.blobs.put([{ digest: keyOf(kinds.copy, first!), bytes: bytes! }])
    await store.close()
    await using(place, async (rp) => {
      expect((await rp.verify()).ok).toBe(false)
      expect((await rp.verify({ repair: true })).ok).toBe(true)
    })
    await using(place, async (rp) => {
      expect(await rp.verify()).toMatchObject({ ok: true, healed: [] })
      expect(await saved(rp)).toEqual(place.truth)
    })
  })

  it('is a command, whose exit code shows whether damage is left', async () => {
    const place = await made(false)
    const copy = join(place.folder, 'copy.db')
    copyFileSync(place.file, copy)
    await ruin(place)
    const run = (args: readonly string[]) => cli([...args, '--url', place.url], { cwd: place.folder })
    expect((await run(['verify'])).code).toBe(8)
    const repaired = await run(['verify', '--repair', '--from', `sqlite:${copy}`])
    expect({ code: repaired.code, says: repaired.stdout.includes('repaired') }).toEqual({ code: 0, says: true })
    expect((await run(['verify'])).code).toBe(0)
  })
})
