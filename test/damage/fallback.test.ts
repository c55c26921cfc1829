// G8, G11: the newest k of n checkpoints are damaged on disk: their chunks or their manifests, flipped, cut or gone. A
// recovery uses the newest one that is sound, else all history, and gives the state that full replay gives; where history was
// trimmed and none is sound, it is refused. A drill fails on every damaged one and passes on every sound one.
// More: REPRISE_RESTORES=10000.

import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { toHex } from '../../src/core/coordinate.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { readManifest, recover } from '../../src/engine/history/recover.ts'
import { stateIo } from '../../src/engine/snapshot/kernel-io.ts'
import { liveChunks } from '../../src/engine/snapshot/restore.ts'
import { stateDigest } from '../../src/engine/tools/drill/drill.ts'
import { type Keyed, keyed, timeline } from '../../src/index.ts'
import { type Database, loadDriver } from '../../src/stores/sqlite/file/driver.ts'
import { amount, newFolder, removeFolder } from '../crash/support.ts'
import { type Chance, randomFrom } from '../programs/crash-model.mjs'
import { hostOf } from '../support/host.ts'
import { copyFolder, definitions, openAt, write } from './world.ts'

const items = {
  initial: () => ({ sets: 0, items: keyed<string>() }),
  apply(state: { sets: number; items: Keyed<string> }, { key, text }: { type: 'set'; key: string; text: string }) {
    state.sets += 1
    state.items.set(key, text)
  },
}
/** History is trimmed behind its checkpoints, and they share the pages that did not change between them. */
const trimmed = timeline('trimmed', { ...items, retain: { checkpoints: 4, history: 'needed' } })
/** The same entries, all of them kept. */
const untrimmed = timeline('untrimmed', items)

/** Timelines with several checkpoints, and states of every shape; all but the last with all their history. */
const subjects = [
  { id: 'wide/w', definition: definitions.wide },
  { id: 'many/m', definition: definitions.many },
  { id: 'shelf/c', definition: definitions.shelf },
  { id: 'trimmed/t', definition: trimmed },
] as const

interface Known {
  /** The digest of the state after all history. */
  readonly digest: string
  readonly isTrimmed: boolean
  /** Newest first, with the chunks that each needs. */
  readonly checkpoints: readonly { readonly id: string; readonly seq: number; readonly chunks: readonly string[] }[]
}

type Way = 'chunk flipped' | 'chunk cut' | 'chunk gone' | 'manifest flipped' | 'manifest cut'
const ways: readonly Way[] = ['chunk flipped', 'chunk cut', 'chunk gone', 'manifest flipped', 'manifest cut']

const folder = newFolder(true)
const [whole, copy] = [join(folder, 'whole'), join(folder, 'copy')]
const known = new Map<string, Known>()
let openRaw: () => Database

beforeAll(async () => {
  const place = { file: join(whole, 'store.db') }
  // A fallback needs damage that cannot be repaired: no damage here is repaired from parity (one-place.test.ts tests that).
  const rp = await openAt(place, 1, false, false)
  // First, so that the reader of the feed is past it, and the collection at the end of the other trims it.
  await writeTrimmed(rp)
  await write(rp)
  for (const { id, definition } of subjects) {
    const records = await rp.checkpoints(id)
    const digest = await replayed(rp, id === 'trimmed/t' ? 'untrimmed/t' : id, definition.fold)
    const checkpoints = await Promise.all(
      records.map(async (record) => {
        const digests = await liveChunks(readManifest(hostOf(rp).kernel, record), stateIo(hostOf(rp).kernel))
        return { id: record.id as string, seq: record.seq, chunks: digests.map(toHex) }
      }),
    )
    const { floor } = (await rp.head(id))!
    known.set(id, { digest, isTrimmed: floor > 0, checkpoints })
  }
  await rp.close()
  const driver = await loadDriver()
  openRaw = () => driver.open(join(copy, 'store.db'), { isReadOnly: false })
})
afterAll(() => removeFolder(folder))

async function writeTrimmed(rp: Reprise): Promise<void> {
  const random = randomFrom(11)
  const [handle, twin] = [await rp.open(trimmed, 't'), await rp.open(untrimmed, 't')]
  const set = (count: number, keyOf: (i: number) => number) =>
    Array.from({ length: count }, (_, i) => ({
      type: 'set' as const,
      key: `k${keyOf(i)}`,
      text: String(random.below(1e9)).repeat(8),
    }))
  const rounds = [
    set(400, (i) => i),
    ...Array.from({ length: 6 }, () => set(5, () => random.below(400))),
    set(1, () => 7),
  ]
  for (const [round, entries] of rounds.entries()) {
    await handle.append(entries)
    if (round < rounds.length - 1) await handle.checkpoint()
  }
  await twin.append(rounds.flat())
  for (const each of [handle, twin]) await each.close()
}

async function replayed(rp: Reprise, id: string, fold: unknown): Promise<string> {
  const without = new Set((await rp.checkpoints(id)).map((record) => record.id as string))
  const { state } = await recover(hostOf(rp).kernel, (await rp.head(id))!, fold as never, { without })
  return stateDigest(hostOf(rp).kernel, state)
}

/** Returns the damaged checkpoints of the timeline: others may share a chunk. */
function damage(id: string, newest: number, random: Chance): Set<string> {
  const { checkpoints } = known.get(id)!
  const database = openRaw()
  const badChunks = new Set<string>()
  const badManifests = new Set<string>()
  for (const { id: checkpoint, chunks } of checkpoints.slice(0, newest)) {
    const way = ways[random.below(ways.length)]!
    if (way.startsWith('manifest') || chunks.length === 0) {
      const { body } = database.prepare('SELECT body FROM reprise_manifest WHERE id = ?').get(checkpoint) as {
        body: Uint8Array
      }
      database.prepare('UPDATE reprise_manifest SET body = ? WHERE id = ?').run(spoil(body, way, random), checkpoint)
      badManifests.add(checkpoint)
      continue
    }
    const chunk = chunks[random.below(chunks.length)]!
    if (badChunks.has(chunk)) continue
    badChunks.add(chunk)
    const digest = Buffer.from(chunk, 'hex')
    const { id: number } = database.prepare('SELECT id FROM reprise_chunk WHERE digest = ?').get(digest) as {
      id: number
    }
    if (way === 'chunk gone') {
      database.prepare('DELETE FROM reprise_chunk WHERE id = ?').run(number)
      database.prepare('DELETE FROM reprise_chunk_bytes WHERE id = ?').run(number)
      continue
    }
    const { bytes } = database.prepare('SELECT bytes FROM reprise_chunk_bytes WHERE id = ?').get(number) as {
      bytes: Uint8Array
    }
    database.prepare('UPDATE reprise_chunk_bytes SET bytes = ? WHERE id = ?').run(spoil(bytes, way, random), number)
  }
  database.close()
  const isBad = ({ id: checkpoint, chunks }: Known['checkpoints'][number]) =>
    badManifests.has(checkpoint) || chunks.some((chunk) => badChunks.has(chunk))
  return new Set(checkpoints.filter(isBad).map((checkpoint) => checkpoint.id))
}

function spoil(bytes: Uint8Array, way: Way, random: Chance): Uint8Array {
  const spoilt = new Uint8Array(bytes)
  if (way.endsWith('cut')) return spoilt.subarray(0, random.below(bytes.length))
  spoilt[random.below(bytes.length)]! ^= 1 << random.below(8)
  return spoilt
}

async function trial(seed: number): Promise<{ damaged: number; isTrimmed: boolean; isRefused: boolean }> {
  const random = randomFrom(seed)
  const { id, definition } = subjects[random.below(subjects.length)]!
  const { digest, checkpoints, isTrimmed } = known.get(id)!
  copyFolder(whole, copy)
  const bad = damage(id, random.below(checkpoints.length + 1), random)
  const sound = checkpoints.filter((checkpoint) => !bad.has(checkpoint.id))
  const isRefused = isTrimmed && sound.length === 0
  const rp = await openAt({ file: join(copy, 'store.db') }, seed, false, false)
  hostOf(rp).register(trimmed.prefix, trimmed.fold)
  try {
    const { results } = await rp.drill({ timelines: [id] })
    const drilled = results.filter(({ checkpoint }) => checkpoint !== null)
    expect(drilled.map(({ checkpoint, ok }) => [checkpoint, ok])).toEqual(
      checkpoints.map((checkpoint) => [checkpoint.id, !bad.has(checkpoint.id)]),
    )
    // Before it is opened: its replay may be long enough for a checkpoint, which takes the place of the damaged ones.
    const catalog = await rp.checkpoints(id)
    expect(
      catalog
        .filter(({ invalid }) => invalid !== null)
        .map((record) => record.id as string)
        .sort(),
    ).toEqual([...bad].sort())
    const opened = rp.open(definition as typeof definitions.wide, id.slice(id.indexOf('/') + 1), { takeover: true })
    if (isRefused) await expect(opened).rejects.toMatchObject({ code: 'UNRECOVERABLE' })
    else {
      const handle = await opened
      expect(handle.recovery.checkpoint?.id).toBe(sound[0]?.id)
      const { state } = await recover(hostOf(rp).kernel, (await rp.head(id))!, definition.fold as never)
      expect(stateDigest(hostOf(rp).kernel, state)).toBe(digest)
      expect(handle.coordinate.seq).toBe((await rp.head(id))!.seq)
    }
    return { damaged: bad.size, isTrimmed, isRefused }
  } finally {
    await rp.close()
  }
}

describe('damaged checkpoints', () => {
  const restores = amount('REPRISE_RESTORES', 60)
  const from = amount('REPRISE_DAMAGE_SEED', 1)

  it('G8, G11: recovery takes the newest sound one, and the drill knows each from the other', async () => {
    const { checkpoints } = known.get('trimmed/t')!
    const [newest, second] = checkpoints.map(({ chunks }) => new Set(chunks))
    expect(known.get('trimmed/t')!.isTrimmed).toBe(true)
    expect([...newest!].filter((chunk) => second!.has(chunk)).length).toBeGreaterThan(0)
    let [damaged, ofTrimmed, refused] = [0, 0, 0]
    for (let seed = from; seed < from + restores; seed++) {
      try {
        const done = await trial(seed)
        damaged += done.damaged
        if (done.isTrimmed) ofTrimmed += 1
        if (done.isRefused) refused += 1
      } catch (error) {
        console.log(
          `repeat: REPRISE_RESTORES=1 REPRISE_DAMAGE_SEED=${seed} npx vitest run test/damage/fallback.test.ts`,
        )
        throw error
      }
    }
    console.log(
      `${restores} restores (${ofTrimmed} of trimmed history), ${damaged} damaged checkpoints, every state equal to full ` +
        `replay, or refused (${refused}: nothing sound was left)`,
    )
    expect(damaged).toBeGreaterThan(0)
    if (restores >= 60) expect(ofTrimmed - refused).toBeGreaterThan(0)
  }, 3_600_000)
})
