// Damaged history is restored from any sound copy: another store, an export, a backup. A copy is accepted only if it connects
// the history before the damage with the history after it; a copy that diverged is not used.

import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, inject, it } from 'vitest'
import { open } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { FeedReader } from '../../src/engine/feed/reader.ts'
import { timeline } from '../../src/index.ts'
import { cli } from '../cli/support.ts'
import { newFolder, removeFolder } from '../crash/support.ts'
import { hostOf } from '../support/host.ts'
import { dropSchema, newSchemaName, query } from '../support/schema.ts'

const notes = timeline('notes', {
  initial: () => ({ texts: [] as readonly string[] }),
  apply: (state: { readonly texts: readonly string[] }, entry: { readonly type: 'wrote'; readonly text: string }) => ({
    texts: [...state.texts, entry.text],
  }),
})
const quiet = { housekeeping: false } as const
const count = 40
const texts = (id: string) => Array.from({ length: count }, (_, n) => `${id}-says-${n};`)

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

function folder(): string {
  const path = newFolder(true)
  cleanups.push(() => removeFolder(path))
  return path
}

async function using<T>(url: string, work: (rp: Reprise) => Promise<T>): Promise<T> {
  const rp = await open(url, quiet)
  try {
    return await work(rp)
  } finally {
    await rp.close()
  }
}

/** Two timelines; most rows of the log hold a run of each. */
async function fill(rp: Reprise): Promise<void> {
  const [ann, bob] = [await rp.open(notes, 'ann'), await rp.open(notes, 'bob')]
  for (let n = 0; n < count; n++) {
    await Promise.all([
      ann.append({ type: 'wrote', text: `ann-says-${n};` }),
      bob.append({ type: 'wrote', text: `bob-says-${n};` }),
    ])
  }
  await Promise.all([ann.close(), bob.close()])
}

/** On the disk, as a bad sector would. */
function damage(file: string, ...words: readonly string[]): void {
  const bytes = readFileSync(file)
  for (const word of words) {
    const at = bytes.indexOf(word)
    expect(at).toBeGreaterThan(0)
    bytes.fill(0x2a, at, at + word.length)
  }
  writeFileSync(file, bytes)
}

async function expectWhole(rp: Reprise): Promise<void> {
  expect(await rp.verify()).toMatchObject({ ok: true, faults: [], healed: [] })
  for (const id of ['ann', 'bob']) {
    const { state } = await rp.at(notes, id, { seq: count })
    expect(state.texts).toEqual(texts(id))
  }
  const fed: string[] = []
  const reader = new FeedReader(hostOf(rp).kernel, ['notes/'])
  for (let next = '', isEnd = false; !isEnd; ) {
    const page = await reader.page(next)
    for (const { data } of page.entries) fed.push((data as { text: string }).text)
    ;({ next, isEnd } = page)
  }
  expect(fed.sort()).toEqual([...texts('ann'), ...texts('bob')].sort())
}

async function expectHealed(url: string, from: string): Promise<void> {
  await using(url, async (rp) => {
    const before = await rp.verify()
    expect(before.ok).toBe(false)
    expect(before.faults.map(({ timeline: id }) => id)).toContain('notes/ann')
    const { ok, faults, healed } = await rp.verify({ repair: true, from })
    expect({ ok, faults }).toEqual({ ok: true, faults: [] })
    expect(healed.some((fault) => fault.from === from && fault.isPutRight)).toBe(true)
    await expectWhole(rp)
    const ann = await rp.open(notes, 'ann')
    await ann.append({ type: 'wrote', text: 'more' })
    await ann.close()
    expect(await rp.verify()).toMatchObject({ ok: true })
  })
}

describe('damaged history on SQLite', () => {
  async function made() {
    const at = folder()
    const file = join(at, 'app.db')
    const url = `sqlite:${file}`
    await using(url, fill)
    return { at, file, url }
  }

  it.each([
    ['one run', ['ann-says-17;']],
    ['runs next to each other, of both timelines', ['ann-says-20;', 'bob-says-20;', 'ann-says-21;', 'ann-says-22;']],
    ['the first and the last run', ['ann-says-0;', 'bob-says-39;', 'ann-says-39;']],
    ['many', Array.from({ length: 12 }, (_, n) => `ann-says-${3 * n + 1};`)],
  ])('comes back from another store: %s', async (_, words) => {
    const { at, file, url } = await made()
    const copy = join(at, 'copy.db')
    copyFileSync(file, copy)
    damage(file, ...words)
    await expectHealed(url, `sqlite:${copy}`)
  })

  it('comes back from an export and from a backup', async () => {
    for (const make of ['export', 'backup'] as const) {
      const { at, file, url } = await made()
      const kept = join(at, 'kept')
      await using(url, async (rp) => {
        if (make === 'backup') await rp.backup(kept)
        else await rp.export({ timeline: 'notes/ann', seq: count }, kept)
      })
      damage(file, 'ann-says-7;', 'ann-says-8;')
      await expectHealed(url, kept)
    }
  })

  it('below the damage history can be read and forked', async () => {
    const { file, url } = await made()
    damage(file, 'ann-says-17;')
    const { code, stdout, stderr } = await cli(['verify', '--url', url], { cwd: join(file, '..') })
    expect(code).toBe(8)
    for (const hint of ['--repair --from COPY', 'reprise fork notes/ann@SEQ NEW continues from a sequence below 18'])
      expect(stdout + stderr).toContain(hint)
    await using(url, async (rp) => {
      expect((await rp.at(notes, 'ann', { seq: 17 })).state.texts).toEqual(texts('ann').slice(0, 17))
      await expect(rp.at(notes, 'ann', { seq: 18 })).rejects.toMatchObject({ code: 'HISTORY_DAMAGED' })
      await rp.fork({ timeline: 'notes/ann', seq: 17 }, 'notes/again')
      const again = await rp.open(notes, 'again')
      expect(again.state.texts).toHaveLength(17)
      await again.close()
    })
  })

  it('takes nothing from a copy that went another way, or that is from before an erasure', async () => {
    const { at, file, url } = await made()
    const other = join(at, 'other.db')
    copyFileSync(file, other)
    await using(`sqlite:${other}`, async (rp) => {
      await rp.rollback({ to: { timeline: 'notes/ann', seq: 10 } })
      const ann = await rp.open(notes, 'ann')
      for (let n = 10; n < count; n++) await ann.append({ type: 'wrote', text: `ann-also-${n}` })
      await ann.close()
    })
    const older = join(at, 'older.db')
    copyFileSync(file, older)
    await using(url, async (rp) => {
      await (await rp.open(notes, 'bob')).close()
      await rp.eraseEntries('notes/bob', { entries: { from: 5, to: 5 } })
    })
    damage(file, 'ann-says-30;', 'bob-says-30;')
    await using(url, async (rp) => {
      const fromOther = await rp.verify({ repair: true, from: `sqlite:${other}` })
      expect(fromOther.faults.map(({ timeline: id }) => id)).toContain('notes/ann')
      const { faults } = await rp.verify({ repair: true, from: `sqlite:${older}` })
      expect(faults.map(({ timeline: id }) => id)).not.toContain('notes/ann')
      expect(faults.map(({ timeline: id }) => id)).toContain('notes/bob')
    })
  })
})

describe('damaged history on PostgreSQL', () => {
  it('comes back, also where the row is missing', async () => {
    const schema = newSchemaName()
    const server = inject('postgresUrl')
    const url = `${server}${server.includes('?') ? '&' : '?'}schema=${schema}`
    cleanups.push(() => dropSchema(server, schema))
    const kept = join(folder(), 'kept')
    await using(url, async (rp) => {
      await fill(rp)
      await rp.backup(kept)
    })
    const tid = `(SELECT tid FROM ${schema}.timeline WHERE id = 'notes/ann')`
    const run = `${schema}.run`
    await query(server, `UPDATE ${run} SET bytes = set_byte(bytes, 20, 42) WHERE tid = ${tid} AND first IN (5, 6)`)
    await query(server, `DELETE FROM ${run} WHERE tid = ${tid} AND first = 9`)
    await query(server, `UPDATE ${run} SET digest = set_byte(digest, 0, 1) WHERE tid = ${tid} AND first = 12`)
    await expectHealed(url, kept)
  })
})
