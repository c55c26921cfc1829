import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { keyed } from '../../core/keyed-state/keyed.ts'
import { fingerprint, fingerprintBytes, versionPrint } from './fingerprint.ts'
import { FinishedSet, segmentKeys } from './finished-keys.ts'

const parts = () => ({ finished: keyed<Uint8Array>(), versions: keyed<Uint8Array>() })

describe('the set of finished keys', () => {
  it('answers as a Map from keys to versions does, also after it was loaded from its parts', () => {
    const key = fc.constantFrom(...Array.from({ length: 40 }, (_, i) => `k${i}`))
    const version = fc.constantFrom('', '1', '2')
    fc.assert(
      fc.property(fc.array(fc.tuple(key, version, fc.boolean()), { maxLength: 200 }), (steps) => {
        const held = parts()
        let set = new FinishedSet(held)
        const model = new Map<string, string>()
        for (const [name, given, reload] of steps) {
          set.add(fingerprint(name), given && versionPrint(given))
          model.set(name, given || (model.get(name) ?? ''))
          if (!reload) continue
          set.flush()
          set = new FinishedSet(held)
        }
        for (let i = 0; i < 45; i++) {
          const known = model.get(`k${i}`)
          expect(set.has(fingerprint(`k${i}`), '')).toBe(known !== undefined)
          for (const asked of ['1', '2'])
            expect(set.has(fingerprint(`k${i}`), versionPrint(asked))).toBe(known === asked)
        }
        expect(set.size).toBe(model.size)
      }),
    )
  })

  it('is prepared in slices, and answers earlier queries', async () => {
    const held = parts()
    const first = new FinishedSet(held)
    for (let i = 0; i < 5000; i++) first.add(fingerprint(`k${i}`), '')
    first.flush()
    const set = new FinishedSet(held)
    let breaths = 0
    await set.prepare({
      isDue: true,
      take: async () => {
        breaths += 1
        if (breaths === 2) set.add(fingerprint('another'), '')
      },
    })
    // The call of `add` placed the rest.
    expect(breaths).toBe(2)
    const again = new FinishedSet(held)
    const take = async () => {
      breaths += 1
    }
    await again.prepare({ isDue: true, take })
    expect(breaths).toBe(7)
    for (const name of ['k0', 'k4999']) expect(again.has(fingerprint(name), '')).toBe(true)
    expect([set.size, set.has(fingerprint('another'), '')]).toEqual([5001, true])
  })

  it('grows over many segments and keeps the order', () => {
    const held = parts()
    const set = new FinishedSet(held)
    const count = segmentKeys * 3 + 17
    for (let i = 0; i < count; i++) {
      set.add(fingerprint(`item ${i}`), '')
      if (i % 100 === 0) set.flush()
    }
    set.flush()
    expect(held.finished.size).toBe(4)
    const loaded = new FinishedSet(held)
    expect(loaded.size).toBe(count)
    expect([...loaded.prints()].map(({ print }) => print)).toEqual(
      Array.from({ length: count }, (_, i) => fingerprint(`item ${i}`).slice(0, fingerprintBytes)),
    )
    expect(loaded.has(fingerprint('item x'), '')).toBe(false)
  })

  it('never changes a segment that was published before, so that a checkpoint being written stays true', () => {
    const held = parts()
    const set = new FinishedSet(held)
    set.add(fingerprint('a'), versionPrint('1'))
    set.flush()
    const segment = held.finished.get('00000000')!
    const versions = held.versions.get('00000000')!
    const before = [segment.slice(), versions.slice()]
    for (let i = 0; i < 500; i++) set.add(fingerprint(`b${i}`), versionPrint('2'))
    set.add(fingerprint('a'), versionPrint('3'))
    set.flush()
    expect([segment, versions]).toEqual(before)
    expect(set.has(fingerprint('a'), versionPrint('3'))).toBe(true)
  })

  it('distinguishes keys with half a surrogate pair', () => {
    expect(fingerprint('\ud800')).not.toBe(fingerprint('\ud801'))
    expect(fingerprint('\ud800')).not.toBe(fingerprint('\ufffd'))
  })
})
