// Swept chunks, and above all erased ones, must be in no parity and in no copy any more: even if the process was killed
// at any point, if another process added to a group that was being rebuilt, and if redundancy was switched off.

import { describe, expect, test } from 'vitest'
import { newGate } from '../../../../test/support/fixture.ts'
import { type Digest, equalBytes, toHex } from '../../../core/coordinate.ts'
import { isRedundancy } from '../../../core/store/blobs.ts'
import type { Blobs } from '../../../core/store/ports.ts'
import { createWorld, openMemory } from '../../../stores/memory/index.ts'
import { sha256 } from '../../base/platform.ts'
import { RedundantBlobs } from './blobs.ts'
import { keysOf, loadGroups, readParity } from './groups.ts'
import { inspectRedundancy } from './inspect.ts'
import { idOf, kinds, listKind } from './keys.ts'

const chunks = Array.from({ length: 40 }, (_, n) => {
  const bytes = Uint8Array.from({ length: 20 + ((n * 7919) % 900) }, (_, i) => (n * 31 + i * 17 + (i >> 5)) & 255)
  return { digest: sha256(bytes), bytes }
})
const isSecret = (n: number) => n % 13 === 3
const secrets = chunks.filter((_, n) => isSecret(n)).map(({ digest }) => digest)
const kept = chunks.filter((_, n) => !isSecret(n))
const live = new Set(kept.map(({ digest }) => toHex(digest)))
const ever = Number.MAX_SAFE_INTEGER

function world(): Blobs {
  return openMemory({ namespace: 'x', hash: sha256, world: createWorld() }).blobs
}

function redundant(blobs: Blobs): RedundantBlobs {
  return new RedundantBlobs(blobs, sha256, () => undefined)
}

/** Describes the redundancy that still contains bytes of a missing chunk. */
async function stale(blobs: Blobs): Promise<string[]> {
  const there = new Map<string, Uint8Array>()
  for (const { digest } of await blobs.list(null, 10_000)) {
    if (!isRedundancy(digest)) there.set(toHex(digest), (await blobs.get([digest]))[0]!)
  }
  const groups = await loadGroups(blobs, sha256)
  const found: string[] = []
  for (const group of groups) {
    if (group.members.some(({ digest }) => !there.has(toHex(digest)))) {
      found.push('a group that names a chunk that is gone')
      continue
    }
    const parity = await readParity(blobs, sha256, group)
    if (parity && restOf(group, parity, there).some((byte) => byte !== 0)) found.push('a parity of something else')
  }
  const ids = new Set(groups.map((group) => toHex(keysOf(group)[1])))
  for (const { digest } of await listKind(blobs, kinds.parity)) {
    if (!ids.has(toHex(digest))) found.push('a parity without its list')
  }
  const starts = new Set([...there.keys()].map((name) => name.slice(0, 48)))
  for (const { digest } of await listKind(blobs, kinds.copy)) {
    if (!starts.has(toHex(idOf(digest)))) found.push('a copy of a chunk that is gone')
  }
  return found
}

type Group = Awaited<ReturnType<typeof loadGroups>>[number]

/** All zero if the parity is that of its members and of nothing else. */
function restOf(group: Group, parity: Uint8Array, there: ReadonlyMap<string, Uint8Array>): Uint8Array {
  const rest = parity.slice()
  for (const { digest, offset } of group.members) {
    for (const [i, byte] of there.get(toHex(digest))!.entries()) rest[offset + i]! ^= byte
  }
  return rest
}

async function expectProtected(blobs: Blobs, expected: readonly { digest: Digest; bytes: Uint8Array }[]) {
  for (const { digest, bytes } of expected) {
    await blobs.delete([digest], ever)
    const mended = await redundant(blobs).mend(digest)
    expect(mended !== null && equalBytes(mended, bytes)).toBe(true)
  }
}

/** Dies at the call of that number, which has no effect. */
function mortal(blobs: Blobs, dies: (call: number) => boolean): { blobs: Blobs; calls: () => number } {
  let calls = 0
  const proxy = new Proxy(blobs, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target)
      if (typeof member !== 'function') return member
      return async (...given: unknown[]) => {
        calls += 1
        if (dies(calls)) throw new Error('killed')
        return await Reflect.apply(member, target, given)
      }
    },
  })
  return { blobs: proxy, calls: () => calls }
}

/** As folders do: one file after another. */
function oneByOne(blobs: Blobs): Blobs {
  return new Proxy(blobs, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target)
      if (typeof member !== 'function') return member
      if (name === 'delete') {
        return async (digests: readonly Digest[], before: number) => {
          for (const digest of digests) await target.delete([digest], before)
        }
      }
      if (name === 'put') {
        return async (given: Parameters<Blobs['put']>[0]) => {
          for (const chunk of given) await target.put([chunk])
        }
      }
      return (...given: unknown[]) => Reflect.apply(member, target, given) as unknown
    },
  })
}

function interleaved(blobs: Blobs, call: (name: string | symbol) => Promise<void>): Blobs {
  return new Proxy(blobs, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target)
      if (typeof member !== 'function') return member
      return async (...given: unknown[]) => {
        await call(name)
        return await Reflect.apply(member, target, given)
      }
    },
  })
}

function gate(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  const { opened: promise, open: resolve } = newGate()
  return { promise, resolve }
}

describe('sweeping', () => {
  test('is in no parity and in no copy', async () => {
    const inner = world()
    const blobs = redundant(inner)
    for (let at = 0; at < chunks.length; at += 5) await blobs.put(chunks.slice(at, at + 5))
    await blobs.delete(secrets, ever)
    expect(await stale(inner)).toEqual([])
    for (const digest of secrets) expect(await redundant(inner).mend(digest)).toBeNull()
    await expectProtected(inner, kept)
  })

  test('leaves nothing behind that counts as damage, wherever the process was killed, also between two files', async () => {
    let isOver = false
    for (let at = 1; !isOver; at++) {
      const inner = world()
      for (let i = 0; i < chunks.length; i += 8) await redundant(inner).put(chunks.slice(i, i + 8))
      const dying = mortal(oneByOne(inner), (call) => call === at)
      isOver = await redundant(oneByOne(dying.blobs))
        .delete(secrets, ever)
        .then(
          () => true,
          () => false,
        )
      expect({ at, damaged: (await inspectRedundancy(inner, sha256)).map(({ what }) => what) }).toEqual({
        at,
        damaged: [],
      })
    }
  })

  test('is in none after the next sweep, wherever the process was killed in this one', async () => {
    let isOver = false
    for (let at = 1; !isOver; at++) {
      const inner = world()
      for (let i = 0; i < chunks.length; i += 8) await redundant(inner).put(chunks.slice(i, i + 8))
      const dying = mortal(inner, (call) => call === at)
      isOver = await redundant(dying.blobs)
        .delete(secrets, ever)
        .then(
          () => true,
          () => false,
        )
      const next = redundant(inner)
      const left = await Promise.all(secrets.map(async (digest) => ((await inner.get([digest]))[0] ? digest : null)))
      await next.delete(
        left.filter((digest) => digest !== null),
        ever,
      )
      await next.tend(live)
      expect({ at, stale: await stale(inner) }).toEqual({ at, stale: [] })
      await expectProtected(inner, kept)
    }
  })

  test('is in none either if another process adds to the group at any two moments meanwhile', async () => {
    // Large enough to join it.
    const late = Array.from({ length: 3 }, (_, n) => {
      const bytes = new Uint8Array(6000 + n).fill(n + 1)
      return { digest: sha256(bytes), bytes }
    })
    const sweep = async (begins: number, ends: number): Promise<number> => {
      const inner = world()
      const { opened: released, open: release } = newGate()
      let isSlow = false
      const waiting = new Proxy(inner, {
        get(target, name) {
          const member = Reflect.get(target, name, target) as (...given: unknown[]) => Promise<unknown>
          return async (...given: unknown[]) => {
            if (name === 'put' && isSlow) await released
            return await Reflect.apply(member, target, given)
          }
        },
      })
      // It still has the group in memory, and puts its new group when the test continues it.
      const other = redundant(waiting)
      await other.put(chunks)
      isSlow = true
      let running: Promise<void> | null = null
      const counted = mortal(inner, (call) => {
        if (call === begins) running = other.put(late)
        if (call === ends) release()
        return false
      })
      await redundant(counted.blobs).delete(secrets, ever)
      release()
      await (running ?? other.put(late))
      expect({ begins, ends, stale: await stale(inner) }).toEqual({ begins, ends, stale: [] })
      if (ends === begins + 3) await expectProtected(inner, [...kept, ...late])
      return counted.calls()
    }
    const calls = await sweep(0, 0)
    for (let begins = 1; begins <= calls; begins += 2) {
      for (let ends = begins; ends <= calls + 1; ends++) await sweep(begins, ends)
    }
  })

  test('takes no parity from a group that another process puts meanwhile, at any two moments', async () => {
    const wanted = new Set(chunks.map(({ digest }) => toHex(digest)))
    const files = 20 + 2
    for (let calls = 1, isOver = false; !isOver; calls++) {
      for (const pausedAt of [1, 2, files - 1, files]) {
        let now = 100
        const inner = openMemory({ namespace: 'x', hash: sha256, world: createWorld(), clock: () => now }).blobs
        await redundant(inner).put(chunks.slice(0, 20))
        now = 200
        const [paused, resumed] = [gate(), gate()]
        let puts = 0
        const slow = interleaved(inner, async (name) => {
          if (name === 'put') puts += 1
          if (name !== 'put' || puts !== pausedAt) return
          paused.resolve()
          await resumed.promise
        })
        let putting: Promise<void> | null = null
        let called = 0
        const tending = interleaved(inner, async () => {
          called += 1
          if (called !== calls) return
          putting = redundant(oneByOne(slow)).put(chunks.slice(20))
          await paused.promise
        })
        await redundant(tending).tend(wanted, 150)
        isOver = called < calls
        resumed.resolve()
        await (putting ?? Promise.resolve())
        const damaged = (await inspectRedundancy(inner, sha256)).map(({ what }) => what)
        expect({ calls, pausedAt, damaged }).toEqual({ calls, pausedAt, damaged: [] })
      }
    }
  })

  test('is in no group once redundancy is disabled, and existing parity is removed by the next upkeep', async () => {
    const inner = world()
    await redundant(inner).put(chunks)
    const off = redundant(inner)
    off.isOn = false
    await off.delete(secrets, ever)
    expect(await stale(inner)).toEqual([])
    await expectProtected(inner, kept.slice(0, 2))
    await off.tend(live)
    expect((await inner.list(null, 1000)).filter(({ digest }) => isRedundancy(digest))).toEqual([])
  })
})
