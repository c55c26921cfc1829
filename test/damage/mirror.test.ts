// The mirror of history: entries of every process are in it moments later; it survives a kill in the middle and continues after
// a gap; damaged history is repaired from it; erased, trimmed and deleted data is removed from it.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterEach, describe, expect, inject, it, vi } from 'vitest'
import { type Options, open } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { readMirror } from '../../src/engine/feed/mirror/folder.ts'
import { timeline } from '../../src/index.ts'
import { newFolder, removeFolder } from '../crash/support.ts'
import { dropSchema, newSchemaName, query } from '../support/schema.ts'

const notes = timeline('notes', {
  initial: () => ({ texts: [] as readonly string[] }),
  apply: (state: { readonly texts: readonly string[] }, entry: { readonly type: 'wrote'; readonly text: string }) => ({
    texts: [...state.texts, entry.text],
  }),
})
const quiet = { housekeeping: false } as const

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

function places() {
  const folder = newFolder(true)
  cleanups.push(() => removeFolder(folder))
  const file = join(folder, 'app.db')
  const path = join(folder, 'app.mirror')
  return { file, path, url: `sqlite:${file}`, mirror: `file:${path}` }
}

async function using<T>(url: string, options: Options, work: (rp: Reprise) => Promise<T>): Promise<T> {
  const rp = await open(url, { ...quiet, ...options })
  try {
    return await work(rp)
  } finally {
    await rp.close()
  }
}

async function write(rp: Reprise, id: string, from: number, to: number): Promise<void> {
  const handle = await rp.open(notes, id)
  for (let n = from; n < to; n++) await handle.append({ type: 'wrote', text: `${id}-says-${n};` })
  await handle.close()
}

function damage(file: string, ...words: readonly string[]): void {
  const bytes = readFileSync(file)
  for (const word of words) {
    const at = bytes.indexOf(word)
    expect(at).toBeGreaterThan(0)
    bytes.fill(0x2a, at, at + word.length)
  }
  writeFileSync(file, bytes)
}

const texts = (id: string, count: number) => Array.from({ length: count }, (_, n) => `${id}-says-${n};`)
const mirrored = (path: string, id: string, seq: number) =>
  vi.waitFor(async () => expect((await readMirror(sha256, path)).has(`notes/${id}` as never, seq)).toBe(true), {
    timeout: 120_000,
    interval: 50,
  })
const wordsIn = (path: string, word: string) =>
  readdirSync(path).filter((name) => readFileSync(join(path, name)).includes(word))

async function expectHealed(url: string, id: string, count: number): Promise<void> {
  await using(url, {}, async (rp) => {
    const { ok, healed } = await rp.verify()
    expect({ ok, isPutRight: healed.some((fault) => fault.isPutRight) }).toEqual({ ok: false, isPutRight: false })
    expect(healed[0]).toMatchObject({ timeline: `notes/${id}`, from: expect.stringContaining('mirror') })
    expect(await rp.verify({ repair: true })).toMatchObject({ ok: true, faults: [] })
    expect(await rp.verify()).toMatchObject({ ok: true, faults: [], healed: [], cannotTell: [] })
    expect((await rp.at(notes, id, { seq: count })).state.texts).toEqual(texts(id, count))
  })
}

describe('the mirror of history', () => {
  it('repairs a SQLite store by itself, including entries written without it meanwhile', async () => {
    const { file, path, url, mirror } = places()
    await using(url, { mirror }, async (rp) => {
      await write(rp, 'ann', 0, 10)
      await mirrored(path, 'ann', 10)
    })
    // A gap: this process does not write it.
    await using(url, {}, (rp) => write(rp, 'ann', 10, 20))
    expect((await readMirror(sha256, path)).has('notes/ann' as never, 20)).toBe(false)
    await using(url, { mirror }, (rp) => write(rp, 'ann', 20, 30))
    damage(file, 'ann-says-5;', 'ann-says-6;', 'ann-says-14;', 'ann-says-25;')
    await expectHealed(url, 'ann', 30)
  })

  it('heals a PostgreSQL store', async () => {
    const { path, mirror } = places()
    const schema = newSchemaName()
    const server = inject('postgresUrl')
    const url = `${server}${server.includes('?') ? '&' : '?'}schema=${schema}`
    cleanups.push(() => dropSchema(server, schema))
    await using(url, { mirror }, async (rp) => {
      await write(rp, 'ann', 0, 12)
      await mirrored(path, 'ann', 12)
    })
    const tid = `(SELECT tid FROM ${schema}.timeline WHERE id = 'notes/ann')`
    await query(
      server,
      `UPDATE ${schema}.run SET bytes = set_byte(bytes, 20, 42) WHERE tid = ${tid} AND first IN (5, 6)`,
    )
    await query(server, `DELETE FROM ${schema}.run WHERE tid = ${tid} AND first = 9`)
    await expectHealed(url, 'ann', 12)
  })

  it('survives kills and a record that was never finished, and catches up', async () => {
    const { path, url, mirror, file } = places()
    const index = resolve(import.meta.dirname, '../../dist/index.js')
    const script = `import { open, timeline } from ${JSON.stringify(index)}
      const notes = timeline('notes', { initial: () => 0, apply: (n) => n + 1 })
      const rp = await open(${JSON.stringify(url)}, { mirror: ${JSON.stringify(mirror)}, housekeeping: false, lease: '1s' })
      const handle = await rp.open(notes, 'ann', { takeover: true })
      for (let n = handle.state; ; n++) {
        await handle.append({ type: 'wrote', text: 'ann-says-' + n + ';' })
        console.log(n)
      }`
    let acknowledged = 0
    for (let round = 0; round < 3; round++) {
      const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      const goal = acknowledged + 40
      child.stdout.on('data', (text: Buffer) => {
        acknowledged = Math.max(
          acknowledged,
          ...text
            .toString()
            .trim()
            .split('\n')
            .map((line) => Number(line) + 1),
        )
        if (acknowledged >= goal) child.kill('SIGKILL')
      })
      cleanups.push(() => child.kill('SIGKILL'))
      await once(child, 'exit')
      const last = readdirSync(path).sort().at(-1)
      // As a kill within a write leaves it.
      if (last) appendFileSync(join(path, last), new Uint8Array([255, 0x52, 0x50, 1, 200, 0, 0, 0, 1, 2, 3]))
    }
    const count = await using(url, { mirror }, async (rp) => {
      const head = await rp.head('notes/ann')
      expect(head!.seq).toBeGreaterThanOrEqual(acknowledged)
      await mirrored(path, 'ann', head!.seq)
      expect(await rp.verify()).toMatchObject({ ok: true, healed: [], faults: [] })
      return head!.seq
    })
    damage(file, 'ann-says-3;', `ann-says-${count - 30};`)
    await expectHealed(url, 'ann', count)
  })

  it('drops erased and deleted data, and reports an unreachable copy', async () => {
    const { path, url, mirror } = places()
    await using(url, { mirror }, async (rp) => {
      await write(rp, 'ann', 0, 4)
      await write(rp, 'bob', 0, 4)
      await mirrored(path, 'bob', 4)
    })
    // Deleted by a tool that does not write the mirror: its writer rewrites it.
    await using(url, {}, async (rp) => {
      const { remains } = await rp.erase('notes/ann')
      expect(remains.join()).toContain('mirror')
    })
    expect(wordsIn(path, 'ann-says')).not.toEqual([])
    await using(url, {}, (rp) => write(rp, 'bob', 4, 5))
    await using(url, { mirror }, () => mirrored(path, 'bob', 5))
    expect(wordsIn(path, 'ann-says')).toEqual([])
    expect(wordsIn(path, 'bob-says-3')).not.toEqual([])
    renameSync(path, `${path}-away`)
    await using(url, {}, async (rp) => {
      const { ok, cannotTell } = await rp.verify()
      expect({ ok, what: cannotTell[0]?.what }).toEqual({ ok: false, what: expect.stringContaining(path) })
    })
    // Not made again where its disk is missing.
    await using(url, { mirror }, (rp) => write(rp, 'bob', 5, 6))
    expect(readdirSync(join(path, '..'))).not.toContain('app.mirror')
    await using(url, { mirror: false }, async (rp) =>
      expect(await rp.verify()).toMatchObject({ ok: true, cannotTell: [] }),
    )
  })

  it('is verified, and written anew where it is damaged', async () => {
    const { path, url, mirror } = places()
    await using(url, { mirror }, async (rp) => {
      await write(rp, 'ann', 0, 9)
      await mirrored(path, 'ann', 9)
    })
    damage(join(path, readdirSync(path).sort()[0]!), 'ann-says-3;')
    await using(url, {}, async (rp) => {
      const { ok, healed, faults } = await rp.verify()
      expect({ ok, faults, from: healed.map((fault) => fault.from) }).toEqual({ ok: false, faults: [], from: ['rest'] })
      expect(await rp.verify({ repair: true })).toMatchObject({ ok: true })
      expect(await rp.verify()).toMatchObject({ ok: true, healed: [] })
    })
  })
})
