import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { seeded } from '../../../test/support/seeded.ts'
import { ioOn, Shelf } from '../../../test/support/shelf.ts'
import type { ChunkSizes } from '../../core/checkpoint/chunking.ts'
import { decodeManifest, encodeManifest, type Part } from '../../core/checkpoint/manifest.ts'
import { toHex } from '../../core/coordinate.ts'
import { ChunkOutput } from '../snapshot/chunk-output.ts'
import { liveChunks } from '../snapshot/restore.ts'
import { GrowingStream, StreamReader, type StreamSnapshot } from './growing-stream.ts'

/** Many chunks of few bytes, so that lists of lists are made. */
const tiny: ChunkSizes = { minBytes: 8, averageBytes: 16, maxBytes: 64 }

function noise(seed: number, length: number): Uint8Array {
  const chance = seeded(seed)
  return Uint8Array.from({ length }, () => chance() * 256)
}

async function publish(stream: GrowingStream, output: ChunkOutput): Promise<StreamSnapshot> {
  const snapshot = stream.snapshot(output)
  await output.finish()
  const { parts } = decodeManifest(
    encodeManifest({
      ...{ timeline: 't', seq: 1, epoch: 1, digest: new Uint8Array(32), foldVersion: '1' },
      ...snapshot,
    }),
  )
  return { ...snapshot, parts }
}

async function bytesOf(parts: readonly Part[], shelf: Shelf, from?: number, to?: number): Promise<Buffer> {
  const reader = new StreamReader(parts, ioOn(shelf))
  const pieces: Uint8Array[] = []
  for await (const piece of reader.read(from ?? 0, to ?? reader.size)) pieces.push(piece)
  return Buffer.concat(pieces)
}

describe('a stream that grows', () => {
  test('is cut the same wherever it was interrupted, and can be read from any byte', async () => {
    const sizes = fc.array(fc.nat({ max: 900 }), { minLength: 1, maxLength: 12 })
    await fc.assert(
      fc.asyncProperty(
        fc.nat(),
        sizes,
        fc.array(fc.nat({ max: 6000 }), { maxLength: 6 }),
        async (seed, pieces, places) => {
          const shelf = new Shelf()
          const io = ioOn(shelf)
          const whole = noise(
            seed,
            pieces.reduce((sum, each) => sum + each, 0),
          )
          let stream = GrowingStream.empty(tiny)
          let last = await publish(stream, new ChunkOutput(io))
          let at = 0
          for (const size of pieces) {
            const output = new ChunkOutput(io)
            await stream.append(whole.subarray(at, at + size), output)
            at += size
            last = await publish(stream, output)
            // As after a crash: only published data is known.
            stream = await GrowingStream.resume(last.parts, last.cut, io, tiny)
            expect(stream.size).toBe(at)
          }
          expect(await bytesOf(last.parts, shelf)).toEqual(Buffer.from(whole))
          for (const from of places) {
            for (const to of places) {
              const [a, b] = [Math.min(from, whole.length), Math.min(to, whole.length)]
              expect(await bytesOf(last.parts, shelf, a, b)).toEqual(Buffer.from(whole.subarray(a, Math.max(a, b))))
            }
          }
          const straight = GrowingStream.empty(tiny)
          const output = new ChunkOutput(io)
          await straight.append(whole, output)
          expect((await publish(straight, output)).parts).toEqual(last.parts)
        },
      ),
      { numRuns: 40 },
    )
  })

  test('has lists of lists when it is long, and every chunk of it is found by a collector', async () => {
    const shelf = new Shelf()
    const io = ioOn(shelf)
    // Two chunks, named over and over: this tests the lists.
    const output = new ChunkOutput(io)
    const plain = [noise(1, 8192), noise(2, 6000)]
    const refs = plain.map((each) => output.add(each))
    let stream = GrowingStream.empty()
    let last = await publish(stream, output)
    for (let count = 0; count < 36_000; count++) {
      const which = count % 3 === 0 ? 1 : 0
      stream.join(refs[which]!, plain[which]!.length, output)
      if (count % 5000 !== 4999 && count !== 35_999) continue
      last = await publish(stream, output)
      stream = await GrowingStream.resume(last.parts, last.cut, io)
    }
    const { parts, cut } = last
    expect(cut.chunks).toBe(36_000)
    expect(parts.map((part) => part.kind === 'stream' && part.content.kind === 'chunks' && part.content.level)).toEqual(
      [2, 1],
    )
    // Chunks that only earlier publications named are garbage, and nothing else needs them.
    const live = new Set((await liveChunks({ parts }, io)).map(toHex))
    for (const name of [...shelf.chunks.keys()]) if (!live.has(name)) shelf.chunks.delete(name)
    let at = 0
    for await (const { ref, size } of new StreamReader(parts, io).chunks()) {
      const which = at++ % 3 === 0 ? 1 : 0
      if (size !== plain[which]!.length || toHex(ref.digest) !== toHex(refs[which]!.digest)) expect.fail(`chunk ${at}`)
    }
    expect(at).toBe(36_000)
    const third = plain[1]!.length + 2 * plain[0]!.length
    for (const round of [0, 341, 342, 5000, 11_999]) {
      const read = await bytesOf(parts, shelf, round * third + 5990, round * third + 6010)
      expect(read).toEqual(Buffer.concat([plain[1]!.subarray(5990), plain[0]!.subarray(0, 10)]))
    }
  })

  test('is made of the chunks of others without a look at their bytes', async () => {
    const shelf = new Shelf()
    const io = ioOn(shelf)
    const wholes = [noise(1, 5000), noise(2, 3), noise(3, 0), noise(4, 9000)]
    const output = new ChunkOutput(io)
    const joined = GrowingStream.empty(tiny)
    for (const whole of wholes) {
      const one = GrowingStream.empty(tiny)
      const own = new ChunkOutput(io)
      await one.append(whole, own)
      const { parts } = await publish(one, own)
      await joined.cutHere(output)
      const reader = new StreamReader(parts, io)
      if (reader.count === 0) for await (const piece of reader.read(0, reader.size)) await joined.append(piece, output)
      for await (const { ref, size } of reader.chunks()) joined.join(ref, size, output)
    }
    const { parts } = await publish(joined, output)
    expect(await bytesOf(parts, shelf)).toEqual(Buffer.concat(wholes))
  })
})
