import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isReprise } from '../errors.ts'
import {
  type ChunkRef,
  type Content,
  chunksOf,
  decodeManifest,
  decodeRefs,
  decodeSegments,
  encodeManifest,
  encodeRefs,
  encodeSegments,
  type Layer,
  type Manifest,
  type Part,
} from './manifest.ts'

const digest = fc.uint8Array({ minLength: 32, maxLength: 32 })
const count = fc.nat({ max: 2 ** 31 - 1 })
const sealed = fc.uint8Array({ maxLength: 40 })
const name = fc.option(fc.string({ unit: 'binary', maxLength: 6 }))
const ref: fc.Arbitrary<ChunkRef> = fc.record({ digest, bytes: count })
const refs = fc.array(ref, { maxLength: 5 })
const content: fc.Arbitrary<Content> = fc.oneof(
  fc.record({ kind: fc.constant('inline' as const), size: count, sealed }),
  fc.record({ kind: fc.constant('chunks' as const), size: count, level: fc.nat(3), refs }),
)
const layer: fc.Arbitrary<Layer> = fc.record({
  entries: count,
  bytes: count,
  body: fc.oneof(
    fc.record({ kind: fc.constant('inline' as const), sealed }),
    fc.record({ kind: fc.constant('directory' as const), directory: content }),
  ),
})
const part: fc.Arbitrary<Part> = fc.oneof(
  fc.record({ kind: fc.constant('value' as const), name, content }),
  fc.record({ kind: fc.constant('keyed' as const), name, layers: fc.array(layer, { minLength: 1, maxLength: 4 }) }),
)
const manifest: fc.Arbitrary<Manifest> = fc.record({
  timeline: fc.string({ unit: 'grapheme' }),
  seq: count,
  epoch: count,
  digest,
  foldVersion: fc.string(),
  parts: fc.uniqueArray(part, { maxLength: 4, selector: (one) => String(one.name) }),
})

describe('the manifest', () => {
  test('comes back as it was written', () => {
    fc.assert(
      fc.property(manifest, (written) => {
        expect(decodeManifest(encodeManifest(written))).toEqual(written)
      }),
    )
  })

  test('G16: format 1 is these bytes, for good; another one is refused by its number', () => {
    const written: Manifest = {
      timeline: 'a/b',
      seq: 300,
      epoch: 2,
      digest: new Uint8Array(32).fill(7),
      foldVersion: '1',
      parts: [{ kind: 'value', name: null, content: { kind: 'inline', size: 5, sealed: Uint8Array.of(1, 2, 3) } }],
    }
    const body = encodeManifest(written)
    expect(Buffer.from(body).toString('hex')).toBe(
      '0103612f62ac020207070707070707070707070707070707070707070707070707070707070707070131010001050103010203',
    )
    const later = body.slice()
    later[0] = 2
    expect(() => decodeManifest(later)).toThrow(/INCOMPATIBLE_VERSION/)
  })

  test('G7: cut short anywhere, or with something behind it, it is refused', () => {
    fc.assert(
      fc.property(manifest, fc.nat(), (written, at) => {
        const body = encodeManifest(written)
        expect(() => decodeManifest(body.subarray(0, at % body.length))).toThrow(/MALFORMED/)
        expect(() => decodeManifest(Uint8Array.from([...body, 0]))).toThrow(/MALFORMED/)
      }),
    )
  })

  test('G15: any bytes give a manifest or a typed error', () => {
    fc.assert(
      fc.property(manifest, fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 3 }), (written, flips) => {
        const body = encodeManifest(written)
        for (const [at, byte] of flips) body[at % body.length] = byte
        try {
          decodeManifest(body)
        } catch (error) {
          expect(isReprise(error, 'MALFORMED', 'INCOMPATIBLE_VERSION')).toBe(true)
        }
      }),
    )
  })

  test('a format of the future is named as such', () => {
    expect(() => decodeManifest(Uint8Array.of(99))).toThrow(/INCOMPATIBLE_VERSION/)
  })

  test('lists of refs and directories come back as they were written', () => {
    const segment = fc.record({
      first: fc.string({ unit: 'binary' }),
      entries: fc.integer({ min: 1, max: 1000 }),
      refs: fc.array(ref, { minLength: 1, maxLength: 3 }),
    })
    fc.assert(
      fc.property(refs, fc.array(segment), (list, segments) => {
        expect(decodeRefs(encodeRefs(list))).toEqual(list)
        expect(decodeSegments(encodeSegments(segments))).toEqual(segments)
      }),
    )
  })

  test('lists the chunks that it names, and those that name more', () => {
    const one: ChunkRef = { digest: new Uint8Array(32).fill(1), bytes: 5 }
    const two: ChunkRef = { digest: new Uint8Array(32).fill(2), bytes: 6 }
    const inline = { kind: 'inline' as const, size: 1, sealed: Uint8Array.of(1) }
    const chunks = (level: number, held: ChunkRef) => ({ kind: 'chunks' as const, size: 9, level, refs: [held] })
    const parts: Part[] = [
      { kind: 'value', name: null, content: chunks(0, one) },
      { kind: 'value', name: 'b', content: chunks(1, two) },
      {
        kind: 'keyed',
        name: 'c',
        layers: [
          { entries: 1, bytes: 1, body: { kind: 'directory', directory: chunks(0, two) } },
          { entries: 1, bytes: 1, body: { kind: 'directory', directory: inline } },
        ],
      },
    ]
    expect(chunksOf({ parts })).toEqual([
      { ...one, part: null, isDirectory: false },
      { ...two, part: 'b', isDirectory: true },
      { ...two, part: 'c', isDirectory: true },
    ])
  })
})
