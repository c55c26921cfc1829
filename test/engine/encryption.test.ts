// Data beside encrypted data: dedupe keys are sealed, types if the ring hides them, attributes are hashed by choice and still
// found. Damage in a record under a new key is found like any other.

import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, expect, it } from 'vitest'
import type { TimelineId } from '../../src/core/coordinate.ts'
import { createEngine, type Options, open } from '../../src/engine/api/open.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { Sealer } from '../../src/engine/storage/seal/seal.ts'
import { timeline } from '../../src/index.ts'
import { aggregate, checkEvents } from '../../src/layers/events/index.ts'
import { cells, createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const ring = { current: 'k', keys: { k: new Uint8Array(32).fill(7) } }
const hashing = { key: new Uint8Array(32).fill(9), attributes: ['customer', 'vip'] }
const code = (expected: string) => expect.objectContaining({ code: expected })
const counter = timeline('counter', {
  initial: () => ({ total: 0 }),
  apply: (state, entry: { type: 'rumpelstiltskin'; by: number }) => ({ total: state.total + entry.by }),
})

let folder: string
beforeEach(() => {
  folder = temporaryFolder('encryption')
})

const holds = (text: string) => readdirSync(folder).some((name) => readFileSync(join(folder, name)).includes(text))

async function withFile(options: Options, use: (rp: Awaited<ReturnType<typeof open>>) => Promise<void>) {
  const rp = await open(`sqlite:${join(folder, 'store.db')}`, { ...options, housekeeping: false })
  try {
    await use(rp)
  } finally {
    await rp.close()
  }
}

it('seals dedupe keys always and types where the ring hides them', async () => {
  const append = { type: 'rumpelstiltskin', by: 1 } as const
  await withFile({ keys: ring }, async (rp) => {
    const c = await rp.open(counter, 'x')
    await c.append(append, { key: 'anna@example.com' })
    await c.append(append, { key: 'anna@example.com' })
    expect(c.state.total).toBe(1)
  })
  expect(holds('anna@example.com')).toBe(false)
  expect(holds('rumpelstiltskin')).toBe(true)
  rmSync(join(folder, 'store.db'))
  for (const name of readdirSync(folder)) rmSync(join(folder, name))
  const account = aggregate('account', {
    initial: () => ({ total: 0 }),
    evolve: {
      rumpelstiltskin: (state: { total: number }, event: { by: number }) => ({ total: state.total + event.by }),
    },
    decide: { add: (_state: { total: number }, by: number) => [{ type: 'rumpelstiltskin' as const, by }] },
  })
  const hiding = { ...ring, hides: ['types'] as const }
  await withFile({ keys: hiding }, async (rp) => {
    const c = await rp.open(counter, 'x')
    await c.append(append, { key: 'one' })
    await c.append(append)
    await (await rp.open(account, 'a')).do('add', 2)
  })
  expect(holds('rumpelstiltskin')).toBe(false)
  await withFile({ keys: hiding }, async (rp) => {
    const c = await rp.open(counter, 'x')
    await c.append(append, { key: 'one' })
    expect(c.state.total).toBe(2)
    const check = await checkEvents(rp, account)
    expect([check.ok, check.stored.map(({ type }) => type)]).toEqual([true, ['rumpelstiltskin']])
  })
})

onEveryStore('hashed attributes', (world) => {
  it('are found by processes that know the value, and readable by none', async () => {
    const w = await world()
    const rp = await w.engine({ keys: { ...ring, hashing } })
    const raw = await w.store()
    const along = { attributes: { customer: 'anna', vip: true, city: 'Ulm' } }
    await hostOf(rp).create(
      'counter/x' as TimelineId,
      counter.fold as never,
      [{ type: 'rumpelstiltskin', data: { by: 1 } }],
      along,
    )
    const [head] = await raw.head(['counter/x' as TimelineId])
    expect(head!.attributes).toMatchObject({ city: 'Ulm', customer: expect.stringMatching(/^#/) })
    expect(JSON.stringify(head!.attributes)).not.toMatch(/anna|true/)
    const found = (attributes: Record<string, string | boolean>) =>
      rp.list({ attributes }).then((heads) => heads.map((one) => one.timeline))
    expect(await found({ customer: 'anna' })).toEqual(['counter/x'])
    expect(await found({ customer: 'anna', vip: true, city: 'Ulm' })).toEqual(['counter/x'])
    expect(await found({ customer: 'otto' })).toEqual([])
    expect(await found({ vip: 'true' })).toEqual([])
    // Written back as it was read, it is still the same.
    expect(await found({ customer: String(head!.attributes.customer) })).toEqual(['counter/x'])
    expect(rp.hashed('anna')).toBe(rp.hashed('anna'))
    expect(rp.hashed('anna')).not.toContain('anna')
    await expect(w.engine({ keys: { ...ring, hashing: { ...hashing, key: new Uint8Array(3) } } })).rejects.toEqual(
      code('INVALID_ARGUMENT'),
    )
  })
})

it('finds damage in records under a new key, and recovers from sound ones (G7, G8)', async () => {
  const world = createWorld()
  const engineOf = (keys: Options['keys']) =>
    createEngine({ store: openMemory({ namespace: 'n', hash: sha256, world }) }, { keys: keys! })
  const both = { current: 'new', keys: { ...ring.keys, new: new Uint8Array(32).fill(8) } }
  const first = engineOf(ring)
  const c = await first.open(counter, 'x')
  for (let n = 0; n < 6; n++) {
    await c.append({ type: 'rumpelstiltskin', by: 1 })
    if (n % 2 === 1) await c.checkpoint()
  }
  await first.close()
  const second = engineOf(both)
  await second.rekey()
  await second.close()
  const places = cells(world).filter(({ kind }) => kind !== 'message')
  for (const { bytes } of places) {
    for (let at = 0; at < bytes.length; at += Math.max(1, Math.floor(bytes.length / 17))) {
      bytes[at]! ^= 4
      const rp = engineOf({ current: 'new', keys: { new: both.keys.new! } })
      hostOf(rp).register('counter/', counter.fold as never)
      const opened = await rp.at(counter, 'x', { seq: 6 }).then(
        ({ state }) => state.total,
        (error: { code: string }) => error.code,
      )
      expect([6, 'HISTORY_DAMAGED', 'UNRECOVERABLE']).toContain(opened)
      expect((await rp.verify()).faults.length).toBeGreaterThan(0)
      await rp.close()
      bytes[at]! ^= 4
    }
  }
  expect(places.length).toBeGreaterThan(6)
})

it('opens a record that was wrapped twice over the years, and none without its key', () => {
  const key = (n: number) => new Uint8Array(32).fill(n)
  const first = new Sealer({ keys: { current: 'a', keys: { a: key(1) } } })
  const plain = new TextEncoder().encode('hello')
  const envelope = first.sealChecked(plain, new Uint8Array(3))
  const second = new Sealer({ keys: { current: 'b', keys: { a: key(1), b: key(2) } } })
  const once = second.rewrap('messages', envelope)!
  const third = new Sealer({ keys: { current: 'c', keys: { b: key(2), c: key(3) } } })
  const twice = third.rewrap('messages', once)!
  expect(third.rewrap('messages', twice)).toBe(null)
  const last = new Sealer({ keys: { current: 'c', keys: { c: key(3) } } })
  expect(last.openChecked(twice, new Uint8Array(3))).toEqual(Buffer.from(plain))
  expect(last.unwrap(twice)).toEqual(Buffer.from(envelope))
  expect(() => second.openChecked(twice, new Uint8Array(3))).toThrow(code('KEY_MISSING') as never)
  expect(twice.length).toBeLessThan(once.length + 8)
})

it('takes no other key for one that it knows by id, and no process whose ring is out of date', async () => {
  const add = async (keys: Options['keys']) => {
    await withFile({ keys: keys! }, async (rp) => {
      const open = await rp.open(counter, 'a')
      await open.append({ type: 'rumpelstiltskin', by: 1 })
      await open.close()
    })
  }
  const other = new Uint8Array(32).fill(8)
  await add(ring)
  await expect(add({ current: 'k', keys: { k: other } })).rejects.toEqual(code('KEY_MISSING'))
  // A new key before the old one is known to it, and the old one after the rekey.
  await expect(add({ current: 'k2', keys: { k2: other } })).rejects.toEqual(code('KEY_MISSING'))
  const both = { current: 'k2', keys: { ...ring.keys, k2: other } }
  await add(both)
  await add(ring).catch((error) => expect(error).toEqual(code('KEY_MISSING')))
  await withFile({ keys: both }, async (rp) => void (await rp.rekey()))
  await expect(add(ring)).rejects.toEqual(code('KEY_MISSING'))
  await add({ current: 'k2', keys: { k2: other } })
})
