// Damaged history without a copy is given up by a person: the loss is exact and named, and the rest of the timeline stays: the
// entries before and after it, and its place in the feed. A model that cannot continue without the entries names the remedy.

import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterEach, describe, expect, inject, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { isWrapped } from '../../src/core/history/wrapped-record.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { FeedReader } from '../../src/engine/feed/reader.ts'
import { type Erased, type Options, open, type Reprise, timeline } from '../../src/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { workflowKind } from '../../src/layers/workflow/model.ts'
import { openSqlite } from '../../src/stores/sqlite/index.ts'
import { cli } from '../cli/support.ts'
import { newFolder, removeFolder } from '../crash/support.ts'
import { hostOf } from '../support/host.ts'
import { dropSchema, newSchemaName, query } from '../support/schema.ts'

interface Notes {
  readonly texts: readonly string[]
  readonly lost: readonly number[]
}

const notes = timeline('notes', {
  initial: (): Notes => ({ texts: [], lost: [] }),
  apply: (state: Notes, entry: { readonly type: 'wrote'; readonly text: string }) => ({
    ...state,
    texts: [...state.texts, entry.text],
  }),
  erased: (state: Notes, { seq }: Erased) => ({ ...state, lost: [...state.lost, seq] }),
})
const count = 24
const quiet: Options = { housekeeping: false }
const who = { by: 'ann', reason: 'a lost sector' }

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function using<T>(url: string, work: (rp: Reprise) => Promise<T>, options: Options = quiet): Promise<T> {
  const rp = await open(url, options)
  try {
    hostOf(rp).know(notes)
    return await work(rp)
  } finally {
    await rp.close()
  }
}

async function fill(rp: Reprise): Promise<void> {
  const [ann, bob] = [await rp.open(notes, 'ann'), await rp.open(notes, 'bob')]
  for (let n = 1; n <= count; n++) {
    await Promise.all([
      ann.append({ type: 'wrote', text: `ann-says-${n};` }),
      bob.append({ type: 'wrote', text: `bob-says-${n};` }),
    ])
  }
  await Promise.all([ann.close(), bob.close()])
}

function damage(file: string, seqs: readonly number[]): void {
  const bytes = readFileSync(file)
  for (const seq of seqs) {
    const word = `ann-says-${seq};`
    const at = bytes.indexOf(word)
    expect(at).toBeGreaterThan(0)
    bytes.fill(0x2a, at, at + word.length)
  }
  writeFileSync(file, bytes)
}

async function fed(rp: Reprise): Promise<string[]> {
  const texts: string[] = []
  const reader = new FeedReader(hostOf(rp).kernel, ['notes/'])
  for (let next = '', isEnd = false; !isEnd; ) {
    const page = await reader.page(next)
    for (const { data } of page.entries)
      if ((data as { text?: string }).text) texts.push((data as { text: string }).text)
    ;({ next, isEnd } = page)
  }
  return texts
}

/** Given up as planned; the rest is unchanged, and the timeline continues. */
async function expectGivenUp(url: string, damaged: readonly number[], options: Options = quiet): Promise<number[]> {
  const lost = await using(
    url,
    async (rp) => {
      expect((await rp.verify()).faults.map(({ timeline: id }) => id)).toContain('notes/ann')
      const planned = await rp.giveUp('notes/ann', { ...who, dryRun: true })
      expect(planned).toMatchObject({ isDryRun: true, refusal: null, id: null })
      expect((await rp.verify()).ok).toBe(false)
      const done = await rp.giveUp('notes/ann', who)
      expect(done.lost).toEqual(planned.lost)
      expect(await rp.verify()).toMatchObject({ ok: true, faults: [], healed: [] })
      return done.lost.flatMap(({ from, to }) => Array.from({ length: to - from + 1 }, (_, i) => from + i))
    },
    options,
  )
  expect(lost).toEqual(expect.arrayContaining([...damaged]))
  const kept = Array.from({ length: count }, (_, i) => i + 1).filter((seq) => !lost.includes(seq))
  await using(
    url,
    async (rp) => {
      const ann = await rp.open(notes, 'ann')
      expect(ann.state).toEqual({ texts: kept.map((seq) => `ann-says-${seq};`), lost })
      await ann.append({ type: 'wrote', text: 'more' })
      await ann.close()
      expect((await rp.verify()).ok).toBe(true)
      const all = (await fed(rp)).filter((text) => text.startsWith('ann') || text === 'more')
      expect(all).toEqual([...kept.map((seq) => `ann-says-${seq};`), 'more'])
      const [told] = await rp.log({ kind: 'repair' })
      expect(told?.what).toContain('given up by ann: a lost sector')
    },
    options,
  )
  return lost
}

async function made(options: Options = quiet): Promise<{ readonly file: string; readonly url: string }> {
  const folder = newFolder(true)
  cleanups.push(() => removeFolder(folder))
  const file = join(folder, 'app.db')
  await using(`sqlite:${file}`, fill, options)
  return { file, url: `sqlite:${file}` }
}

describe('damaged history is given up', () => {
  it.each([
    ['neighbours', [20, 21, 22]],
    ['the first, the last, and one between', [1, 18, 24]],
  ])('on SQLite: %s, and no other entry', async (_, seqs) => {
    const { file, url } = await made()
    damage(file, seqs)
    expect(await expectGivenUp(url, seqs)).toEqual(seqs)
  })

  it('on SQLite with encryption: those up to the next known digest as well, and they are named', async () => {
    const keys = { current: 'k', keys: { k: new Uint8Array(32).fill(7) } }
    const options = { ...quiet, keys }
    const { file, url } = await made(options)
    // Named by its place: no part of it can be read.
    const bytes = readFileSync(file)
    const rp = await open(url, options)
    const [run] = await hostOf(rp).kernel.store.read('notes/ann' as never, 16, 1)
    await rp.close()
    const at = bytes.indexOf(run!.bytes)
    expect(at).toBeGreaterThan(0)
    bytes.fill(0x2a, at + run!.bytes.length - 8, at + run!.bytes.length)
    writeFileSync(file, bytes)
    const lost = await expectGivenUp(url, [17], options)
    expect(lost[0]).toBe(17)
    expect(lost.length).toBeLessThanOrEqual(5)
  })

  it('is refused without the key of re-encrypted data, and everything stays for the process that has it', async () => {
    const [old, current] = [new Uint8Array(32).fill(7), new Uint8Array(32).fill(8)]
    const { file, url } = await made({ ...quiet, keys: { current: 'old', keys: { old } } })
    const both = { ...quiet, keys: { current: 'new', keys: { old, new: current } } }
    await using(url, async (rp) => await rp.rekey(), both)
    const stored = await openSqlite(file, { namespace: 'default', hash: sha256 })
    const [run] = await stored.read(timelineId('notes/ann'), 16, 1)
    await stored.close()
    expect(isWrapped(run!.bytes)).toBe(true)
    const legible = await using(
      url,
      async (rp) => await hostOf(rp).kernel.store.upkeep.salvage!.legible(timelineId('notes/ann'), 16),
      both,
    )
    expect(legible.map(({ first, bytes }) => [first, isWrapped(bytes)])).toEqual(
      legible.map(({ first }) => [first, false]),
    )
    const bytes = readFileSync(file)
    const end = bytes.indexOf(run!.bytes) + run!.bytes.length
    bytes.fill(0x2a, end - 8, end)
    writeFileSync(file, bytes)
    await expect(
      using(url, async (rp) => await rp.giveUp('notes/ann', { ...who, dryRun: true })),
    ).rejects.toMatchObject({
      code: 'KEY_MISSING',
    })
  })

  it.each(['damaged', 'missing'])('on PostgreSQL: a run that is %s', async (how) => {
    const server = inject('postgresUrl')
    const schema = newSchemaName()
    cleanups.push(() => dropSchema(server, schema))
    const url = `${server}${server.includes('?') ? '&' : '?'}schema=${schema}`
    await using(url, fill)
    const ofAnn = `tid = (SELECT tid FROM ${schema}.timeline WHERE id = 'notes/ann')`
    if (how === 'missing') await query(server, `DELETE FROM ${schema}.run WHERE first = 17 AND ${ofAnn}`)
    else await query(server, `UPDATE ${schema}.run SET bytes = '\\x2a2a' WHERE first = 17 AND ${ofAnn}`)
    const lost = await expectGivenUp(url, [17])
    // The digest of a missing run is unknown, and no checksum proves that the next one is sound.
    expect(lost).toEqual(how === 'missing' ? [17, 18] : [17])
  })

  it('is refused where nothing is damaged, where a checkpoint has the state, and where the model cannot do without', async () => {
    const { file, url } = await made()
    await using(url, async (rp) => {
      await expect(rp.giveUp('notes/ann', who)).rejects.toMatchObject({ code: 'CONFLICT' })
      await expect(rp.giveUp('notes/ann', { by: '', reason: 'x' })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
      const flow = workflow('flow', async (ctx) => await ctx.step('a', () => 'ann-says-99;'))
      await (await rp.run(flow, { id: 'r' })).result()
      const bob = await rp.open(notes, 'bob')
      await bob.append({ type: 'wrote', text: 'last' })
      await bob.checkpoint()
      await bob.close()
    })
    const bytes = readFileSync(file)
    for (const word of ['bob-says-17;', 'ann-says-99;']) bytes.fill(0x2a, bytes.indexOf(word), bytes.indexOf(word) + 12)
    writeFileSync(file, bytes)
    await using(url, async (rp) => {
      rp.declare(workflowKind)
      const refusals = await Promise.all(
        ['notes/bob', 'workflow/flow/r'].map(async (id) => (await rp.giveUp(id, { ...who, dryRun: true })).refusal),
      )
      expect(refusals[0]).toMatch(/checkpoint above the damage/)
      expect(refusals[1]).toMatch(/reprise fork workflow\/flow\/r@/)
    })
    // Verify does not advise it either.
    const verified = await cli(['verify', 'workflow/flow/r', '--url', url], { cwd: dirname(file) })
    expect(verified.stderr).toMatch(/give-up workflow\/flow\/r is refused: .* reprise fork workflow\/flow\/r@/)
  })

  it('is a command that first lists the loss', async () => {
    const { file, url } = await made()
    damage(file, [9])
    const cwd = dirname(file)
    const module = join(cwd, 'notes.mjs')
    writeFileSync(
      module,
      `import { timeline } from ${JSON.stringify(join(process.cwd(), 'dist/index.js'))}
       export const notes = timeline('notes', { initial: () => [], apply: (state, { text }) => [...state, text] })`,
    )
    const given = ['give-up', 'notes/ann', '--url', url, '--module', module]
    const planned = await cli(given, { cwd })
    expect([planned.code, planned.stdout]).toEqual([0, expect.stringContaining('would be given up: notes/ann@9')])
    const done = await cli([...given, '--by', 'ann', '--reason', 'a lost sector', '--yes'], { cwd })
    expect([done.code, done.stdout]).toEqual([0, expect.stringContaining('given up: notes/ann@9')])
    await using(url, async (rp) => expect((await rp.verify()).ok).toBe(true))
  })
})
