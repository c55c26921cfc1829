// An entry from another level is used only if all of it is unchanged.

import { randomBytes } from 'node:crypto'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Codec } from '../../src/core/codec/codec.ts'
import { defaultLimits } from '../../src/core/limits.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import type { Envelope } from '../../src/layers/memo/entry.ts'
import { command, memo } from '../../src/layers/memo/index.ts'
import { keyOf } from '../../src/layers/memo/key.ts'
import { isOutput } from '../../src/layers/memo/output-rules.ts'
import { readFrame, writeFrame } from '../../src/layers/memo/transfer-format.ts'
import { pause, temporaryFolder } from '../support/fixture.ts'
import { filled, machine, pieces, Shelf, squaring } from './level-support.ts'

describe('entries from a level', () => {
  it('B9: changed, cut off or prolonged, it is a miss, never a wrong answer', async () => {
    const shelf = await filled()
    const [[at, sound]] = [...shelf.kept] as [[string, Buffer]]
    const bent: Buffer[] = [
      sound.subarray(0, sound.length - 1),
      sound.subarray(0, 20),
      Buffer.alloc(0),
      Buffer.concat([sound, Buffer.from('x')]),
      Buffer.from(sound).fill(sound[sound.length - 40]! ^ 1, sound.length - 40, sound.length - 39),
      randomBytes(500),
    ]
    for (const bytes of bent) {
      shelf.kept.set(at, bytes)
      const calls: number[] = []
      const rp = await machine()
      const here = await rp.open(squaring(shelf, calls))
      expect(await here.recall([3])).toMatchObject({ from: 'computed', result: { square: 9 } })
      expect(calls).toEqual([3])
      await here.close()
      expect(rp.codes).toEqual(['MALFORMED'])
      // The good one went over the damaged one.
      expect(shelf.kept.get(at)!.length).toBeGreaterThan(40)
    }
  })

  it('B9: an entry under the key of another is a miss', async () => {
    const shelf = await filled()
    const [bytes] = [...shelf.kept.values()]
    const rp = await machine()
    const here = await rp.open(squaring(shelf))
    await here.call(4)
    await here.close()
    for (const key of shelf.kept.keys()) shelf.kept.set(key, bytes!)
    const other = await (await machine()).open(squaring(shelf))
    expect(await other.recall([4])).toMatchObject({ from: 'computed', result: { square: 16 } })
    await other.close()
  })

  it('B9: a frame whose head names another definition or key is refused, though its parts are the same', async () => {
    const coding = { codec: new Codec(), limits: defaultLimits }
    const key = keyOf(
      { codec: coding.codec, hash: sha256 },
      { name: 'a', version: '1', args: [3], files: null, env: {} },
    )
    const other = keyOf(
      { codec: coding.codec, hash: sha256 },
      { name: 'b', version: '1', args: [3], files: null, env: {} },
    )
    // Parts do not contain the name: two definitions with equal arguments have the same.
    expect([await other.parts(), other.hex === key.hex]).toEqual([await key.parts(), false])
    const outcome = { kind: 'value' as const, value: 9 }
    const envelope: Envelope = { parts: await key.parts(), computedAt: 1, tookMs: 1, by: 'w', for: null, outcome }
    const read = (about: { readonly name: string; readonly key: string }) =>
      readFrame(coding, writeFrame(coding, { ...about, envelope, streamBytes: null }, null), 'a', key)
    expect(await read({ name: 'a', key: key.hex })).toMatchObject({ envelope: { outcome } })
    const another = { code: 'MALFORMED', message: expect.stringContaining('a different entry') }
    await expect(read({ name: 'b', key: key.hex })).rejects.toMatchObject(another)
    await expect(read({ name: 'a', key: other.hex })).rejects.toMatchObject(another)
    await expect(read({ name: 'b', key: other.hex })).rejects.toMatchObject(another)
  })

  it('fills the levels on the way', async () => {
    const [near, far] = [new Shelf('near'), await filled('far')]
    const rp = await machine()
    const here = await rp.open(squaring([near, far]))
    expect(await here.recall([3])).toMatchObject({ from: 'remote', provenance: { origin: { cache: 'far' } } })
    await here.close()
    expect([near.kept, near.asked, far.asked]).toEqual([far.kept, ['get', 'put'], ['get', 'put', 'get']])
    far.kept.clear()
    const there = await (await machine()).open(squaring([near, far]))
    expect(await there.recall([3])).toMatchObject({ from: 'remote', provenance: { origin: { cache: 'near' } } })
    await there.close()
    expect(far.kept.size).toBe(0)
  })

  it('is as old as when it was computed: beyond its time it is no hit', async () => {
    const shelf = await filled()
    const young = await (await machine()).open(squaring(shelf, [], { ttl: '2h' }))
    expect((await young.recall([3])).from).toBe('remote')
    await pause(5)
    const old = await (await machine()).open(squaring(shelf, [], { ttl: 1 }))
    expect((await old.recall([3])).from).toBe('computed')
    await old.close()
  })

  it('failures stay where they happened', async () => {
    const shelf = new Shelf()
    const run = (): never => {
      throw new Error('no')
    }
    const here = await (await machine()).open(memo('fails', { version: 1, errors: '1h', remote: shelf, run }))
    await expect(here.call()).rejects.toThrow('no')
    await here.close()
    expect(shelf.asked).toEqual(['get'])
  })

  it('every bent frame is refused, wherever it is bent', async () => {
    const coding = { codec: new Codec(), limits: defaultLimits }
    const key = keyOf(
      { codec: coding.codec, hash: sha256 },
      { name: 'a', version: '1', args: [], files: null, env: {} },
    )
    const base = { parts: await key.parts(), computedAt: 1, tookMs: 1, by: 'w', for: null }
    const frameOf = async (envelope: Envelope, stream: Buffer | null) => {
      const about = { name: 'a', key: key.hex, envelope, streamBytes: stream?.length ?? null }
      const parts: Uint8Array[] = []
      for await (const part of writeFrame(coding, about, stream && pieces(stream, 7))) parts.push(part)
      return Buffer.concat(parts)
    }
    const read = async (bytes: Buffer) => {
      const { envelope, stream } = await readFrame(coding, pieces(bytes, 11), 'a', key)
      const parts: Uint8Array[] = []
      for await (const part of stream ?? []) parts.push(part)
      return [envelope.outcome, stream && Buffer.concat(parts)]
    }
    const bytes = Buffer.from('some bytes of a stream')
    const sound = [
      [await frameOf({ ...base, outcome: { kind: 'value', value: 1 } }, null), [{ kind: 'value', value: 1 }, null]],
      [await frameOf({ ...base, outcome: { kind: 'bytes' } }, bytes), [{ kind: 'bytes' }, bytes]],
    ] as const
    for (const [frame, content] of sound) expect(await read(frame)).toEqual(content)
    const bend = fc.oneof(
      fc.record({ kind: fc.constant('flip' as const), at: fc.nat(), bit: fc.nat(7) }),
      fc.record({ kind: fc.constant('cut' as const), at: fc.nat(), bit: fc.constant(0) }),
      fc.record({ kind: fc.constant('more' as const), at: fc.nat(40), bit: fc.nat(255) }),
    )
    await fc.assert(
      fc.asyncProperty(fc.nat(1), bend, async (which, { kind, at, bit }) => {
        const frame = Buffer.from(sound[which]![0])
        const place = at % frame.length
        if (kind === 'flip') frame[place] = frame[place]! ^ (1 << bit)
        const bent =
          kind === 'cut'
            ? frame.subarray(0, place)
            : kind === 'more'
              ? Buffer.concat([frame, Buffer.alloc(at + 1, bit)])
              : frame
        await expect(read(bent)).rejects.toMatchObject({ code: 'MALFORMED' })
      }),
      { numRuns: 300 },
    )
  })

  it('an entry that would write beside the declared outputs is no result of the command', async () => {
    expect(['dist/a', 'dist/x/b', 'one.txt'].map((path) => isOutput(['dist/**', 'one.txt'], path))).toEqual([
      true,
      true,
      true,
    ])
    const wrong = ['src/a', '.git/hooks/x', 'dist/.git/x', 'dist', '../dist/a', 'two.txt', 'dist/no.log']
    for (const path of wrong)
      expect([path, isOutput(['dist/**', 'one.txt', '!dist/*.log'], path)]).toEqual([path, false])
    const shelf = new Shelf()
    const folder = temporaryFolder('levels')
    const make = (outputs: readonly string[]) =>
      command('write', {
        cmd: 'mkdir -p dist; echo x > dist/a; echo y > b',
        directory: folder,
        inputs: [],
        outputs,
        clean: true,
        remote: shelf,
      })
    const here = await (await machine()).open(make(['dist/**']))
    expect((await here.run()).from).toBe('computed')
    await here.close()
    // The same key, but the frame names a file that was never declared.
    const [[at, bytes]] = [...shelf.kept] as [[string, Buffer]]
    shelf.kept.set(at, bytes)
    const again = await (await machine()).open(make(['dist/**']))
    expect((await again.run()).from).toBe('remote')
    await again.close()
    const { codec } = { codec: new Codec() }
    const length = bytes.readUInt32BE(7)
    const head = codec.decode(bytes.subarray(11, 11 + length)) as {
      envelope: { outcome: { value: { files: { path: string }[] } } }
    }
    const forged = structuredClone(head)
    forged.envelope.outcome.value.files[0]!.path = 'b'
    const parts: Uint8Array[] = []
    const stream = pieces(bytes.subarray(11 + length, bytes.length - 32))
    for await (const part of writeFrame({ codec, limits: defaultLimits }, forged as never, stream)) parts.push(part)
    shelf.kept.set(at, Buffer.concat(parts))
    const third = await (await machine()).open(make(['dist/**']))
    expect((await third.run()).from).toBe('computed')
    await third.close()
  })

  it('B9: an entry whose files are not those it lists is computed anew, and nothing of it is put in place', async () => {
    const shelf = new Shelf()
    const folder = temporaryFolder('levels')
    const cmd = 'mkdir -p dist; printf true > dist/a; echo run >> runs.log'
    const make = () =>
      command('write', { cmd, directory: folder, inputs: [], outputs: ['dist/**'], clean: true, remote: shelf })
    const here = await (await machine()).open(make())
    await here.run()
    await here.close()
    // A client with write access sends other bytes of the same length, and a sound frame.
    const [[at, bytes]] = [...shelf.kept] as [[string, Buffer]]
    const codec = new Codec()
    const length = bytes.readUInt32BE(7)
    const head = codec.decode(bytes.subarray(11, 11 + length)) as Parameters<typeof writeFrame>[1]
    const parts: Uint8Array[] = []
    const forged = writeFrame({ codec, limits: defaultLimits }, head, pieces(Buffer.from('evil')))
    for await (const part of forged) parts.push(part)
    shelf.kept.set(at, Buffer.concat(parts))
    rmSync(join(folder, 'dist'), { recursive: true })
    const rp = await machine()
    const there = await rp.open(make())
    expect((await there.run()).from).toBe('computed')
    expect(readFileSync(join(folder, 'dist/a'), 'utf8')).toBe('true')
    expect(rp.codes).toContain('CHECKPOINT_DAMAGED')
    await there.close()
    // Its computed result replaced the received one.
    expect((await (await rp.open(make())).run()).from).toBe('store')
    expect(readFileSync(join(folder, 'runs.log'), 'utf8')).toBe('run\nrun\n')
  })
})
