import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { ioOn, Shelf } from '../../../test/support/shelf.ts'
import { chunksOf, type KeyedPart, type Manifest, type Part } from '../../core/checkpoint/manifest.ts'
import { toHex } from '../../core/coordinate.ts'
import { isReprise, type RepriseError } from '../../core/errors.ts'
import { keyed } from '../../core/keyed-state/keyed.ts'
import { captureState, writeCapture } from './capture.ts'
import { liveChunks, restoreState, verifyChunks } from './restore.ts'

/** Changes one of the chunks when it is read. */
class DamagedShelf extends Shelf {
  damage: { readonly name: string; readonly as: (bytes: Uint8Array) => Uint8Array | null } | null = null

  override find(name: string): Uint8Array | null {
    const bytes = super.find(name)
    return bytes && this.damage?.name === name ? this.damage.as(bytes.slice()) : bytes
  }
}

const shelf = new DamagedShelf()
const io = ioOn(shelf)

let manifest: Pick<Manifest, 'parts'>
let names: string[]

// A checkpoint with every feature: a value long enough for a list of lists, pages, a directory in chunks, layers.
beforeAll(async () => {
  let word = 1
  const random = () => {
    word = Math.imul(word, 1664525) + 1013904223
    return word >>> 4
  }
  const people = keyed(Array.from({ length: 30_000 }, (_, i): [string, unknown] => [`k${i}`, random()]))
  const state = { people, note: Array.from({ length: 150_000 }, random) }
  const first = await writeCapture(captureState(state, null, io), io)
  for (let i = 0; i < 1000; i++) people.set(`k${random() % 30_000}`, random())
  const second = await writeCapture(captureState(state, first.base, io), io)
  people.delete('k7')
  manifest = await writeCapture(captureState(state, second.base, io), io)
  names = (await liveChunks(manifest, io)).map(toHex)
})

describe('restore', () => {
  test('the checkpoint under test has lists, directories and layers', () => {
    const [value, part] = manifest.parts as [Part, KeyedPart]
    expect(value).toMatchObject({ kind: 'value', content: { kind: 'chunks', level: 1 } })
    expect(part.layers.map(({ body }) => body.kind)).toEqual(['directory', 'directory', 'inline'])
    expect(part.layers[0]!.body).toMatchObject({ directory: { kind: 'chunks' } })
  })

  test('A4.5: the chunks that count as live are those that a restore reads, and those the manifest names are among them', async () => {
    shelf.asked = []
    const { bytesRead } = await restoreState(manifest, io)
    expect([...new Set(shelf.asked)].sort()).toEqual([...names].sort())
    expect(bytesRead).toBe(names.reduce((sum, name) => sum + shelf.chunks.get(name)!.length, 0))
    const live = new Set(names)
    for (const { digest } of chunksOf(manifest)) expect(live.has(toHex(digest))).toBe(true)
    expect(await verifyChunks(manifest, io)).toEqual({ chunks: names.length, bytes: bytesRead })
  })

  test('G7: any chunk flipped, cut, swapped or missing is found before it is decoded, and named', async () => {
    const kinds = fc.constantFrom('flip', 'cut', 'longer', 'other', 'missing')
    await fc.assert(
      fc.asyncProperty(fc.nat(), fc.nat(), fc.nat(7), kinds, async (which, at, bit, kind) => {
        const name = names[which % names.length]!
        shelf.damage = { name, as: (bytes) => damaged(kind, bytes, at, bit) }
        try {
          const error = await restoreState(manifest, io).then(
            () => null,
            (thrown: unknown) => thrown,
          )
          const code = kind === 'missing' ? 'CHUNK_MISSING' : 'CHUNK_DAMAGED'
          expect(isReprise(error, code)).toBe(true)
          expect((error as RepriseError).data.digest).toBe(name)
          expect([null, 'people']).toContain((error as RepriseError).data.part)
          await expect(verifyChunks(manifest, io)).rejects.toThrow(code)
        } finally {
          shelf.damage = null
        }
      }),
      { numRuns: 25 },
    )
  })

  test('only the requested chunks are read again', async () => {
    shelf.damage = { name: names[3]!, as: () => null }
    try {
      const sound = names.filter((name) => name !== names[3]).slice(0, 5)
      const digests = sound.map((name) => Uint8Array.from(Buffer.from(name, 'hex')))
      expect((await verifyChunks(manifest, io, digests)).chunks).toBe(5)
      await expect(verifyChunks(manifest, io, [Uint8Array.from(Buffer.from(names[3]!, 'hex'))])).rejects.toThrow(
        'CHUNK_MISSING',
      )
    } finally {
      shelf.damage = null
    }
  })

  test('a manifest whose numbers disagree with its chunks is refused, though every digest is right', async () => {
    const [value, part] = manifest.parts as [Extract<Part, { kind: 'value' }>, KeyedPart]
    const [base, ...layers] = part.layers
    const lies: Part[][] = [
      [{ ...value, content: { ...value.content, size: 1 } }, part],
      [value, { ...part, layers: [{ ...base!, entries: base!.entries - 1 }, ...layers] }],
      [value, { ...part, layers: [base!, { ...layers[0]!, entries: 1 }] }],
      // A layer that deletes cannot be a base.
      [value, { ...part, layers: [layers[1]!] }],
      [part],
      [],
    ]
    for (const parts of lies) await expect(restoreState({ parts }, io)).rejects.toThrow(/CHECKPOINT_DAMAGED/)
    await expect(restoreState({ parts: [value, part] }, io)).resolves.toBeTruthy()
  })
})

function damaged(kind: string, bytes: Uint8Array, at: number, bit: number): Uint8Array | null {
  if (kind === 'missing') return null
  if (kind === 'cut') return bytes.subarray(0, at % bytes.length)
  if (kind === 'longer') return Uint8Array.from([...bytes, bit])
  if (kind === 'other') return shelf.chunks.get(names.find((name) => name !== shelf.damage?.name)!)!
  bytes[at % bytes.length]! ^= 1 << bit
  return bytes
}
