import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ioOn, Shelf } from '../../../test/support/shelf.ts'
import { decodeManifest, encodeManifest, type Manifest, type Part } from '../../core/checkpoint/manifest.ts'
import { toHex } from '../../core/coordinate.ts'
import { type Keyed, keyed } from '../../core/keyed-state/keyed.ts'
import type { Blobs } from '../../core/store/ports.ts'
import type { StateIo } from '../model/state-io.ts'
import { abandonCapture, type CaptureBase, type CaptureSettings, captureState, writeCapture } from './capture.ts'
import { liveChunks, restoreState } from './restore.ts'

/** With a put that can be made to fail. */
class FailingShelf extends Shelf {
  putsUntilFailure = Number.POSITIVE_INFINITY
  puts = 0

  override async put(chunks: Parameters<Blobs['put']>[0]) {
    this.puts += 1
    if (--this.putsUntilFailure < 0) throw new Error('the disk is full')
    await super.put(chunks)
  }

  keepOnly(digests: readonly Uint8Array[]): void {
    const kept = new Set(digests.map(toHex))
    for (const name of [...this.chunks.keys()]) if (!kept.has(name)) this.chunks.delete(name)
  }
}

/** Each read of the clock takes a while, so that the work is cut into many slices. */
function slowIo(blobs: Blobs, yieldToLoop = async () => {}): StateIo {
  let now = 0
  return ioOn(blobs, { elapsed: () => (now += 0.5), yieldToLoop })
}

function manifestOf(parts: readonly Part[]): Manifest {
  const manifest = { timeline: 't', seq: 1, epoch: 1, digest: new Uint8Array(32), foldVersion: '1', parts }
  return decodeManifest(encodeManifest(manifest))
}

interface State {
  readonly people: Keyed<unknown>
  readonly places: Keyed<unknown>
  readonly note: unknown
}

type Plain = { people: Map<string, unknown>; places: Map<string, unknown>; note: unknown }

function plainOf(state: State): Plain {
  return { people: new Map(state.people), places: new Map(state.places), note: state.note }
}

type Change =
  | {
      readonly kind: 'put'
      readonly map: 'people' | 'places'
      readonly from: number
      readonly count: number
      readonly stride: number
      readonly size: number
    }
  | {
      readonly kind: 'remove'
      readonly map: 'people' | 'places'
      readonly from: number
      readonly count: number
      readonly stride: number
    }
  | { readonly kind: 'clear'; readonly map: 'people' | 'places' }
  | { readonly kind: 'replace'; readonly map: 'people' | 'places' }
  | { readonly kind: 'note'; readonly note: unknown }

function make(state: State, change: Change): State {
  switch (change.kind) {
    case 'put':
      for (let i = 0; i < change.count; i++) {
        state[change.map].set(`k${change.from + i * change.stride}`, { i, text: 'x'.repeat(change.size) })
      }
      return state
    case 'remove':
      for (let i = 0; i < change.count; i++) state[change.map].delete(`k${change.from + i * change.stride}`)
      return state
    case 'clear':
      state[change.map].clear()
      return state
    case 'replace':
      return { ...state, [change.map]: state[change.map].snapshot() }
    case 'note':
      return { ...state, note: change.note }
  }
}

const map = fc.constantFrom('people' as const, 'places' as const)
const from = fc.nat(2000)
const stride = fc.integer({ min: 1, max: 40 })
const change: fc.Arbitrary<Change> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({ kind: fc.constant('put' as const), map, from, stride, count: fc.nat(60), size: fc.nat(40) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('put' as const),
      map,
      from,
      stride,
      count: fc.nat(1500),
      size: fc.nat(4),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('remove' as const), map, from, stride, count: fc.nat(200) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('clear' as const, 'replace' as const), map }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('note' as const),
      note: fc.oneof(fc.string(), fc.constant('y'.repeat(300_000))),
    }),
  },
)
const changes = fc.array(change, { maxLength: 4 })

type Step =
  | { readonly kind: 'change'; readonly changes: readonly Change[] }
  | {
      readonly kind: 'capture'
      readonly during: readonly Change[]
      readonly end: 'publish' | 'abandon' | 'forget' | 'fail' | 'full'
    }
  | { readonly kind: 'restart' }

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('change' as const), changes }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('capture' as const),
      during: changes,
      end: fc.constantFrom('publish', 'publish', 'publish', 'abandon', 'forget', 'fail', 'full'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('restart' as const) }) },
)

const crowd = Array.from({ length: 2000 }, (_, i): [string, unknown] => [`k${i}`, i])

const hurried: CaptureSettings = {
  inlineBytes: 100,
  putBytes: 10_000,
  plan: { layersMax: 2, layersShare: 1 / 2, layersBytesFree: 2000, pagesOverLayer: 1 },
}

describe('capture and restore', () => {
  test('A2.2, A4.1, A4.5, G10: whatever changes, fails or restarts, the last published checkpoint is the state it was taken of, with no chunk but its own', async () => {
    const choices = new Set<string>()
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 14 }), async (steps) => {
        const shelf = new FailingShelf()
        let state: State = { people: keyed(crowd), places: keyed(), note: null }
        let base: CaptureBase | null = null
        let published: { manifest: Manifest; plain: Plain } | null = null
        for (const action of steps) {
          if (action.kind === 'change') {
            for (const one of action.changes) state = make(state, one)
          } else if (action.kind === 'restart') {
            if (published === null) continue
            const restored = await restoreState(published.manifest, slowIo(shelf))
            state = restored.state as State
            base = restored.base
            expect(plainOf(state)).toEqual(published.plain)
          } else {
            const waiting = [...action.during]
            const io = slowIo(shelf, async () => {
              const next = waiting.pop()
              if (next) state = make(state, next)
            })
            // Without a base nothing can be reused: the chunks of the last checkpoint are deleted.
            if (action.end === 'full') shelf.keepOnly([])
            const plain = plainOf(state)
            const capture = captureState(state, action.end === 'full' ? null : base, io)
            for (const one of waiting.splice(0, 1)) state = make(state, one)
            if (action.end === 'fail') shelf.putsUntilFailure = waiting.length % 3
            const written = await writeCapture(capture, io, hurried).catch(() => null)
            shelf.putsUntilFailure = Number.POSITIVE_INFINITY
            for (const plan of written?.plans ?? []) choices.add(plan.choice)
            if (action.end === 'abandon') abandonCapture(capture)
            if (written === null || action.end === 'abandon' || action.end === 'forget') continue
            published = { manifest: manifestOf(written.parts), plain }
            base = written.base
            // The collector at its worst: everything that the newest checkpoint does not need is deleted at once.
            shelf.keepOnly(await liveChunks(published.manifest, io))
          }
        }
        if (published === null) return
        const { state: last } = await restoreState(published.manifest, slowIo(shelf))
        expect(plainOf(last as State)).toEqual(published.plain)
      }),
      // A fixed seed: all four ways of writing must occur, and some random walks miss one.
      { numRuns: 200, seed: 7 },
    )
    expect([...choices].sort()).toEqual(['layer', 'merge', 'pages', 'unchanged'])
  })

  test.each<[string, unknown]>([
    ['a number', 5],
    ['nothing', undefined],
    ['an array', [1, 'two', new Date(3)]],
    ['a Map', new Map([['a', { b: 1n }]])],
    [
      'an object with odd names',
      Object.fromEntries([
        ['__proto__', 1],
        ['constructor', 2],
      ]),
    ],
    ['half a megabyte of text', 'abcdefgh'.repeat(65_536)],
  ])('a state that is one value comes back: %s', async (_, value) => {
    const io = slowIo(new FailingShelf())
    const written = await writeCapture(captureState(value, null, io), io)
    expect((await restoreState(manifestOf(written.parts), io)).state).toEqual(value)
  })

  test('a state that is one Keyed comes back, large values and odd keys included', async () => {
    const io = slowIo(new FailingShelf())
    const noise = Uint8Array.from({ length: 700_000 }, (_, i) => (i * i * 31) >>> 7)
    const state = keyed<unknown>([
      ['__proto__', noise],
      ['\ud800', undefined],
      ['ключ', noise.slice(0, 300_000)],
      ['', 0],
    ])
    const written = await writeCapture(captureState(state, null, io), io)
    const back = (await restoreState(manifestOf(written.parts), io)).state as Keyed<unknown>
    expect([...back.keys()]).toEqual([...state.keys()])
    // Compared as text: element by element takes seconds.
    for (const [key, value] of state) expect(String(back.get(key)) === String(value)).toBe(true)
  })

  test('a Keyed called __proto__ is a property like any other', async () => {
    const io = slowIo(new FailingShelf())
    const state = Object.fromEntries([['__proto__', keyed([['a', 1]])]])
    const written = await writeCapture(captureState(state, null, io), io)
    const back = (await restoreState(manifestOf(written.parts), io)).state as Record<string, Keyed<number>>
    expect([...Object.entries(back)[0]![1]]).toEqual([['a', 1]])
  })

  test('the same Keyed twice in one state is refused', () => {
    const one = keyed()
    expect(() => captureState({ a: one, b: one }, null, slowIo(new FailingShelf()))).toThrow(/UNSERIALIZABLE/)
  })

  test('a Keyed hidden deeper in the state is refused, and nothing stays frozen', () => {
    const io = slowIo(new FailingShelf())
    expect(() => captureState({ deep: { inside: keyed() } }, null, io)).toThrow(/UNSERIALIZABLE/)
  })

  test('small states and small changes need no chunk at all', async () => {
    const shelf = new FailingShelf()
    const io = slowIo(shelf)
    const state = { count: 1, people: keyed([['ann', { age: 3 }]]) }
    const first = await writeCapture(captureState(state, null, io), io)
    state.people.set('bob', { age: 4 })
    const second = await writeCapture(captureState(state, first.base, io), io)
    expect([shelf.puts, second.addedBytes, second.kind]).toEqual([0, 0, 'incremental'])
    const back = (await restoreState(manifestOf(second.parts), io)).state as typeof state
    expect([...back.people.keys()]).toEqual(['ann', 'bob'])
  })

  test('an unchanged state adds nothing, also after a restore', async () => {
    const shelf = new FailingShelf()
    const io = slowIo(shelf)
    const people = keyed(Array.from({ length: 5000 }, (_, i): [string, unknown] => [`k${i}`, { i }]))
    const state = { people, note: Array.from({ length: 50_000 }, (_, i) => i * i) }
    const first = await writeCapture(captureState(state, null, io), io)
    const second = await writeCapture(captureState(state, first.base, io), io)
    const restored = await restoreState(manifestOf(second.parts), io)
    const third = await writeCapture(captureState(restored.state, restored.base, io), io)
    expect([second.addedBytes, third.addedBytes]).toEqual([0, 0])
    expect([second.totalBytes, third.totalBytes]).toEqual([first.totalBytes, first.totalBytes])
    expect(first.addedBytes).toBeGreaterThan(50_000)
  })

  test('a small change inside a large value adds a small part of it, also after a restore', async () => {
    const io = slowIo(new FailingShelf())
    let word = 1
    const note = Array.from({ length: 400_000 }, () => {
      word = Math.imul(word, 1103515245) + 12345
      return word >>> 8
    })
    const first = await writeCapture(captureState({ note }, null, io), io)
    note.splice(200_000, 0, 1, 2, 3)
    const second = await writeCapture(captureState({ note }, first.base, io), io)
    expect(second.addedBytes).toBeLessThan(first.addedBytes / 10)
    const restored = await restoreState(manifestOf(second.parts), io)
    note.splice(100_000, 1)
    const third = await writeCapture(captureState({ note }, restored.base, io), io)
    expect(third.addedBytes).toBeLessThan(first.addedBytes / 10)
    expect((await restoreState(manifestOf(third.parts), io)).state).toEqual({ note })
  })

  test('A4.1: of 200,000 keys, 1 % changed at random writes at most 5 % of the bytes, and many rounds stay far below', async () => {
    const shelf = new FailingShelf()
    const io = slowIo(shelf)
    let word = 7
    const random = (below: number) => {
      word = Math.imul(word, 1664525) + 1013904223
      return (word >>> 8) % below
    }
    const value = () => ({
      id: random(1e9),
      name: `user ${random(1e6)}`,
      tags: [random(99), random(99)],
      ratio: random(1e6) / 7,
    })
    const state = keyed(Array.from({ length: 200_000 }, (_, i): [string, unknown] => [`user/${i}`, value()]))
    const full = await writeCapture(captureState(state, null, io), io)
    let { base } = full
    let addedBytes = 0
    const rounds = 12
    for (let round = 0; round < rounds; round++) {
      for (let i = 0; i < 2000; i++) state.set(`user/${random(200_000)}`, value())
      const written = await writeCapture(captureState(state, base, io), io)
      if (round === 0) expect(written.addedBytes).toBeLessThanOrEqual(0.05 * full.addedBytes)
      const layers = written.parts[0]!.kind === 'keyed' ? written.parts[0]!.layers.length : 0
      expect(layers).toBeLessThanOrEqual(9)
      base = written.base
      addedBytes += written.addedBytes
    }
    expect(addedBytes / rounds).toBeLessThanOrEqual(0.05 * full.addedBytes)
    const [part] = [...base.parts.values()]
    const back = (await restoreState(manifestOf([part!.part]), io)).state as Keyed<unknown>
    expect(back.size).toBe(200_000)
    expect([...back.entries({ limit: 5000 })]).toEqual([...state.entries({ limit: 5000 })])
  })

  test('changes that lie together are written as pages, and their neighbours stay as they are', async () => {
    const io = slowIo(new FailingShelf())
    const name = (i: number) => String(i).padStart(6, '0')
    const state = keyed(Array.from({ length: 50_000 }, (_, i): [string, number] => [name(i), i]))
    const full = await writeCapture(captureState(state, null, io), io)
    for (let i = 10_000; i < 12_000; i++) state.set(name(i), -i)
    const written = await writeCapture(captureState(state, full.base, io), io)
    expect(written.plans.map(({ choice }) => choice)).toEqual(['pages'])
    expect(written.addedBytes).toBeLessThan(full.addedBytes / 5)
  })

  test('a capture is written once, and one that was abandoned meanwhile is not used', async () => {
    const shelf = new FailingShelf()
    const state = keyed(Array.from({ length: 3000 }, (_, i): [string, number] => [`k${i}`, i]))
    const plain = slowIo(shelf)
    const capture = captureState(state, null, plain)
    const io = slowIo(shelf, async () => abandonCapture(capture))
    await expect(writeCapture(capture, io)).rejects.toThrow(/ABORTED/)
    await expect(writeCapture(capture, io)).rejects.toThrow(/written once/)
  })

  test('A4.4: the longest stretch without a turn of the event loop is reported', async () => {
    const io = slowIo(new FailingShelf())
    const state = keyed(Array.from({ length: 3000 }, (_, i): [string, number] => [`k${i}`, i]))
    let breaths = 0
    const written = await writeCapture(captureState(state, null, io), {
      ...io,
      async yieldToLoop() {
        breaths += 1
      },
    })
    expect(breaths).toBeGreaterThan(3)
    expect(written.longestStallMs).toBeGreaterThan(0)
  })
})
