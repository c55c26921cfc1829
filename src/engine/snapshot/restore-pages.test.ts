import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ioOn, Shelf } from '../../../test/support/shelf.ts'
import { Keyed, keyed } from '../../core/keyed-state/keyed.ts'
import { UnreadPages } from '../../core/keyed-state/page.ts'
import type { StateIo } from '../model/state-io.ts'
import { captureState, writeCapture } from './capture.ts'
import { defaultOutputSettings } from './chunk-output.ts'
import { restoreState } from './restore.ts'

class LosingShelf extends Shelf {
  readonly lost = new Set<string>()

  override find(name: string): Uint8Array | null {
    return this.lost.has(name) ? null : super.find(name)
  }
}

function make(): { readonly io: StateIo; readonly shelf: LosingShelf } {
  const shelf = new LosingShelf()
  return { io: ioOn(shelf), shelf }
}

const settings = { ...defaultOutputSettings, pageBytes: 256 }
const isPaged = () => true

/** Repeats as long as pages are missing. */
async function see<T>(view: () => T): Promise<T> {
  for (;;) {
    try {
      return view()
    } catch (error) {
      if (!(error instanceof UnreadPages)) throw error
      await error.read()
    }
  }
}

const name = (n: number) => `k${String(n).padStart(5, '0')}`
const text = (n: number) => createHash('sha256').update(String(n)).digest('hex')

async function captured(count: number) {
  const { io, shelf } = make()
  const state = keyed(Array.from({ length: count }, (_, n): [string, unknown] => [name(n), text(n)]))
  const written = await writeCapture(captureState(state, null, io), io, settings)
  shelf.asked = []
  const restored = await restoreState(written, io, isPaged)
  return { io, shelf, map: restored.state as Keyed<unknown>, base: restored.base, directory: shelf.asked.length }
}

type Step =
  | { readonly kind: 'set' | 'delete' | 'get'; readonly at: number }
  | { readonly kind: 'walk'; readonly at: number; readonly reverse: boolean; readonly limit: number }
  | { readonly kind: 'checkpoint'; readonly at: number; readonly isPaged: boolean }

const at = fc.nat(700)
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constantFrom('set', 'delete', 'get'), at }) },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('walk'), at, reverse: fc.boolean(), limit: fc.nat(40) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('checkpoint'), at, isPaged: fc.boolean() }) },
)

describe('pages that are read on demand', () => {
  test('behave like a Map, whatever is read, changed, captured and restored again', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.nat(600),
        fc.boolean(),
        fc.array(step, { maxLength: 60 }),
        async (count, hasLayers, steps) => {
          const { io } = make()
          const model = new Map(Array.from({ length: count }, (_, n): [string, string] => [name(n), text(n)]))
          const first = await writeCapture(captureState(keyed(model), null, io), io, settings)
          let { state, base } = await restoreState(first, io, isPaged)
          let map = state as Keyed<unknown>
          const ordered = () => [...model].sort(([a], [b]) => (a < b ? -1 : 1))
          for (const each of steps) {
            const key = name(each.at)
            if (each.kind === 'set') {
              model.set(key, text(each.at + 1))
              await see(() => map.set(key, text(each.at + 1)))
            } else if (each.kind === 'delete') {
              expect(await see(() => map.delete(key))).toBe(model.delete(key))
            } else if (each.kind === 'get') {
              expect(await see(() => map.get(key))).toBe(model.get(key))
            } else if (each.kind === 'walk') {
              const { reverse, limit } = each
              const range = reverse ? { to: key, reverse, limit } : { from: key, limit }
              const all = ordered().filter(([held]) => (reverse ? held < key : held >= key))
              expect(await see(() => [...map.entries(range)])).toEqual((reverse ? all.reverse() : all).slice(0, limit))
            } else if (each.kind === 'checkpoint') {
              // With layers where they are cheaper, or with pages only, as paged folds are captured.
              const written = await writeCapture(captureState(map, base, io), io, hasLayers ? settings : pagesOnly)
              const restored = await restoreState(written, io, each.isPaged ? isPaged : undefined)
              map = restored.state as Keyed<unknown>
              base = restored.base
            }
            expect(map.size).toBe(model.size)
          }
          expect(await see(() => [...map])).toEqual(ordered())
        },
      ),
      { numRuns: 60 },
    )
  })

  test('one key costs the chunk of its page, however many there are', async () => {
    for (const count of [200, 2000]) {
      const { shelf, map, directory } = await captured(count)
      expect(shelf.chunks.size).toBeGreaterThan(count / 10)
      shelf.asked = []
      expect(await see(() => map.get(name(count / 2)))).toBe(text(count / 2))
      expect(await see(() => map.get(name(count / 2)))).toBe(text(count / 2))
      expect(shelf.asked).toHaveLength(1)
      expect(await see(() => [...map.keys({ reverse: true, limit: 1 })])).toEqual([name(count - 1)])
      expect(shelf.asked).toHaveLength(2)
      expect(directory).toBeLessThan(10)
    }
  })

  test('pages that are needed together are read in one request, and a long walk reads more each time', async () => {
    const { shelf, map, io } = await captured(2000)
    let requests = 0
    const get = shelf.get.bind(shelf)
    io.blobs.get = (digests) => {
      requests += 1
      return get(digests)
    }
    await see(() => Keyed.need(map, [name(5), name(1000), name(1500)]))
    expect([map.get(name(5)), map.get(name(1000)), map.get(name(1500))]).toEqual([text(5), text(1000), text(1500)])
    expect(requests).toBe(1)
    requests = 0
    expect(await see(() => [...map.keys({ reverse: true })])).toHaveLength(2000)
    expect(requests).toBeLessThan(20)
  })

  test('a capture of a few changes names the unread pages and reads none of them', async () => {
    const { io, shelf, map, base } = await captured(2000)
    await see(() => map.set(name(1999), 'changed'))
    shelf.asked = []
    const written = await writeCapture(captureState(map, base, io), io, pagesOnly)
    expect(shelf.asked).toEqual([])
    const { state } = await restoreState(written, io)
    expect([...(state as Keyed<unknown>).values()].filter((value) => value === 'changed')).toHaveLength(1)
    expect((state as Keyed<unknown>).size).toBe(2000)
    // A capture without a base writes all pages, so it must read them.
    const full = await writeCapture(captureState(map, null, io), io, settings)
    expect([...((await restoreState(full, io)).state as Keyed<unknown>)]).toEqual([...(state as Keyed<unknown>)])
  })

  test('G7: a lost or swapped page is an error for its reader; the others are still readable', async () => {
    const { shelf, map } = await captured(500)
    shelf.asked = []
    await see(() => map.get(name(300)))
    const [chunk] = shelf.asked
    const again = await captured(500)
    again.shelf.lost.add(chunk!)
    const reading = see(() => Keyed.need(again.map))
    await expect(reading).rejects.toThrow(/CHUNK_MISSING/)
    expect(await see(() => again.map.get(name(0)))).toBe(text(0))
    expect(await see(() => again.map.get(name(499)))).toBe(text(499))
    await expect(see(() => again.map.get(name(300)))).rejects.toThrow(/CHUNK_MISSING/)
    again.shelf.lost.clear()
    again.shelf.chunks.set(
      chunk!,
      again.shelf.chunks.get([...again.shelf.chunks.keys()].find((key) => key !== chunk)!)!,
    )
    await expect(see(() => again.map.get(name(300)))).rejects.toThrow(/CHUNK_DAMAGED/)
  })
})

const pagesOnly = {
  ...settings,
  plan: { layersMax: 8, layersShare: 0.5, layersBytesFree: 65536, pagesOverLayer: Number.POSITIVE_INFINITY },
}
