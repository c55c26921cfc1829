// Recovery: checkpoint plus history, fallback after damage, a report, and a clear error when nothing works.

import { expect, it } from 'vitest'
import { timeline } from '../../src/index.ts'
import type { Store } from '../../src/store.ts'
import { added, counter, frugal, shelf } from '../support/definitions.ts'
import { until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

/** Chunks that come back with one bit flipped. */
function rotting(store: Store, isRotten: () => boolean): Store {
  const { blobs } = store
  const get: Store['blobs']['get'] = async (digests) =>
    (await blobs.get(digests)).map((bytes) => {
      if (!bytes || !isRotten()) return bytes
      const damaged = new Uint8Array(bytes)
      damaged[0]! ^= 1
      return damaged
    })
  return new Proxy(store, {
    get: (target, name) => {
      if (name === 'blobs') return { ...proxied(blobs), get }
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
}

function proxied(blobs: Store['blobs']): Store['blobs'] {
  return {
    put: (chunks, at) => blobs.put(chunks, at),
    touch: (digests, at) => blobs.touch(digests, at),
    get: (digests) => blobs.get(digests),
    list: (after, limit) => blobs.list(after, limit),
    delete: (digests, before) => blobs.delete(digests, before),
    rewrite: (change, after, limit) => blobs.rewrite(change, after, limit),
  }
}

const large = timeline('large', {
  initial: () => ({ text: '' }),
  apply: (state, entry: { type: 'wrote'; text: string }) => ({ text: state.text + entry.text }),
})
/** Text that does not compress, so that it goes into chunks of its own. */
function noise(seed: number): string {
  let x = seed * 2654435761 + 1
  return Array.from({ length: 8000 }, () => {
    x = Math.imul(x ^ (x >>> 15), 0x2c1b3c6d) + 0x9e3779b9
    return String.fromCharCode(33 + ((x >>> 16) % 94))
  }).join('')
}

onEveryStore('recovery', (world) => {
  it('A2.3, A3.2, A7.1: starts from the newest checkpoint, replays the later entries, and reports it', async () => {
    const w = await world()
    const first = await w.engine()
    const c = await first.open(counter, 'x')
    for (let i = 0; i < 10; i++) await c.append(added(1))
    const made = await c.checkpoint({ trigger: 'milestone' })
    await c.append([added(5), added(5)])
    await first.close()
    const again = await (await w.engine()).open(counter, 'x')
    expect(again.state.total).toBe(20)
    expect(again.recovery).toMatchObject({ checkpoint: { id: made.id, seq: 10 }, entriesReplayed: 2, skipped: [] })
  })

  it('A1.1: a checkpoint may be deleted at any time; history rebuilds the state', async () => {
    const w = await world()
    const rp = await w.engine()
    const c = await rp.open(counter, 'x')
    await c.append([added(1), added(2)])
    const { id } = await c.checkpoint()
    await c.close()
    const head = (await rp.head('counter/x'))!
    const [outcome] = await hostOf(rp).kernel.store.commit([
      { operation: 'drop-it' as never, guard: { timeline: head.timeline, epoch: head.epoch }, drop: [id] },
    ])
    expect(outcome).toMatchObject({ ok: true })
    expect((await rp.open(counter, 'x')).recovery).toMatchObject({ checkpoint: null, entriesReplayed: 2 })
  })

  it('A1.3, G8: a damaged newest checkpoint is marked and passed over; the state equals full replay', async () => {
    const w = await world()
    const first = await w.engine({ redundancy: false })
    const l = await first.open(large, 'x')
    await l.append({ type: 'wrote', text: noise(1) })
    const older = await l.checkpoint()
    await l.append({ type: 'wrote', text: noise(2) })
    const newest = await l.checkpoint({ full: true })
    const { text } = l.state
    await first.close()
    let reads = 0
    const store = rotting(await w.store(), () => ++reads === 1)
    const second = await w.engine({ ports: { store }, redundancy: false })
    const again = await second.open(large, 'x')
    expect(again.state.text).toBe(text)
    expect(again.recovery.checkpoint?.id).toBe(older.id)
    expect(again.recovery.skipped.map(({ id }) => id)).toEqual([newest.id])
    const catalog = await second.checkpoints('large/x')
    expect(catalog.find(({ id }) => id === newest.id)?.invalid).toMatch(/damaged|digest/i)
    expect(catalog.find(({ id }) => id === older.id)?.invalid).toBeNull()
  })

  it('A1.3: when every checkpoint is damaged, all history is replayed; when that is gone too, the error names the missing parts', async () => {
    const w = await world()
    const first = await w.engine()
    const l = await first.open(large, 'x')
    await l.append({ type: 'wrote', text: noise(1) })
    await l.checkpoint()
    await first.close()
    const rotten = await w.engine({ ports: { store: rotting(await w.store(), () => true) } })
    const again = await rotten.open(large, 'x')
    expect(again.state.text).toBe(noise(1))
    expect(again.recovery).toMatchObject({ checkpoint: null, entriesReplayed: 1 })
    await rotten.close()

    const trimmed = timeline('trimmed', {
      initial: () => '',
      apply: (s, e: { type: 'wrote'; text: string }) => s + e.text,
      retain: { checkpoints: 2, history: 'needed' },
    })
    const second = await w.engine()
    const t = await second.open(trimmed, 'x')
    for (let n = 0; n < 4; n++) {
      await t.append({ type: 'wrote', text: noise(n) })
      await t.checkpoint({ full: true })
    }
    const { floor } = (await second.head('trimmed/x'))!
    expect(floor).toBeGreaterThan(0)
    await second.close()
    const hopeless = await w.engine({ ports: { store: rotting(await w.store(), () => true) } })
    const error = await hopeless.open(trimmed, 'x').catch((e) => e)
    expect(error).toEqual(code('UNRECOVERABLE'))
    expect(error.message).toContain(`1..${floor}`)
    expect(error.data.skipped).toHaveLength(2)
  })

  it('A5.4: a checkpoint of another fold version is ignored and rebuilt, never misread', async () => {
    const w = await world()
    const make = (version: number, factor: number) =>
      timeline('folding', {
        initial: () => ({ total: 0 }),
        apply: (s, e: { type: 'added'; by: number }) => ({ total: s.total + factor * e.by }),
        version,
      })
    const first = await w.engine()
    const old = await first.open(make(1, 1), 'x')
    await old.append(added(3))
    await old.checkpoint()
    await first.close()
    const second = await w.engine()
    const now = await second.open(make(2, 10), 'x')
    expect(now.state.total).toBe(30)
    expect(now.recovery).toMatchObject({ checkpoint: null, entriesReplayed: 1 })
    expect(now.recovery.skipped[0]?.why).toMatch(/version/)
  })

  it('A5.4: entries of an old version are upcast; a missing upcaster names the version', async () => {
    const w = await world()
    const v1 = timeline('evolving', { initial: () => 0, apply: (s, e: { type: 'added'; by: number }) => s + e.by })
    const first = await w.engine()
    await (await first.open(v1, 'x')).append({ type: 'added', by: 2 })
    await first.close()
    const cents = (upcasters: object) =>
      timeline('evolving', {
        initial: () => 0,
        apply: (s, e: { type: 'added'; cents: number }) => s + e.cents,
        version: 2,
        upcasters: upcasters as never,
      })
    const good = cents({ added: { version: 2, from: { 1: (data: { by: number }) => ({ cents: data.by * 100 }) } } })
    const second = await w.engine()
    const e = await second.open(good, 'x')
    await e.append({ type: 'added', cents: 5 })
    expect(e.state).toBe(205)
    await second.close()
    const third = await w.engine()
    await expect(third.open(cents({ added: { version: 3, from: {} } }), 'x')).rejects.toEqual(code('UPCAST_MISSING'))
  })

  it('a fold that throws on recorded history is FOLD_FAILED with the place, and nothing is lost', async () => {
    const w = await world()
    const first = await w.engine()
    await (await first.open(counter, 'x')).append([added(1), added(2)])
    await first.close()
    const broken = timeline('counter', {
      initial: () => 0,
      apply: (s, e: { type: 'added'; by: number }) => {
        if (e.by === 2) throw new Error('cannot')
        return s + e.by
      },
    })
    const second = await w.engine()
    const error = await second.open(broken, 'x').catch((e) => e)
    expect(error).toEqual(code('FOLD_FAILED'))
    expect(error.data).toMatchObject({ timeline: 'counter/x', seq: 2 })
    await second.close()
    expect((await (await w.engine()).open(counter, 'x')).state.total).toBe(3)
  })

  it('G9: recovery replays no more than the interval of the policy', async () => {
    const w = await world()
    const first = await w.engine()
    const f = await first.open(frugal, 'x')
    for (let i = 0; i < 43; i++) await f.append(added(1))
    // A checkpoint that is due is in progress; a slow store may need a moment more.
    await until(() => f.checkpointing.entriesSince < 5)
    await first.close()
    const again = await (await w.engine()).open(frugal, 'x')
    expect(again.state.total).toBe(43)
    expect(again.recovery.entriesReplayed).toBeLessThanOrEqual(5)
  })

  it('refuses a timeline whose state is the authority: an append publishes no checkpoint, and save does', () => {
    const options = { initial: () => ({ n: 0 }), apply: () => undefined, authority: 'state' }
    expect(() => timeline('saves', options as never)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT', message: expect.stringContaining('reprise/save') }),
    )
  })

  it('A4.1, A4.4: keyed state is captured while the work continues, and restores equal', async () => {
    const w = await world()
    const first = await w.engine()
    const s = await first.open(shelf, 'x')
    await s.append(Array.from({ length: 3000 }, (_, i) => ({ type: 'set' as const, key: `k${i}`, value: i })))
    const full = await s.checkpoint()
    const capturing = s.checkpoint()
    const racing = s.append([
      { type: 'set', key: 'k7', value: -7 },
      { type: 'cut', key: 'k8' },
    ])
    await Promise.all([capturing, racing])
    const small = await s.checkpoint()
    expect(small.kind).toBe('incremental')
    expect(small.addedBytes).toBeLessThan(full.addedBytes / 5)
    await first.close()
    const again = await (await w.engine()).open(shelf, 'x')
    expect(again.state.items.get('k7')).toBe(-7)
    expect(again.state.items.has('k8')).toBe(false)
    expect(again.state.items.size).toBe(2999)
    expect(again.state.changes).toBe(3002)
    expect(again.recovery.entriesReplayed).toBe(0)
  })
})
