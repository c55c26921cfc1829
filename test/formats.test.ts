// A8.7: the documents of docs/formats describe the stored bytes. Each worked example equals the bytes of the code that writes the
// format, and a reader in Python, written from the documents alone, reads the golden stores and an export.

import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { encodeManifest } from '../src/core/checkpoint/manifest.ts'
import { Codec } from '../src/core/codec/codec.ts'
import type { OperationId, TimelineId } from '../src/core/coordinate.ts'
import { originDigest, packEntries } from '../src/core/history/entry-run.ts'
import { encodeSegment } from '../src/core/history/history-segment.ts'
import { contextOf, frameRecord, noPrevious } from '../src/core/shipping/record.ts'
import { Sealer } from '../src/engine/storage/seal/seal.ts'
import { BackupWriter } from '../src/engine/tools/transfer/backup-file.ts'
import { writeTransfer } from '../src/engine/tools/transfer/export-file.ts'
import { open, timeline } from '../src/index.ts'
import { table } from '../src/layers/table/index.ts'
import { RowEncoder } from '../src/stores/sqlite/log/log-row.ts'
import { encodeHead, encodeTail } from '../src/stores/sqlite/rows/head-state.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const scratch = mkdtempSync(join(tmpdir(), 'reprise-formats-'))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

const sha256 = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest())
const codec = new Codec()
const sealer = new Sealer()
const name = 'counter/visits' as TimelineId
const at = Date.UTC(2026, 0, 1)

const origin = originDigest(sha256, name)
const entry = { type: 'added', version: 1, lead: 0 }
const run = packEntries(sha256, { before: origin, first: 1, epoch: 1 }, [
  { ...entry, time: at, data: codec.encode({ by: 2 }) },
  { ...entry, time: at + 5, key: 'k1', data: codec.encode({ by: 3 }) },
])
const chunk = sealer.sealChunk(codec.encode({ shape: 'value', value: { total: 5 } }))
const manifest = {
  ...{ timeline: name, seq: 2, epoch: 1, digest: run.digest, foldVersion: '1' },
  parts: [{ kind: 'value', name: null, content: { kind: 'inline', size: chunk.length - 1, sealed: chunk } }] as const,
}
const draft = { tid: 1, previous: 0, before: origin, run, operation: '' as OperationId }
const head = {
  ...{ seq: 2, life: 1, epoch: 1, digest: run.digest, position: 1, floor: 0, floorDigest: origin },
  ...{ base: null, owner: null, operation: null, updatedAt: at + 5 },
}

function headBytes(): Uint8Array {
  const room = new Uint8Array(512)
  return room.subarray(0, encodeHead(room, 0, 1, head, encodeTail(head)))
}

async function exported(): Promise<Uint8Array> {
  const path = join(scratch, 'visits.rp')
  const header = { timeline: name, seq: 2, epoch: 1, digest: run.digest, floor: 0, floorDigest: origin }
  const frames = async function* () {
    yield { kind: 'header' as const, bytes: codec.encode({ ...header, attributes: {}, exportedAt: at }) }
    yield { kind: 'run' as const, bytes: Buffer.concat([Uint8Array.of(1, 2), run.digest, run.bytes]) }
    yield { kind: 'read' as const, bytes: codec.encode(['m1']) }
  }
  await writeTransfer(path, frames())
  return readFileSync(path)
}

async function backedUp(): Promise<Uint8Array> {
  const path = join(scratch, 'all.rpb')
  const { writer } = await BackupWriter.open(path, async () => true)
  await writer.add({ isEnd: true }, null)
  await writer.close()
  return readFileSync(path)
}

const value = {
  type: 'added',
  by: 2,
  list: [
    { id: 64, ok: true },
    { id: -1, ok: null },
  ],
}
const shipped = Buffer.concat([Uint8Array.of(2), Buffer.from('{}'), Uint8Array.of(0)])
const examples: Readonly<Record<string, () => Uint8Array | Promise<Uint8Array>>> = {
  value: () => codec.encode(value),
  chunk: () => chunk,
  origin: () => origin,
  run: () => run.bytes,
  digest: () => run.digest,
  manifest: () => encodeManifest(manifest),
  row: () => new RowEncoder().encode(1, [draft], null, () => false).slice(),
  head: headBytes,
  export: exported,
  backup: backedUp,
  segment: () =>
    encodeSegment({
      timeline: name,
      from: { seq: 0, digest: origin },
      to: { seq: 2, digest: run.digest },
      runs: [run],
    }),
  ship: () => frameRecord(noPrevious, sealer.sealChecked(shipped, contextOf(1, noPrevious))),
}

describe('A8.7, E8: the documents of stored formats', () => {
  const documented = readdirSync(join(root, 'docs/formats')).flatMap((file) => {
    const text = readFileSync(join(root, 'docs/formats', file), 'utf8')
    return [...text.matchAll(/```hex (\w+)\n([^`]*)```/g)].map(([, id, block]) => ({ id: id!, hex: hexOf(block!) }))
  })

  it('have one worked example for each format', () => {
    expect(documented.map(({ id }) => id).sort()).toEqual(Object.keys(examples).sort())
  })

  it.each(documented)('show the bytes that the code writes: $id', async ({ id, hex }) => {
    expect(hex).toBe(Buffer.from(await examples[id]!()).toString('hex'))
  })
})

/** The hexadecimal digits at the start of each line; a comment follows after two spaces. */
function hexOf(block: string): string {
  return block
    .split('\n')
    .map((line) => line.split('  ')[0]!.replaceAll(' ', ''))
    .join('')
}

const reader = join(root, 'examples/formats/reprise_reader.py')
const hasPython = spawnSync('python3', ['--version']).status === 0
if (!hasPython) console.warn('the reader in Python is left out: there is no python3')

describe.skipIf(!hasPython)('A8.7, E8: a reader in Python, written from the documents', () => {
  const read = (...args: string[]) =>
    execFileSync('python3', [reader, ...args], { encoding: 'utf8' })
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)

  const golden = readdirSync(join(root, 'test/golden')).filter((each) => /^store-\d+$/.test(each))

  it.each(golden)('verifies every timeline of %s, and prints the entries and checkpoint of each', (store) => {
    const path = join(scratch, `${store}.db`)
    copyFileSync(join(root, 'test/golden', store, 'store.db'), path)
    const heads = JSON.parse(readFileSync(join(root, 'test/golden', store, 'heads.json'), 'utf8')) as {
      sqlite: [string, number][]
    }
    expect(read(path).map(({ timeline, seq }) => [timeline, seq])).toEqual(heads.sqlite.map(([id, seq]) => [id, seq]))
    const [first, ...rows] = read(path, 'table/rows')
    expect(first).toMatchObject({ timeline: 'table/rows', seq: 12 })
    expect(rows.filter(({ seq }) => seq !== undefined).map(({ seq }) => seq)).toEqual(
      Array.from({ length: 12 }, (_, i) => i + 1),
    )
    expect(rows.at(-1)).toMatchObject({ checkpoint: 12, state: { rows: { entries: { k10: { i: 1, n: 1 } } } } })
  })

  it.each(golden)('reads the export of %s', (store) => {
    const [first, ...rows] = read(join(root, 'test/golden', store, 'rows.rp'), 'table/rows')
    expect(first).toMatchObject({ timeline: 'table/rows', seq: 12 })
    expect(rows.at(-1)).toMatchObject({ checkpoint: 12, state: { rows: { entries: { k10: { i: 1, n: 1 } } } } })
  })

  it('reads an export of this version', async () => {
    const path = join(scratch, 'now.rp')
    writeFileSync(path, await exported())
    expect(read(path, name)).toMatchObject([{ timeline: name, seq: 2 }, { seq: 1 }, { seq: 2, data: { by: 3 } }])
  })

  it('reads a store of this version: forks, archives, every kind of value, large compressed states', async () => {
    const path = join(scratch, 'now.db')
    const log = timeline('log', {
      initial: () => ({ seen: 0 }),
      apply: (s, _e: { type: string }) => ({ seen: s.seen + 1 }),
    })
    const rp = await open(`sqlite:${path}`)
    try {
      const handle = await rp.open(log, 'a')
      const odd = { big: 2n ** 70n, set: new Set([1]), map: new Map([['k', [undefined, -0]]]), text: 'é'.repeat(900) }
      await handle.append({ type: 'odd', ...odd, error: new TypeError('no'), bytes: Uint8Array.of(1, 2) } as never)
      await handle.append({ type: 'plain', when: new Date(0) } as never)
      await rp.fork({ timeline: 'log/a', seq: 1 }, 'log/b')
      const rows = await rp.open(table<{ text: string }>('wide'))
      await rows.transaction((tx) => {
        for (let i = 0; i < 3000; i++) tx.set(`k${i}`, { text: 'word '.repeat(20) + i })
      })
      await rows.checkpoint()
    } finally {
      await rp.close()
    }
    const entries = read(path, 'log/a')
    expect(entries[1]!.data).toMatchObject({
      big: { $: 'bigint', value: String(2n ** 70n) },
      set: { $: 'Set', members: [1] },
      map: { entries: [['k', [{ $: 'undefined' }, -0]]] },
      text: 'é'.repeat(900),
      error: { $: 'TypeError', message: 'no' },
      bytes: { hex: '0102' },
    })
    expect(read(path).map((line) => line.timeline)).toContain('log/b')
    const state = read(path, 'table/wide').at(-1)!.state as { rows: { entries: Record<string, { text: string }> } }
    expect(Object.keys(state.rows.entries)).toHaveLength(3000)
    expect(state.rows.entries.k2999!.text).toBe('word '.repeat(20) + 2999)
  })

  it('names a flipped bit', () => {
    const bytes = readFileSync(join(root, 'test/golden', golden[0]!, 'rows.rp'))
    bytes[200]! ^= 1
    const path = join(scratch, 'flipped.rp')
    writeFileSync(path, bytes)
    const { status, stderr } = spawnSync('python3', [reader, path], { encoding: 'utf8' })
    expect(status).toBe(1)
    expect(stderr).toContain('digest of the export does not match')
  })
})
