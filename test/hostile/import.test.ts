// G15: export files and recorded histories from any author. Invalid content is refused with a code, within bounds of time and
// memory, and leaves nothing behind; accepted content can be opened.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { encodeManifest, encodeRefs } from '../../src/core/checkpoint/manifest.ts'
import { type Frame, readTransfer, writeTransfer } from '../../src/engine/tools/transfer/export-file.ts'
import { isReprise, open, type Reprise, timeline } from '../../src/index.ts'
import { loadHistory } from '../../src/layers/workflow/tools/export.ts'
import { newFolder, removeFolder } from '../crash/support.ts'
import { hostOf } from '../support/host.ts'

const folder = newFolder(true)
afterAll(() => removeFolder(folder))

const shelf = timeline('shelf', {
  initial: () => ({ texts: [] as string[] }),
  apply: (state, { text }: { type: 'put'; text: string }) => ({ texts: [...state.texts, text] }),
  retain: { checkpoints: 2, history: 'needed' },
})
const noise = (length: number) => Array.from({ length }, () => Math.random().toString(36).slice(2, 8)).join('')

async function exported(rp: Reprise, options = {}): Promise<Frame[]> {
  const handle = await rp.open(shelf, 'a')
  for (let i = 0; i < 4; i++) await handle.append({ type: 'put', text: noise(3000) })
  await handle.checkpoint()
  await handle.append({ type: 'put', text: 'last' })
  await rp.send('shelf/a', 'note', { a: 1 }, { key: 'm' })
  await handle.close()
  const path = join(folder, 'good.reprise')
  await rp.export({ timeline: 'shelf/a', seq: 5 }, path, options)
  const frames: Frame[] = []
  for await (const frame of readTransfer(path)) frames.push(frame)
  return frames
}

async function importing(rp: Reprise, frames: readonly Frame[]): Promise<string> {
  const path = join(folder, 'bad.reprise')
  async function* all() {
    yield* frames
  }
  await writeTransfer(path, all())
  try {
    await rp.import(path, { as: 'shelf/imported' })
    return 'taken'
  } catch (error) {
    if (isReprise(error)) return error.code
    throw error
  }
}

const hostile: readonly unknown[] = [
  ...[undefined, null, 0, -1, 1.5, Number.NaN, 2 ** 60, 'text', '', 'a\0b', true, [], {}, new Uint8Array(3)],
  ...[new Uint8Array(32), new Map(), new Set([1]), new Date(0), 'x'.repeat(100_000), [[[[1]]]], { a: { b: 1 } }],
]

describe('an import of anybody', () => {
  it('whose header, checkpoints or messages hold anything in any field is refused with a code, or opens', async () => {
    const rp = await open('memory:')
    const { codec } = hostOf(rp).kernel
    const frames = await exported(rp)
    const seen = new Map<string, number>()
    for (const [index, { kind, bytes }] of frames.entries()) {
      if (kind === 'run' || kind === 'chunk') continue
      const good = codec.decode(bytes) as Record<string, unknown>
      const values: unknown[] = [...hostile]
      for (const field of Object.keys(good)) {
        for (const value of hostile) values.push({ ...good, [field]: value })
        const { [field]: _, ...without } = good
        values.push(without)
      }
      for (const value of values) {
        if (value === undefined) continue
        const bent = frames.map((frame, i) => (i === index ? { kind, bytes: codec.encode(value) } : frame))
        const outcome = await importing(rp, bent)
        seen.set(outcome, (seen.get(outcome) ?? 0) + 1)
        if (outcome === 'taken') {
          const handle = await rp.open(shelf, 'imported')
          expect(handle.state.texts.at(-1)).toBe('last')
          await handle.close()
          await rp.delete('shelf/imported', { unfinished: true, savepoints: true })
        } else expect(await rp.head('shelf/imported'), outcome).toBeNull()
      }
    }
    expect(seen.get('NOT_A_SAVEPOINT')).toBeGreaterThan(100)
  })

  it('whose manifest names lists of lists ends at once, whatever it promises', async () => {
    const rp = await open('memory:')
    const { codec, hash, sealer } = hostOf(rp).kernel
    const frames = await exported(rp)
    const at = frames.findIndex(({ kind }) => kind === 'checkpoint')
    const record = codec.decode(frames[at]!.bytes) as {
      seq: number
      epoch: number
      digest: Uint8Array
      foldVersion: string
    }
    const chunks: Uint8Array[] = []
    const chunk = (plain: Uint8Array) => {
      const stored = sealer.sealChunk(plain)
      chunks.push(stored)
      return { digest: hash(stored), bytes: stored.length }
    }
    // Each level names the one below 1,000 times: a billion chunks from a few kilobytes.
    let ref = chunk(new Uint8Array(60_000).fill(7))
    for (let level = 0; level < 3; level++) ref = chunk(encodeRefs(Array(1000).fill(ref)))
    for (const size of [60_000, 60_000_000, 60_000 * 1e9, Number.MAX_SAFE_INTEGER]) {
      const part = {
        kind: 'value' as const,
        name: null,
        content: { kind: 'chunks' as const, size, level: 3, refs: [ref] },
      }
      const { seq, digest } = record
      const body = encodeManifest({ ...(await manifestOf(rp)), seq, digest, parts: [part] })
      const bent = { ...record, body, bodyDigest: hash(body) }
      const outcome = await importing(rp, [
        ...frames.slice(0, at),
        ...chunks.map((bytes): Frame => ({ kind: 'chunk', bytes })),
        { kind: 'checkpoint', bytes: codec.encode(bent) },
        ...frames.slice(at + 1),
      ])
      expect(['LIMIT_EXCEEDED', 'CHECKPOINT_DAMAGED']).toContain(outcome)
    }
  })

  it('with a thousand checkpoints is refused before the store is called', async () => {
    const rp = await open('memory:')
    const frames = await exported(rp)
    const at = frames.findIndex(({ kind }) => kind === 'checkpoint')
    const many = Array<Frame>(1000).fill(frames[at]!)
    expect(await importing(rp, [...frames.slice(0, at), ...many, ...frames.slice(at)])).toBe('LIMIT_EXCEEDED')
    expect(await rp.head('shelf/imported')).toBeNull()
  })

  it('that could never be opened is not taken: history that starts late, without a checkpoint', async () => {
    const rp = await open('memory:')
    const frames = await exported(rp, { stateOnly: true })
    expect(await importing(rp, frames)).toBe('taken')
    await rp.delete('shelf/imported', { unfinished: true, savepoints: true })
    const without = frames.filter(({ kind }) => kind !== 'checkpoint')
    expect(await importing(rp, without)).toBe('NOT_A_SAVEPOINT')
    const lacking = frames.filter(({ kind }) => kind !== 'chunk')
    expect(['CHUNK_MISSING', 'taken']).toContain(await importing(rp, lacking))
  })
})

async function manifestOf(rp: Reprise) {
  const { decodeManifest } = await import('../../src/core/checkpoint/manifest.ts')
  const [record] = await rp.checkpoints('shelf/a')
  return decodeManifest(record!.body)
}

describe('a recorded history of anybody', () => {
  it.each([
    ...['', '{', '[]', '1', 'null', '{"format":"reprise-workflow-history/1"}'],
    ...[{}, { timeline: 1 }, { timeline: 'a', entries: [1] }, { timeline: 'a', entries: [{ seq: 2, type: 'x' }] }].map(
      (more) =>
        JSON.stringify({
          format: 'reprise-workflow-history/1',
          entries: [],
          ...more,
          ...('timeline' in more ? {} : {}),
        }),
    ),
  ])('%s is refused with a code', async (text) => {
    const path = join(folder, 'history.json')
    writeFileSync(path, text)
    await expect(loadHistory(path)).rejects.toMatchObject({ code: 'MALFORMED' })
  })
})
