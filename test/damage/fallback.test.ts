// G8, G11: the newest k of n checkpoints are damaged on disk: their chunks or their manifests, flipped, cut or gone. A
// recovery uses the newest one that is sound, else all history, and gives the state that full replay gives; a drill fails
// on every damaged one and passes on every sound one. More: REPRISE_RESTORES=10000.

import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { toHex } from '../../src/core/coordinate.ts'
import { stateIo } from '../../src/engine/kernel-io.ts'
import { readManifest, recover } from '../../src/engine/recovery/recover.ts'
import { liveChunks } from '../../src/engine/recovery/restore.ts'
import { stateDigest } from '../../src/engine/tools/drill.ts'
import { type Database, loadDriver } from '../../src/stores/sqlite/driver.ts'
import { amount, newFolder, removeFolder } from '../crash/support.ts'
import { type Chance, randomFrom } from '../programs/crash-model.mjs'
import { copyFolder, definitions, openAt, write } from './world.ts'

/** Timelines with all their history, several checkpoints, and states of every shape. */
const subjects = [
  { id: 'wide/w', definition: definitions.wide },
  { id: 'many/m', definition: definitions.many },
  { id: 'shelf/c', definition: definitions.shelf },
] as const

interface Known {
  readonly digest: string
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
  const rp = await openAt(place)
  await write(rp)
  for (const { id, definition } of subjects) {
    const records = await rp.checkpoints(id)
    const without = new Set(records.map((record) => record.id as string))
    const { state } = await recover(rp.kernel, (await rp.head(id))!, definition.fold as never, { without })
    const checkpoints = await Promise.all(
      records.map(async (record) => {
        const digests = await liveChunks(readManifest(rp.kernel, record), stateIo(rp.kernel))
        return { id: record.id as string, seq: record.seq, chunks: digests.map(toHex) }
      }),
    )
    known.set(id, { digest: stateDigest(rp.kernel, state), checkpoints })
  }
  await rp.close()
  const driver = await loadDriver()
  openRaw = () => driver.open(join(copy, 'store.db'), { isReadOnly: false })
})
afterAll(() => removeFolder(folder))

/** Says which checkpoints of the timeline are damaged now: others may share a chunk. */
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

async function trial(seed: number): Promise<number> {
  const random = randomFrom(seed)
  const { id, definition } = subjects[random.below(subjects.length)]!
  const { digest, checkpoints } = known.get(id)!
  copyFolder(whole, copy)
  const bad = damage(id, random.below(checkpoints.length + 1), random)
  const sound = checkpoints.filter((checkpoint) => !bad.has(checkpoint.id))
  const rp = await openAt({ file: join(copy, 'store.db') }, seed)
  try {
    const { results } = await rp.drill({ timelines: [id] })
    const drilled = results.filter(({ checkpoint }) => checkpoint !== null)
    expect(drilled.map(({ checkpoint, ok }) => [checkpoint, ok])).toEqual(
      checkpoints.map((checkpoint) => [checkpoint.id, !bad.has(checkpoint.id)]),
    )
    const handle = await rp.open(definition as typeof definitions.wide, id.slice(id.indexOf('/') + 1), {
      takeover: true,
    })
    expect(handle.recovery.checkpoint?.id).toBe(sound[0]?.id)
    const { state } = await recover(rp.kernel, (await rp.head(id))!, definition.fold as never)
    expect(stateDigest(rp.kernel, state)).toBe(digest)
    expect(handle.coordinate.seq).toBe((await rp.head(id))!.seq)
    const catalog = await rp.checkpoints(id)
    expect(
      catalog
        .filter(({ invalid }) => invalid !== null)
        .map((record) => record.id as string)
        .sort(),
    ).toEqual([...bad].sort())
    return bad.size
  } finally {
    await rp.close()
  }
}

describe('damaged checkpoints', () => {
  const restores = amount('REPRISE_RESTORES', 60)
  const from = amount('REPRISE_DAMAGE_SEED', 1)

  it('G8, G11: recovery takes the newest sound one, and the drill knows each from the other', async () => {
    let damaged = 0
    for (let seed = from; seed < from + restores; seed++) {
      try {
        damaged += await trial(seed)
      } catch (error) {
        console.log(
          `repeat: REPRISE_RESTORES=1 REPRISE_DAMAGE_SEED=${seed} npx vitest run test/damage/fallback.test.ts`,
        )
        throw error
      }
    }
    console.log(`${restores} restores, ${damaged} damaged checkpoints, every state equal to full replay`)
    expect(damaged).toBeGreaterThan(0)
  }, 3_600_000)
})
