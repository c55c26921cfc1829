// Colder places for the chunks of older checkpoints: which chunks move where, by which rule, and that nothing is lost on the
// way despite kills and concurrent writes. Places are folders here; test/s3 has the same in an object store.

import { readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, expect, it } from 'vitest'
import { toHex } from '../../src/core/coordinate.ts'
import type { Blobs } from '../../src/core/store/ports.ts'
import { forwardBlobs } from '../../src/core/store/store-wrapper.ts'
import { hostOf } from '../../src/engine/host/host.ts'
import { type Options, open, type Reprise } from '../../src/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { pause, temporaryFolder } from '../support/fixture.ts'

let folder: string
beforeEach(() => {
  folder = temporaryFolder('tiers')
})

const states = save<{ readonly n: number; readonly text: string }>('state', { keep: 10 })
const textOf = (n: number) => Array.from({ length: 4000 }, (_, i) => `${n}:${(i * 7919 * n) % 99991}`).join(' ')
const start = (options: Options = {}) => open(`sqlite:${join(folder, 'app.db')}`, { housekeeping: false, ...options })
const cold = () => join(folder, 'cold')
const moving = { restMs: -60_000 }

async function fill(rp: Reprise, count: number): Promise<void> {
  const saved = await rp.open(states)
  for (let n = 1; n <= count; n++) await saved.put({ n, text: textOf(n) })
  await saved.close()
}

async function readAll(rp: Reprise): Promise<number[]> {
  const saved = await rp.open(states)
  const found: number[] = []
  for (const each of await saved.list()) {
    const { value } = await saved.load(each.id)
    expect(value.text).toBe(textOf(value.n))
    found.push(value.n)
  }
  await saved.close()
  return found.sort((a, b) => a - b)
}

it('A8.3: all but the newest few move to the colder place and are read from there by every process', async () => {
  const rp = await start({ tiers: { cold: { at: cold(), keep: 2 } } })
  await fill(rp, 5)
  const before = await rp.tiers({ dryRun: true })
  const { tiers } = await rp.tiers(moving)
  expect(tiers.map(({ name }) => name)).toEqual(['hot', 'cold'])
  expect(tiers[1]!.moved).toBeGreaterThan(2)
  expect(tiers[1]!.failed).toBe(0)
  const after = await rp.tiers({ dryRun: true })
  // The report after the move equals the content of the place.
  expect(tiers.map(({ chunks, bytes }) => [chunks, bytes])).toEqual(
    after.tiers.map(({ chunks, bytes }) => [chunks, bytes]),
  )
  expect(after.tiers[0]!.bytes).toBeLessThan(before.tiers[0]!.bytes * 0.7)
  expect(after.tiers[1]!.chunks).toBe(tiers[1]!.moved)
  await rp.close()
  const again = await start()
  expect(await readAll(again)).toEqual([1, 2, 3, 4, 5])
  expect((await again.verify()).ok).toBe(true)
  // A repetition has nothing to do.
  expect((await again.tiers(moving)).tiers[1]!.moved).toBe(0)
  await again.close()
})

it('A8.3: by age and by size, to the coldest place that a rule names', async () => {
  const rp = await start({
    tiers: { warm: { at: join(folder, 'warm'), over: 0 }, cold: { at: cold(), after: '1h' } },
  })
  await fill(rp, 3)
  const { tiers } = await rp.tiers(moving)
  expect(tiers.map(({ moved }) => moved > 0)).toEqual([false, true, false])
  await rp.close()
  const older = await start({ tiers: { warm: { at: join(folder, 'warm'), over: 0 }, cold: { at: cold(), after: 0 } } })
  await pause(5)
  const then = await older.tiers(moving)
  expect(then.tiers.map(({ moved }) => moved > 0)).toEqual([false, false, true])
  expect(await readAll(older)).toEqual([1, 2, 3])
  await older.close()
})

it('A8.3: chunks touched within the hour stay, and read ones can be pulled back', async () => {
  const rp = await start({ tiers: { cold: { at: cold(), keep: 1 }, pullBack: true } })
  await fill(rp, 3)
  expect((await rp.tiers()).tiers[1]!.moved).toBe(0)
  await rp.tiers(moving)
  const moved = (await rp.tiers({ dryRun: true })).tiers[0]!.chunks
  expect(await readAll(rp)).toEqual([1, 2, 3])
  expect((await rp.tiers({ dryRun: true })).tiers[0]!.chunks).toBeGreaterThan(moved)
  expect((await rp.tiers()).tiers[1]!.moved).toBe(0)
  await rp.close()
})

it('A4.5: collection reaches every place, and nothing that a checkpoint names', async () => {
  const rp = await start({ tiers: { cold: { at: cold(), keep: 1 } } })
  await fill(rp, 4)
  await rp.tiers(moving)
  const there = (await rp.tiers({ dryRun: true })).tiers[1]!.chunks
  await rp.delete('save/state', { force: true } as never).catch(() => rp.delete('save/state'))
  await rp.collect({ graceMs: -60_000 })
  expect(there).toBeGreaterThan(0)
  expect((await rp.tiers({ dryRun: true })).tiers.map(({ chunks }) => chunks)).toEqual([0, 0])
  await fill(rp, 3)
  await rp.tiers(moving)
  await rp.collect({ graceMs: -60_000 })
  expect(await readAll(rp)).toEqual([1, 2, 3])
  await rp.close()
})

it('A1.3: a lost chunk in a colder place is found by verify, and heals from a backup', async () => {
  const rp = await start({ tiers: { cold: { at: cold(), keep: 1 } } })
  await fill(rp, 3)
  await rp.backup(join(folder, 'all.rpb'))
  await rp.tiers(moving)
  const chunks = readdirSync(cold(), { recursive: true, encoding: 'utf8' }).filter((name) => /[0-9a-f]{64}$/.test(name))
  rmSync(join(cold(), chunks[0]!))
  expect((await rp.verify()).faults.map(({ code }) => code)).toContain('CHUNK_MISSING')
  expect((await rp.verify({ repair: true, from: join(folder, 'all.rpb') })).faults).toEqual([])
  expect(await readAll(rp)).toEqual([1, 2, 3])
  await rp.close()
})

it('an unreachable place is no damage: reading reports it, and nothing is marked', async () => {
  const rp = await start({ tiers: { cold: { at: cold(), keep: 1 } } })
  await fill(rp, 3)
  await rp.tiers(moving)
  await rp.close()
  renameSync(cold(), join(folder, 'unmounted'))
  const blind = await start()
  const saved = await blind.open(states)
  expect((await saved.latest()).value.n).toBe(3)
  const [oldest] = (await saved.list()).sort((a, b) => a.savedAt.valueOf() - b.savedAt.valueOf())
  await expect(saved.load(oldest!.id)).rejects.toMatchObject({ code: 'CHUNKS_ELSEWHERE' })
  await blind.close()
  renameSync(join(folder, 'unmounted'), cold())
  const again = await start()
  expect(await readAll(again)).toEqual([1, 2, 3])
  await again.close()
})

it('an unreachable place is not needed by open: only by a request for a chunk in it', async () => {
  const tiers = { cold: { at: cold(), keep: 2 } }
  const first = await start({ tiers })
  await fill(first, 5)
  await first.tiers(moving)
  await first.close()
  renameSync(cold(), `${cold()}-away`)
  // A bucket that does not answer is stood for by a file in its place: whatever touches it fails.
  writeFileSync(cold(), '')
  const rp = await start({ tiers })
  const saved = await rp.open(states)
  expect((await saved.latest()).value.n).toBe(5)
  await saved.put({ n: 6, text: textOf(6) })
  const [oldest] = (await saved.list()).slice(-1)
  await expect(saved.load(oldest!.id)).rejects.toThrow()
  await saved.close()
  await rp.close()
  rmSync(cold())
  renameSync(`${cold()}-away`, cold())
  const back = await start({ tiers })
  expect(await readAll(back)).toEqual([1, 2, 3, 4, 5, 6])
  await back.close()
})

it('a place of another store is refused, and so are empty rules', async () => {
  const rp = await start({ tiers: { cold: { at: cold(), keep: 1 } } })
  await fill(rp, 2)
  await rp.tiers(moving)
  await rp.close()
  const other = open(`sqlite:${join(folder, 'other.db')}`, { tiers: { cold: { at: cold(), keep: 1 } } })
  await expect(other).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  await expect(start({ tiers: { cold: { at: cold() } } })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  await expect(start({ tiers: { cold: { at: cold(), keep: 0 } } })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
})

it('killed at every call to a place, the next round resumes, and every save is whole', async () => {
  for (let k = 1; ; k++) {
    const file = `sqlite:${join(folder, `${k}.db`)}`
    const rp = await open(file, { housekeeping: false, tiers: { cold: { at: join(folder, `cold-${k}`), keep: 1 } } })
    await fill(rp, 3)
    const { tiers } = hostOf(rp).kernel
    let calls = 0
    const dying = (blobs: Blobs) =>
      forwardBlobs(
        blobs,
        Object.fromEntries(
          (['put', 'delete', 'get', 'list'] as const).map((name) => [
            name,
            async (...given: never[]) => {
              if (++calls >= k) throw new Error('killed')
              return await (blobs[name] as (...args: never[]) => Promise<unknown>)(...given)
            },
          ]),
        ),
      )
    const hot = tiers.hot
    Object.assign(tiers, {
      hot: dying(hot),
      places: tiers.places.map((each) => ({
        ...each,
        open: async () => {
          const place = await each.open()
          return { ...place, blobs: dying(place.blobs) }
        },
      })),
    })
    const isWhole = await rp.tiers(moving).then(
      () => true,
      () => false,
    )
    await rp.close()
    const again = await open(file, { housekeeping: false })
    expect(await again.verify(), `killed at call ${k}`).toMatchObject({ ok: true, faults: [] })
    expect(await readAll(again), `killed at call ${k}`).toEqual([1, 2, 3])
    await again.tiers(moving)
    expect(await again.verify(), `killed at call ${k}`).toMatchObject({ ok: true, faults: [] })
    expect(await readAll(again), `killed at call ${k}`).toEqual([1, 2, 3])
    await again.close()
    if (isWhole) break
  }
})

it('A4.5: one that is touched while it moves stays where it was touched', async () => {
  const rp = await start({ tiers: { cold: { at: cold(), keep: 1 } } })
  await fill(rp, 2)
  const { kernel } = hostOf(rp)
  const named = kernel.tiers.places[0]!
  const place = await named.open()
  const touched: string[] = []
  const slow = forwardBlobs(place.blobs, {
    async put(chunks, at) {
      await place.blobs.put(chunks, at)
      // A writer names it anew just now.
      const later = Date.now() + 60_000
      await kernel.tiers.hot.touch([chunks[0]!.digest], later)
      touched.push(toHex(chunks[0]!.digest))
    },
  })
  kernel.tiers.places = [{ ...named, open: async () => ({ ...place, blobs: slow }) }]
  await rp.tiers(moving)
  expect(touched.length).toBeGreaterThan(0)
  const [isThere] = await kernel.tiers.hot.has!([new Uint8Array(Buffer.from(touched[0]!, 'hex'))])
  expect(isThere).toBe(true)
  await rp.close()
})
