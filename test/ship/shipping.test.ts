// The shipped data equals the store: byte for byte, at every record, whatever happens to shipper, store and place.

import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { isReprise } from '../../src/core/errors.ts'
import { keyOf } from '../../src/core/shipping/record.ts'
import { basesFrom, dropOld } from '../../src/engine/tools/shipping/retention.ts'
import { Killed, MemoryObjects } from '../s3/memory-objects.ts'
import { World } from './world.ts'

let world: World
afterEach(() => world?.end())

/** A story with everything in it that a shipper does: a first base, changes, a large transaction, another base, a gap. */
async function tell(round: (isBase?: boolean) => Promise<void>): Promise<void> {
  await round()
  world.insert(3, 100)
  await round()
  world.insert(60, 9000)
  world.insert(2, 50)
  await round()
  world.app.run('DELETE FROM rows WHERE id % 2 = 0')
  await round(true)
  world.insert(1, 5000)
  await round()
}

describe('shipping', () => {
  it('A7.3: a restore is the store, byte for byte, and goes back to every record', async () => {
    world = await World.make()
    const seen = new Map<number, Buffer>()
    await tell(async (isBase) => {
      // The shipper that runs has this very policy.
      Object.assign(world.policy, { baseMs: isBase ? 0 : 86_400_000 })
      const shipper = await world.shipper()
      const { hasBase } = await shipper.round()
      if (isBase) expect(hasBase).toBe(true)
      seen.set(shipper.tip!.number, world.bytes())
      // Idle from here on: also a base at the end is the whole story.
      expect(await world.restore()).toMatchObject({ record: shipper.tip!.number, lost: null })
    })
    expect(seen.size).toBe(5)
    for (const [record, bytes] of seen) {
      const { file, lost } = await world.restore({ at: { record } })
      expect(lost, `record ${record}`).toBeNull()
      expect(readFileSync(file).equals(bytes), `record ${record}`).toBe(true)
    }
  })

  it('A7.3: killed at any request, before or after it was done, the next shipper continues, and nothing is lost', async () => {
    // All of them with SHIP_SWEEP=1; else every fourth, another fourth for each kind.
    const step = Number(process.env.SHIP_SWEEP ?? 4)
    for (const [first, how] of [
      [1, 'before'],
      [Math.min(step, 3), 'after'],
    ] as const) {
      for (let at = first, isOver = false; !isOver; at += step) {
        world = await World.make()
        let requests = 0
        world.fault = () => (++requests === at ? how : 'none')
        await tell(async () => {
          for (let tries = 0; ; tries++) {
            try {
              return void (await (await world.shipper()).round())
            } catch (error) {
              if (!(error instanceof Killed) || tries > 3) throw error
              await checkLeft(`${how} request ${at}`)
              world.killShipper()
            }
          }
        })
        isOver = requests < at
        const { file, lost } = await world.restore()
        expect(lost).toBeNull()
        expect(readFileSync(file).equals(world.bytes()), `${how} request ${at}`).toBe(true)
        world.end()
      }
    }
  }, 120_000)

  it('a second shipper fences the first, and their records do not mix', async () => {
    world = await World.make()
    const first = await world.shipper()
    await first.round()
    world.insert(1, 100)
    const other = await World.make()
    // The same store, shipped from a copy of it: a machine that was thought lost.
    const { Shipper } = await import('../../src/engine/tools/shipping/shipper.ts')
    const zombie = await Shipper.begin(world.source, world.log(), world.policy, { id: 'zombie', now: () => world.now })
    await zombie.round()
    world.insert(1, 100)
    await expect(first.round()).rejects.toMatchObject({ code: 'SHIP_FENCED' })
    await zombie.round()
    const { file, lost } = await world.restore()
    expect(lost).toBeNull()
    expect(readFileSync(file).equals(world.bytes())).toBe(true)
    // Another store is refused, unless requested.
    const place = world.bucket
    Object.assign(other, { bucket: place })
    await expect(other.shipper()).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    other.policy = { ...other.policy, take: true }
    await (await other.shipper()).round()
    const taken = await other.restore()
    expect(readFileSync(taken.file).equals(other.bytes())).toBe(true)
    other.end()
  })

  it('A1.3: a damaged or missing record ends a restore, which reports the loss', async () => {
    world = await World.make()
    const numbers: number[] = []
    await tell(async (isBase) => {
      world.policy = { ...world.policy, baseMs: isBase ? 0 : 86_400_000 }
      const shipper = await world.shipper()
      await shipper.round()
      numbers.push(shipper.tip!.number)
    })
    const newest = numbers.at(-1)!
    const { objects } = world.bucket
    const last = objects.get(keyOf(newest))!
    const flipped = last.bytes.slice()
    flipped[flipped.length - 9]! ^= 1
    for (const damage of [
      () => objects.set(keyOf(newest), { ...last, bytes: flipped }),
      () => objects.delete(keyOf(newest - 1)),
    ]) {
      damage()
      const { record, lost } = await world.restore()
      expect(record).toBeLessThan(newest)
      expect(lost).toMatchObject({ from: record + 1, to: newest })
    }
  })

  it('A1.3: a damaged base is passed by: the one before leads to the same state', async () => {
    world = await World.make()
    await tell(async (isBase) => {
      world.policy = { ...world.policy, baseMs: isBase ? 0 : 86_400_000 }
      world.killShipper()
      await (await world.shipper()).round()
    })
    const bases = []
    for await (const base of basesFrom(world.log(), await world.log().newest())) bases.push(base)
    expect(bases.length).toBeGreaterThan(1)
    const older = new Set(bases.slice(1).flatMap(({ whole }) => whole.parts.map(({ key }) => key)))
    const part = bases[0]!.whole.parts.find(({ key }) => !older.has(key))!
    world.bucket.objects.delete(part.key)
    const { file, base, lost, skipped } = await world.restore()
    expect([base, lost, skipped.map((each) => each.base)]).toEqual([bases[1]!.number, null, [bases[0]!.number]])
    expect(readFileSync(file).equals(world.bytes())).toBe(true)
    // Verify reports it.
    const { verifyShipped } = await import('../../src/engine/tools/shipping/verify.ts')
    expect((await verifyShipped(world.log())).faults).toEqual([
      { where: `base ${bases[0]!.number}`, what: expect.stringContaining(`the part ${part.key} is missing`) },
    ])
  })

  it('A1.3: parts that are gone from the place are written anew, by the shipper that runs and by the next one', async () => {
    world = await World.make()
    world.insert(40, 3000)
    Object.assign(world.policy, { baseMs: 86_400_000 })
    const { objects } = world.bucket
    const { verifyShipped } = await import('../../src/engine/tools/shipping/verify.ts')
    const partsOf = () => [...objects.keys()].filter((key) => key.startsWith('parts/'))
    const isWell = async () => {
      const { file, lost, base } = await world.restore()
      expect([lost, base]).toEqual([null, (await world.shipper()).base])
      expect(readFileSync(file).equals(world.bytes())).toBe(true)
    }
    await (await world.shipper()).round()
    // One that runs notices it with its next base, although the pages are the same.
    const [gone, cut] = partsOf() as [string, string]
    objects.delete(gone)
    objects.set(cut, { ...objects.get(cut)!, bytes: objects.get(cut)!.bytes.slice(0, 100) })
    await expect(world.restore()).rejects.toMatchObject({ code: 'UNRECOVERABLE' })
    world.insert(1, 10)
    Object.assign(world.policy, { baseMs: 0 })
    expect(await (await world.shipper()).round()).toMatchObject({ hasBase: true })
    await isWell()
    // The next one notices it when it begins, although nothing was written since.
    Object.assign(world.policy, { baseMs: 86_400_000 })
    for (const key of partsOf()) objects.delete(key)
    world.killShipper()
    expect(await (await world.shipper()).round()).toMatchObject({ hasBase: true })
    await isWell()
    // Once is enough.
    world.killShipper()
    expect(await (await world.shipper()).round()).toMatchObject({ records: 0 })
    // Damage that only reading finds is reported for each base that names it, with the remedy, which works.
    world.insert(1, 10)
    Object.assign(world.policy, { baseMs: 0 })
    await (await world.shipper()).round()
    const bases = []
    for await (const base of basesFrom(world.log(), await world.log().newest())) bases.push(base)
    const [newest, before] = bases as [(typeof bases)[0], (typeof bases)[0]]
    const shared = newest.whole.parts.find(({ key }) => before.whole.parts.some((part) => part.key === key))!.key
    const flipped = objects.get(shared)!.bytes.slice()
    flipped[50]! ^= 1
    objects.set(shared, { ...objects.get(shared)!, bytes: flipped })
    const { faults, cure } = await verifyShipped(world.log())
    expect(cure).toContain('delete the damaged parts')
    for (const { number } of [newest, before]) {
      const what = expect.stringContaining(`${shared} is damaged`)
      expect(faults).toContainEqual({ where: `base ${number}`, what })
    }
    objects.delete(shared)
    world.killShipper()
    await (await world.shipper()).round()
    await isWell()
    expect((await verifyShipped(world.log())).cure).toContain('the newest base is intact')
  })

  it('A8.4: data older than the retention is removed, despite kills at any request, and all kept data restores', async () => {
    const seen: [number, Buffer, number][] = []
    world = await World.make()
    // A base in every round, an hour apart.
    world.policy = { ...world.policy, baseMs: 0 }
    for (let hour = 0; hour < 6; hour++) {
      world.insert(20, 3000)
      const shipper = await world.shipper()
      await shipper.round()
      seen.push([shipper.tip!.number, world.bytes(), shipper.tip!.head!.at])
    }
    const newest = (await world.shipper()).base
    const bases: { number: number; at: number }[] = []
    for await (const base of basesFrom(world.log(), newest)) bases.push(base)
    // As if the third newest were just old enough.
    const keepMs = 1000
    for (let at = 1, isOver = false; !isOver; at++) {
      // Each time: every change moves that clock, and the bases are only milliseconds apart.
      world.bucket.now = bases[2]!.at + keepMs
      let requests = 0
      const objects = new MemoryObjects(world.bucket, () => (++requests === at ? 'before' : 'none'))
      await dropOld(world.log(objects), newest, newest, keepMs).catch((error) => expect(error).toBeInstanceOf(Killed))
      isOver = requests < at
      for (const [record, bytes] of seen.filter(([number]) => number >= bases[2]!.number)) {
        const { file } = await world.restore({ at: { record } })
        expect(readFileSync(file).equals(bytes), `record ${record} after request ${at}`).toBe(true)
      }
    }
    expect(await world.log().numbers()).not.toContain(1)
    // A shipper that another one has followed deletes nothing: it cannot see the objects that the other one names.
    expect(await dropOld(world.log(), newest - 1, newest, 0)).toBe(0)
    const { verifyShipped } = await import('../../src/engine/tools/shipping/verify.ts')
    expect(await verifyShipped(world.log())).toMatchObject({ ok: true, bases: 3 })
    const named = new Set<string>()
    for await (const { whole } of basesFrom(world.log(), newest)) for (const { key } of whole.parts) named.add(key)
    const left = [...world.bucket.objects.keys()].filter((key) => key.startsWith('parts/'))
    expect(left.sort()).toEqual([...named].sort())
  }, 120_000)

  it('a store that went back to an older copy of its files is shipped anew, and never continues from lost records', async () => {
    world = await World.make()
    await (await world.shipper()).round()
    world.insert(2, 100)
    await (await world.shipper()).round()
    // As a machine that is set back: the log has the same salts, and other frames from here on.
    const back = world.copyFiles()
    world.insert(2, 100)
    await (await world.shipper()).round()
    world.killShipper()
    world.closeApp(false)
    back()
    world.insert(4, 200)
    await (await world.shipper()).round()
    const { file, lost } = await world.restore()
    expect(lost).toBeNull()
    expect(readFileSync(file).equals(world.bytes())).toBe(true)
  })

  it('whatever happens in whatever order, every round leaves a sound copy', async () => {
    const event = fc.oneof(
      fc.record({
        do: fc.constant('insert' as const),
        rows: fc.integer({ min: 1, max: 60 }),
        bytes: fc.integer({ min: 1, max: 12_000 }),
      }),
      fc.record({
        do: fc.constantFrom(
          'delete',
          'shrink',
          'truncate',
          'reopen',
          'crash',
          'kill',
          'release',
          'round',
          'base',
          'fail',
          'large',
        ),
      }),
    )
    const runs = Number(process.env.SHIP_RUNS ?? 6)
    await fc.assert(
      fc.asyncProperty(fc.array(event, { minLength: 4, maxLength: 24 }), async (events) => {
        world = await World.make()
        const seen: [number, Buffer][] = []
        try {
          for (const each of [...events, { do: 'round' as const }]) await play(each, seen)
          for (const [record, bytes] of seen.slice(-4)) {
            const { file } = await world.restore({ at: { record } })
            expect(readFileSync(file).equals(bytes), `record ${record}`).toBe(true)
          }
        } finally {
          world.end()
        }
      }),
      { numRuns: runs },
    )
  }, 300_000)
})

/** Whatever a killed shipper left is nothing yet, or a state that the store was in: never half of a transaction. */
async function checkLeft(what: string): Promise<void> {
  try {
    const { file } = await world.restore()
    expect(world.integrityOf(file), what).toBe('ok')
  } catch (error) {
    if (!isReprise(error, 'NOT_FOUND')) throw error
  }
}

type Event = { readonly do: string; readonly rows?: number; readonly bytes?: number }

async function play(event: Event, seen: [number, Buffer][]): Promise<void> {
  switch (event.do) {
    case 'insert':
      return world.insert(event.rows!, event.bytes!)
    case 'large':
      return world.insert(60, 20_000)
    case 'delete':
      return void world.app.run('DELETE FROM rows WHERE id % 3 = 0')
    case 'shrink':
      world.app.run('DELETE FROM rows WHERE id % 2 = 0')
      return world.app.exec('PRAGMA incremental_vacuum')
    case 'truncate':
      return world.app.checkpoint()
    case 'reopen':
      return world.closeApp()
    case 'crash':
      return world.closeApp(false)
    case 'kill':
      return world.killShipper()
    case 'release':
      await world.shipper()
      return world.source.release()
    case 'fail':
      return await failOnce()
    default: {
      world.policy = { ...world.policy, baseMs: event.do === 'base' ? 0 : 86_400_000 }
      const shipper = await world.shipper()
      await shipper.round()
      seen.push([shipper.tip!.number, world.bytes()])
    }
  }
}

/** The place is away for one request: the same shipper continues later. */
async function failOnce(): Promise<void> {
  let left = 1
  world.fault = (request) => (request.startsWith('put log') && left-- > 0 ? 'before' : 'none')
  try {
    await (await world.shipper()).round()
  } catch (error) {
    if (!(error instanceof Killed) && !isReprise(error)) throw error
    world.killShipper()
  } finally {
    world.fault = () => 'none'
  }
}
