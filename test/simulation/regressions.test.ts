// Bugs that the simulation found in the engine, each as a separate case: a seed changes its meaning when the simulator changes,
// these cases do not.

import { describe, expect, test } from 'vitest'
import type { Store } from '../../src/core/store/ports.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { RepriseError, timeline } from '../../src/index.ts'
import { createEngine } from '../../src/store.ts'
import { cells, createWorld, type MemoryWorld, openMemory } from '../../src/stores/memory/index.ts'
import { hostOf } from '../support/host.ts'

const list = timeline('list', {
  initial: (): readonly number[] => [],
  apply: (state, entry: { type: 'add'; n: number }) => [...state, entry.n],
})

function openOver(world: MemoryWorld, change: (store: Store) => Store = (store) => store) {
  return createEngine({ store: change(openMemory({ namespace: 'test', hash: sha256, world })) })
}

const add = (n: number) => ({ type: 'add', n }) as const

function damageRun(world: MemoryWorld, where: string): void {
  const cell = cells(world).find((each) => each.kind === 'run' && each.where === where)
  cell!.bytes[cell!.bytes.length - 1]! ^= 1
}

describe('found by the simulation', () => {
  test('G8: rolled back twice, the second time below the first, a timeline reads no entry that it left', async () => {
    await using engine = openOver(createWorld())
    const handle = await engine.open(list, 'a')
    for (let n = 1; n <= 8; n++) await handle.append(add(n))
    await engine.rollback({ to: { timeline: 'list/a', seq: 6 } })
    await engine.rollback({ to: { timeline: 'list/a', seq: 4 } })
    const again = await engine.open(list, 'a')
    await again.append(add(50))
    await again.close()
    const last = await engine.open(list, 'a')
    expect(last.state).toEqual([1, 2, 3, 4, 50])
    expect((await engine.verify()).faults).toEqual([])
  })

  test('G10: a collector that listed a timeline before it grew drops no checkpoint as lying beyond history', async () => {
    const world = createWorld()
    await using writer = openOver(world)
    const handle = await writer.open(list, 'a')
    await handle.append(add(1))
    await handle.checkpoint()
    let isGrown = false
    // Between the list of timelines and the read of the catalog, the writer continues.
    const growing = (store: Store) =>
      withCheckpoints(store, async (id) => {
        for (let n = 2; n <= 4 && !isGrown; n++) {
          await handle.append(add(n))
          await handle.checkpoint()
        }
        isGrown = true
        return await store.checkpoints(id)
      })
    await using collector = openOver(world, growing)
    hostOf(collector).register('list/', list.fold as never)
    const { timelines } = await collector.collect()
    expect(isGrown).toBe(true)
    const reasons = timelines.flatMap(({ drop, keep }) => [...drop, ...keep].map(({ because }) => because))
    expect(reasons.filter((because) => /invalid|history ends/.test(because))).toEqual([])
    expect((await writer.checkpoints('list/a')).map(({ seq }) => seq)).toContain(4)
  })

  test('G11: damaged history fails the drill of its timeline and does not stop that of the others', async () => {
    const world = createWorld()
    await using engine = openOver(world)
    for (const id of ['a', 'b']) {
      const handle = await engine.open(list, id)
      await handle.append(add(1))
      await handle.checkpoint()
    }
    damageRun(world, 'list/a@1')
    const { ok, results } = await engine.drill()
    expect(ok).toBe(false)
    expect(results.filter((result) => !result.ok).map((result) => result.timeline)).toEqual(['list/a'])
    expect(results.some((result) => result.timeline === 'list/b' && result.ok)).toBe(true)
    // The checkpoint lies after the damage and is sound: nothing proves that it is invalid.
    expect((await engine.checkpoints('list/a')).map((record) => record.invalid)).toEqual([null])
  })

  test('A1.3: a checkpoint that could not be read back for want of an answer is not called invalid', async () => {
    let isAway = false
    await using engine = openOver(createWorld(), (store) =>
      withBlobs(store, async (digests) => {
        if (isAway) throw new RepriseError('STORE_UNREACHABLE', 'away')
        return await store.blobs.get(digests)
      }),
    )
    const large = timeline('large', {
      initial: () => ({ bytes: Uint8Array.from({ length: 5000 }, (_, i) => ((i * i * 31) % 251) ^ (i >> 3)) }),
      apply: (state) => state,
    })
    const handle = await engine.open(large, 'a')
    await handle.append({ type: 'add' })
    isAway = true
    await expect(handle.checkpoint()).rejects.toMatchObject({ code: 'STORE_UNREACHABLE' })
    isAway = false
    expect(await engine.checkpoints('large/a')).toMatchObject([{ invalid: null, verifiedAt: null }])
    await handle.checkpoint({ full: true })
    expect((await engine.checkpoints('large/a'))[0]).toMatchObject({ invalid: null, verifiedAt: expect.any(Number) })
  })

  test('G5: an effect in doubt is not called again through a handle that was closed', async () => {
    await using engine = openOver(createWorld())
    const handle = await engine.open(list, 'a')
    let calls = 0
    const pay = () => handle.effects.run('pay', () => handle.close().then(() => ++calls))
    await expect(pay()).rejects.toMatchObject({ code: 'CLOSED' })
    await expect(pay()).rejects.toMatchObject({ code: 'CLOSED' })
    expect(calls).toBe(1)
  })

  test('an opening waits for the last handle of the process to close', async () => {
    await using engine = openOver(createWorld())
    const first = await engine.open(list, 'a')
    const closing = first.close()
    const second = await engine.open(list, 'a')
    await closing
    await second.append(add(1))
    expect(second.state).toEqual([1])
  })

  test('a timeline that could not be recovered is free for others at once', async () => {
    const world = createWorld()
    await using one = openOver(world)
    await using other = openOver(world)
    const handle = await one.open(list, 'a')
    await handle.append(add(1))
    await handle.close()
    damageRun(world, 'list/a@1')
    await expect(one.open(list, 'a')).rejects.toMatchObject({ code: 'HISTORY_DAMAGED' })
    await expect(other.open(list, 'a')).rejects.toMatchObject({ code: 'HISTORY_DAMAGED' })
  })

  test('G10: a heartbeat that was held up on its way makes no chunk look older than it is', async () => {
    let databaseTime = 1_000_000
    let elapsed = 0
    const store = openMemory({ namespace: 'test', hash: sha256, clock: () => databaseTime })
    const held = new Proxy(store, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name, target)
        if (name !== 'beat') return typeof member === 'function' ? member.bind(target) : member
        return async (worker: Parameters<Store['beat']>[0]) => {
          // Two hours pass between the sending and the work.
          databaseTime += 7_200_000
          elapsed += 7_200_000
          return await target.beat(worker)
        }
      },
    })
    const soon = (call: () => void) => call()
    const clock = { now: () => 0, elapsed: () => elapsed, after: () => () => {}, soon, next: soon }
    const engine = createEngine({ store: held, clock })
    await hostOf(engine).kernel.worker.register()
    expect(hostOf(engine).kernel.worker.earliest()).toBeLessThanOrEqual(databaseTime)
  })
})

function withBlobs(store: Store, get: Store['blobs']['get']): Store {
  return changed(store, 'blobs', { ...store.blobs, get })
}

function withCheckpoints(store: Store, checkpoints: Store['checkpoints']): Store {
  return changed(store, 'checkpoints', checkpoints)
}

function changed(store: Store, what: keyof Store, to: unknown): Store {
  return new Proxy(store, {
    get(target, name) {
      if (name === what) return to
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
}
