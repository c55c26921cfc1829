// The heartbeat of a process: one that had to wait for the store does not cost the process its lease.

import { expect, test } from 'vitest'
import { RepriseError } from '../../core/errors.ts'
import { forwardStore } from '../../core/store/store-wrapper.ts'
import { openMemory } from '../../stores/memory/index.ts'
import { hash } from '../../testing/conformance/kit.ts'
import { VirtualClock } from '../../testing/virtual-clock.ts'
import { Events } from './events.ts'
import { Worker } from './worker.ts'

const leaseMs = 15_000

test('a heartbeat that waited for the write lock and failed is tried again before the lease runs out', async () => {
  const virtual = new VirtualClock(1_000_000)
  const clock = virtual.view(() => true)
  const store = openMemory({ namespace: 'n', hash, clock: () => virtual.now() })
  let beats = 0
  const beat: typeof store.beat = async (row) => {
    beats += 1
    if (beats !== 2) return await store.beat(row)
    await new Promise<void>((resolve) => clock.after(9_000, resolve))
    throw new RepriseError('STORE_BUSY', 'another process holds the write lock')
  }
  const events = new Events()
  const told: string[] = []
  events.on('problem', ({ where }) => told.push(where))
  const random = { bytes: (count: number) => new Uint8Array(count), number: () => 0.5 }
  const identity = { host: 'here', process: '1' }
  const options = { store: forwardStore(store, { beat }), clock, random, events, identity, name: 'w', leaseMs }
  const worker = new Worker(options as ConstructorParameters<typeof Worker>[0])
  await worker.register()
  for (let ms = 0; ms < 2 * leaseMs; ms += 250) {
    virtual.leap(virtual.now() + 250)
    await new Promise((resolve) => setImmediate(resolve))
    expect((await store.workers())[0]?.isAlive, `after ${ms} ms`).toBe(true)
  }
  expect(told).toEqual(['heartbeat'])
  await worker.close()
  await store.close()
})
