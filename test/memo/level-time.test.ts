// A level that is down, slow or full costs little and breaks nothing.

import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { defaultLimits } from '../../src/core/limits.ts'
import { GuardedLevel } from '../../src/engine/tools/cache/guarded-level.ts'
import { type CacheLevel, LevelError, memo, type RemoteLevel } from '../../src/layers/memo/index.ts'
import { writeFrame } from '../../src/layers/memo/transfer-format.ts'
import { newGate, pause } from '../support/fixture.ts'
import { handClock } from '../support/hand-clock.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'
import { filled, machine, pieces, Shelf, squaring } from './level-support.ts'

describe('a level that fails', () => {
  const build = (level: CacheLevel, timeoutMs = 3_600_000) => {
    const { clock, pass } = handClock(1000)
    const problems: string[] = []
    const guarded = new GuardedLevel(level, timeoutMs, { clock, problem: (error) => problems.push(error.message) })
    return { guarded, problems, pass }
  }

  it('gets two requests, then none for a while, and is reported once', async () => {
    const shelf = new Shelf()
    shelf.kept.set('k', Buffer.from('x'))
    shelf.onGet = () => Promise.reject(new LevelError('fault', 'broken'))
    const { guarded, problems, pass } = build(shelf)
    for (let i = 0; i < 5; i++) expect(await guarded.fetch('k')).toBeNull()
    expect([shelf.asked.length, problems.length]).toEqual([2, 1])
    pass(31_000)
    // One probe, and it fails: the pause doubles.
    for (let i = 0; i < 3; i++) expect(await guarded.fetch('k')).toBeNull()
    pass(31_000)
    expect(await guarded.fetch('k')).toBeNull()
    expect(shelf.asked.length).toBe(3)
    pass(30_000)
    shelf.onGet = (bytes) => pieces(bytes)
    const found = await guarded.fetch('k')
    found!.settle(null)
    expect(await guarded.fetch('none')).toBeNull()
    expect([shelf.asked.length, problems.length]).toEqual([5, 1])
  })

  it('one that never answers, or stalls half-way, is given up after its timeout', async () => {
    const shelf = new Shelf()
    shelf.kept.set('k', Buffer.alloc(5000))
    const { guarded, problems, pass } = build(shelf, 5000)
    shelf.onGet = () => new Promise<never>(() => undefined)
    const silent = guarded.fetch('k')
    await expect.poll(() => shelf.asked.length).toBe(1)
    pass(5001)
    expect(await silent).toBeNull()
    pass(31_000)
    shelf.onGet = async function* () {
      yield Buffer.alloc(10)
      await new Promise(() => undefined)
    }
    const halting = (await guarded.fetch('k'))!
    const reading = (async () => {
      for await (const _ of halting.body);
    })()
    reading.catch(() => undefined)
    await pause(20)
    pass(5001)
    await expect(reading).rejects.toThrow('did not answer in time')
    halting.settle(await reading.catch((error) => error))
    expect(await guarded.fetch('k')).toBeNull()
    expect([shelf.asked.length, problems.length]).toEqual([2, 1])
  })

  it('one that never answers costs one wait: no second one, and none for uploads', async () => {
    const waits: string[] = []
    const hang = (what: string) => () => {
      waits.push(what)
      return new Promise<never>(() => undefined)
    }
    const silent: CacheLevel = { name: 'silent', access: hang('access'), get: hang('get'), put: hang('put') }
    const codes: string[] = []
    const { clock, pass } = handClock(1000)
    const guarded = new GuardedLevel(silent, 5000, { clock, problem: ({ code }) => codes.push(code) })
    const first = guarded.fetch('k')
    await expect.poll(() => waits.length).toBe(1)
    pass(5001)
    expect(await first).toBeNull()
    for (const key of ['k', 'l']) {
      expect(await guarded.fetch(key)).toBeNull()
      guarded.upload({ key, body: async () => pieces(Buffer.from('x')), mayPut: () => true })
    }
    await guarded.settled()
    expect([waits, codes]).toEqual([['access'], ['TIMEOUT']])
    // After half a minute it gets one more request, and then none for a minute.
    pass(30_000)
    const probe = guarded.fetch('k')
    await expect.poll(() => waits.length).toBe(2)
    pass(5001)
    expect(await probe).toBeNull()
    pass(31_000)
    expect([await guarded.fetch('k'), waits.length]).toEqual([null, 2])
  })

  it('one that sends much at once is not mistaken for a stalled one', async () => {
    for (const pieceBytes of [1 << 20, 0]) {
      let isTaken = false
      const { opened: gate, open: go } = newGate()
      const bulky: CacheLevel = {
        ...{ name: 'bulky', pieceBytes },
        access: async () => ({ scope: 'main', mayWrite: true }),
        get: async () => null,
        async put(_key, body) {
          for await (const _ of body) {
            isTaken = true
            await gate
          }
        },
      }
      const { guarded, problems, pass } = build(bulky, 5000)
      const body = async () => pieces(Buffer.alloc(2 << 20), 1 << 20)
      guarded.upload({ key: 'k', body, mayPut: () => true })
      await expect.poll(() => isTaken).toBe(true)
      pass(20_000)
      go()
      await guarded.settled()
      expect(problems.length).toBe(pieceBytes > 0 ? 0 : 1)
    }
  })

  it('takes uploads a few at a time, and no more than so many wait', async () => {
    const shelf = new Shelf()
    let most = 0
    let now = 0
    const { opened: gate, open: release } = newGate()
    shelf.onPut = async () => {
      now += 1
      most = Math.max(most, now)
      await gate
      now -= 1
    }
    const { guarded, problems } = build(shelf)
    for (let i = 0; i < 1010; i++) {
      guarded.upload({ key: String(i), body: async () => pieces(Buffer.from(String(i))), mayPut: () => true })
    }
    release()
    await guarded.settled()
    expect([most, shelf.kept.size]).toEqual([4, 1004])
    expect(problems).toEqual([expect.stringContaining('wait to be sent')])
  })

  it('a failed upload is reported once and affects no caller; one that cannot be read here is not its fault', async () => {
    const shelf = new Shelf()
    shelf.onPut = () => Promise.reject(new Error('full'))
    const rp = await machine()
    const here = await rp.open(squaring(shelf))
    for (const n of [1, 2, 3]) await here.call(n)
    await here.close()
    expect(rp.problems).toEqual([expect.stringContaining('full')])
    const { guarded, problems } = build(new Shelf())
    const bad = async function* (): AsyncGenerator<Uint8Array> {
      yield Buffer.from('x')
      throw new Error('unreadable')
    }
    for (let i = 0; i < 5; i++) guarded.upload({ key: String(i), body: async () => bad(), mayPut: () => true })
    await guarded.settled()
    expect(problems).toEqual([])
  })
})

onEveryStore('levels', (world) => {
  it('two processes that want the same ask the level once', async () => {
    const w = await world()
    const shelf = await filled()
    const calls: number[] = []
    const engines = [await w.engine(), await w.engine({ worker: 'other' })]
    const handles = await Promise.all(engines.map((engine) => engine.open(squaring(shelf, calls))))
    const before = shelf.asked.length
    const all = await Promise.all(handles.flatMap((handle) => [handle.call(3), handle.call(3)]))
    expect(all).toEqual(Array(4).fill({ square: 9 }))
    expect([calls, shelf.asked.length - before]).toEqual([[], 1])
  })
})

describe('streams', () => {
  const piece = randomBytes(256 * 1024)
  const bytes = (remote: RemoteLevel) =>
    memo('bytes', {
      version: 1,
      remote,
      async *run(): AsyncGenerator<Uint8Array> {
        for (let i = 0; i < 40; i++) yield Buffer.concat([Buffer.from(String(i)), piece])
      },
    })
  const lengthOf = async (stream: AsyncIterable<Uint8Array>) => {
    let length = 0
    for await (const part of stream) length += part.length
    return length
  }
  /** It no longer grows: a reader pulls only when it has room. */
  const standing = async (count: () => number) => {
    for (let last = -1; last !== count(); ) {
      last = count()
      await pause(50)
    }
    return count()
  }

  it('are sent as the other side takes them, and taken as this store takes them', async () => {
    const shelf = new Shelf()
    const { put } = shelf
    const { opened: gate, open: go } = newGate()
    let taken = 0
    shelf.put = async (key, body) => {
      const slow = async function* () {
        for await (const part of body) {
          taken += 1
          if (taken === 2) await gate
          yield part
        }
      }
      await put.call(shelf, key, slow())
    }
    const one = await machine()
    const here = await one.open(bytes(shelf))
    const { blobs } = hostOf(one).kernel.store
    const length = await lengthOf(await here.call())
    let read = 0
    const { get } = blobs
    blobs.get = async (digests) => {
      read += digests.length
      return await get.call(blobs, digests)
    }
    await expect.poll(() => taken).toBe(2)
    expect(await standing(() => read)).toBeLessThan(20)
    go()
    await here.close()

    // An endless response, until it is cut off.
    const [frame] = [...shelf.kept.values()]
    const { codec } = hostOf(one).kernel
    const head = codec.decode(frame!.subarray(11, 11 + frame!.readUInt32BE(7))) as Parameters<typeof writeFrame>[1]
    let pulled = 0
    let isCut = false
    shelf.onGet = () =>
      writeFrame(
        { codec, limits: defaultLimits },
        { ...head, streamBytes: 1e12 },
        (async function* () {
          while (!isCut) {
            pulled += piece.length
            yield Buffer.concat([Buffer.from(String(pulled)), piece])
          }
          throw new LevelError('fault', 'cut off')
        })(),
      )
    const other = await machine()
    const store = hostOf(other).kernel.store.blobs
    const before = { put: store.put }
    const { opened: door, open: admit } = newGate()
    store.put = async (...given) => {
      await door
      return await before.put.apply(store, given)
    }
    const there = await other.open(bytes(shelf))
    const asked = there.recall([])
    try {
      await expect.poll(() => pulled).toBeGreaterThan(0)
      expect(await standing(() => pulled)).toBeLessThan(64 * 1024 * 1024)
    } finally {
      isCut = true
      admit()
    }
    const recalled = await asked
    expect([recalled.from, await lengthOf(recalled.result)]).toEqual(['computed', length])
  })
})
