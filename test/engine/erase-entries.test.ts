// Erasing single entries of a history that continues: their bytes leave the files, the digests of history stay, the state is
// that of the remaining entries, forks and archives are handled together, and no process restores the data from memory.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { isRedacted } from '../../src/core/history/redacted-run.ts'
import { describes, type Model } from '../../src/engine/model/model.ts'
import { type Options, open, timeline } from '../../src/index.ts'
import { aggregate } from '../../src/layers/events/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

type Wrote = { type: 'wrote'; text: string; by?: string }

const notes = timeline('notes', {
  initial: () => ({ texts: [] as string[], gone: [] as string[] }),
  apply: (state, entry: Wrote) => ({ ...state, texts: [...state.texts, entry.text] }),
  erased: (state, { type, seq }) => ({ ...state, gone: [...state.gone, `${type}@${seq}`] }),
  retain: { checkpoints: 5 },
})

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-erase-'))
  folders.push(folder)
  return folder
}

function filesWith(folder: string, text: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .filter(({ parentPath, name }) => readFileSync(join(parentPath, name)).includes(text))
    .map(({ name }) => name)
}

/** Random, so that the files contain it uncompressed, and long enough for a chunk. */
function longText(word: string): string {
  let x = 7
  const tail = Array.from({ length: 30_000 }, () => {
    x = Math.imul(x ^ (x >>> 15), 0x2c1b3c6d) + 0x9e3779b9
    return String.fromCharCode(33 + ((x >>> 16) % 90))
  })
  return `${word} ${tail.join('')}`
}

async function inFiles(url: string, folder: string, options: Options): Promise<void> {
  const rp = await open(url, { housekeeping: false, ...options })
  const ann = await rp.open(notes, 'ann')
  for (let n = 1; n <= 9; n++) {
    const text = n === 4 ? longText('ann-secret-large') : n === 5 ? 'ann-secret-small' : `kept-${n}`
    await ann.append({ type: 'wrote', text, by: n === 4 || n === 5 ? 'ann' : 'bob' }, { key: `key-${n}-of-ann` })
    if (n % 3 === 0) await ann.checkpoint()
  }
  await ann.effects.run('mail', () => 'ann-secret-result', { input: 'ann-secret-input' })
  await ann.checkpoint()
  await ann.close()
  await hostOf(rp).forkTimeline({ timeline: 'notes/ann', seq: 7 }, 'notes/fork')
  await rp.rollback({ to: { timeline: 'notes/ann', seq: 8 } })
  const before = await rp.head('notes/ann')
  expect(filesWith(folder, 'ann-secret')).not.toEqual([])

  const plan = await rp.eraseEntries('notes/ann', { where: { fields: { by: 'ann' } }, dryRun: true })
  expect(plan.refusals).toEqual([])
  expect(plan.entries).toEqual([{ timeline: 'notes/ann~1', seqs: [4, 5] }])
  expect(plan.timelines.map((each) => [each.timeline, each.from]).sort()).toEqual([
    ['notes/ann', 4],
    ['notes/ann~1', 4],
    ['notes/fork', 4],
  ])
  expect(filesWith(folder, 'ann-secret')).not.toEqual([])

  // Killed at the last step.
  const { upkeep } = hostOf(rp).kernel.store
  const { scrub } = upkeep
  upkeep.scrub = () => Promise.reject(new Error('killed'))
  await expect(rp.eraseEntries('notes/ann', { where: { fields: { by: 'ann' } } })).rejects.toThrow('killed')
  upkeep.scrub = scrub
  const done = await rp.eraseEntries('notes/ann', { where: { fields: { by: 'ann' } } })
  expect(done.remains.join()).toContain('backups')
  expect((await rp.eraseEntries('notes/ann~1', { where: { type: '$effect.intended' } })).types).toEqual({
    '$effect.intended': 1,
  })
  await rp.eraseEntries('notes/ann~1', { where: { type: '$effect.done' } })
  for (const text of ['ann-secret', 'key-4-of-ann', 'key-5-of-ann']) expect(filesWith(folder, text)).toEqual([])
  expect(filesWith(folder, 'kept-7')).not.toEqual([])

  expect((await rp.head('notes/ann'))!.digest).toEqual(before!.digest)
  expect((await rp.verify()).faults).toEqual([])
  expect((await rp.drill()).ok).toBe(true)
  const effects = await rp.effectsOf('notes/ann~1')
  expect(effects.map(({ name, outcome, input, result }) => [name, outcome, input, result])).toEqual([
    ['mail', 'done', undefined, undefined],
  ])
  const again = await rp.open(notes, 'ann')
  expect(again.state.texts).toEqual([1, 2, 3, 6, 7, 8].map((n) => `kept-${n}`))
  expect(again.state.gone).toEqual(['wrote@4', 'wrote@5'])
  // An applied change stays applied.
  await again.append({ type: 'wrote', text: 'twice' }, { key: 'key-5-of-ann' })
  expect(again.state.texts).not.toContain('twice')
  await again.append({ type: 'wrote', text: 'goes on' })
  await again.checkpoint()
  await again.close()
  await rp.close()
  for (const text of ['ann-secret', 'key-4-of-ann']) expect(filesWith(folder, text)).toEqual([])
}

it('erased entries are in no file of a SQLite store: runs, checkpoints, chunks, archives, forks', async () => {
  const folder = newFolder()
  await inFiles(`sqlite:${join(folder, 'a.db')}`, folder, {})
})

it('nor in a folder of chunks, nor in what protects them', async () => {
  const folder = newFolder()
  const options = { blobs: `file:${join(folder, 'chunks')}`, redundancy: true }
  await inFiles(`sqlite:${join(folder, 'a.db')}`, folder, options)
})

it('erases data sealed with a key, and a rekey continues after it', async () => {
  const folder = newFolder()
  const url = `sqlite:${join(folder, 'a.db')}`
  const keys = { old: new Uint8Array(32).fill(1), new: new Uint8Array(32).fill(2) }
  const first = await open(url, { housekeeping: false, keys: { current: 'old', keys } })
  const ann = await first.open(notes, 'ann')
  await ann.append([1, 2, 3, 4].map((n) => ({ type: 'wrote', text: `text-${n}` })))
  await ann.append({ type: 'wrote', text: 'last' })
  await ann.close()
  await first.eraseEntries('notes/ann', { entries: { from: 2, to: 2 } })
  await first.close()
  const rp = await open(url, { housekeeping: false, keys: { current: 'new', keys } })
  expect((await rp.rekey()).isDone).toBe(true)
  rp.declare(notes[describes] as Model)
  await rp.eraseEntries('notes/ann', { entries: { from: 3, to: 3 } })
  expect((await rp.verify()).faults).toEqual([])
  const again = await rp.open(notes, 'ann')
  expect(again.state.texts).toEqual(['text-1', 'text-4', 'last'])
  await rp.close()
})

onEveryStore('erasing entries', (world) => {
  async function filled() {
    const at = await world()
    const rp = await at.engine()
    const ann = await rp.open(notes, 'ann')
    await ann.append([1, 2, 3].map((n) => ({ type: 'wrote', text: `text-${n}` })))
    for (let n = 4; n <= 8; n++) await ann.append({ type: 'wrote', text: `text-${n}` })
    await ann.checkpoint()
    await ann.close()
    return { at, rp }
  }

  it('keeps digests and places, inside a run too, and forks in the middle of it still join', async () => {
    const { rp } = await filled()
    const before = (await rp.head('notes/ann'))!
    await hostOf(rp).forkTimeline({ timeline: 'notes/ann', seq: 2 }, 'notes/fork')
    const done = await rp.eraseEntries('notes/ann', { entries: { from: 2, to: 5 } })
    expect(done.entries).toEqual([{ timeline: 'notes/ann', seqs: [2, 3, 4, 5] }])
    const after = (await rp.head('notes/ann'))!
    expect([after.seq, after.digest]).toEqual([before.seq, before.digest])
    expect((await rp.verify()).faults).toEqual([])
    const [ann, fork] = [await rp.open(notes, 'ann'), await rp.open(notes, 'fork')]
    expect(ann.state.texts).toEqual(['text-1', 'text-6', 'text-7', 'text-8'])
    expect(fork.state).toEqual({ texts: ['text-1'], gone: ['wrote@2'] })
    await Promise.all([ann.close(), fork.close()])
    expect(await again(rp)).toBe(4)
    await rp.rollback({ to: { timeline: 'notes/ann', seq: 4 } })
    expect((await rp.open(notes, 'ann')).state.texts).toEqual(['text-1'])
    expect((await rp.drill()).ok).toBe(true)
  })

  async function again(rp: Awaited<ReturnType<typeof filled>>['rp']): Promise<number> {
    const plan = await rp.eraseEntries('notes/ann', { entries: { from: 2, to: 5 }, dryRun: true })
    expect(plan.entries).toEqual([])
    return plan.already
  }

  it('a run that only claims to be erased is damage', async () => {
    const { at, rp } = await filled()
    await rp.eraseEntries('notes/ann', { entries: { from: 4, to: 4 } })
    const store = await at.store()
    const runs = await store.read(timelineId('notes/ann'), 0, 1e6)
    const erased = runs.find(({ bytes }) => isRedacted(bytes))!
    const forged = { ...erased, bytes: new Uint8Array(erased.bytes) }
    forged.bytes[forged.bytes.length - 3]! ^= 1
    await store.upkeep.replace(timelineId('notes/ann'), [forged])
    expect((await rp.verify()).faults.map(({ code, seq }) => [code, seq])).toEqual([['HISTORY_DAMAGED', 4]])
  })

  it('refuses: owned, savepoints, trimmed, unknown, a fold that cannot do without it', async () => {
    const { rp } = await filled()
    const strict = timeline('strict', {
      initial: () => ({ begun: false }),
      apply: (state: { begun: boolean }, entry: { type: 'begin' | 'go' }) => {
        if (entry.type === 'go' && !state.begun) throw new Error('not begun')
        return { begun: true }
      },
    })
    const one = await rp.open(strict, 'x')
    await one.append({ type: 'begin' })
    await one.append({ type: 'go' })
    const range = { entries: { from: 1, to: 1 } }
    await expect(rp.eraseEntries('strict/x', range)).rejects.toMatchObject({ code: 'OWNED' })
    await one.close()
    await expect(rp.eraseEntries('strict/x', range)).rejects.toMatchObject({ code: 'FOLD_FAILED' })
    await rp.savepoint({ timeline: 'notes/ann', seq: 8 }, { label: 'kept' })
    await expect(rp.eraseEntries('notes/ann', range)).rejects.toMatchObject({ code: 'PINNED' })
    await expect(rp.eraseEntries('notes/ann', {})).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await expect(rp.eraseEntries('reprise/store', range)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await rp.eraseEntries('notes/ann', { ...range, savepoints: true })
    expect((await rp.checkpoints('notes/ann')).filter(({ seq }) => seq >= 1)).toEqual([])
  })

  const person = aggregate('person', {
    initial: () => ({ names: [] as string[] }),
    evolve: {
      named: (state: { names: string[] }, event: { name: string }) => ({ names: [...state.names, event.name] }),
    },
    decide: {
      name: (_state: { names: string[] }, command: { name: string }) => ({ type: 'named', name: command.name }),
    },
  })

  it('a second replica does not restore it from memory', async () => {
    const at = await world()
    const [one, two, tool] = [await at.engine(), await at.engine(), await at.engine()]
    tool.declare(person[describes] as Model)
    const [a, b] = [await one.open(person, 'p'), await two.open(person, 'p')]
    await a.do('name', { name: 'secret-name' })
    await b.do('name', { name: 'other' })
    expect(b.state.names).toEqual(['secret-name', 'other'])
    const done = await tool.eraseEntries('events/person/p', { where: { fields: { name: 'secret-name' } } })
    expect(done.entries).toEqual([{ timeline: 'events/person/p', seqs: [1] }])
    await a.do('name', { name: 'third' })
    await a.checkpoint()
    await b.do('name', { name: 'fourth' })
    await b.checkpoint()
    expect(a.state.names).toEqual(['other', 'third'])
    expect(b.state.names).toEqual(['other', 'third', 'fourth'])
    const fresh = await (await at.engine()).open(person, 'p')
    expect(fresh.state.names).toEqual(['other', 'third', 'fourth'])
  })

  it('killed at any step, it is repeated and ends', async () => {
    for (const step of ['replace', 'commit', 'collect'] as const) {
      const { at, rp } = await filled()
      // A vacuum of its tables takes a while.
      if (at.kind === 'postgres' && step !== 'replace') continue
      const { store } = hostOf(rp).kernel
      const old = { commit: store.commit, sweepMark: store.sweepMark }
      const { replace } = store.upkeep
      let commits = 0
      // Its second commit is the one that drops checkpoints.
      if (step === 'commit') {
        store.commit = (batch) => (++commits > 1 ? Promise.reject(new Error('killed')) : old.commit(batch))
      } else if (step === 'replace') store.upkeep.replace = () => Promise.reject(new Error('killed'))
      else store.sweepMark = () => Promise.reject(new Error('killed'))
      await expect(rp.eraseEntries('notes/ann', { entries: { from: 3, to: 6 } })).rejects.toThrow()
      Object.assign(store, old)
      store.upkeep.replace = replace
      await rp.close().catch(() => undefined)
      const next = await at.engine()
      // Another process appends before the repetition.
      const ann = await next.open(notes, 'ann', { takeover: true })
      await ann.append({ type: 'wrote', text: 'between' })
      await ann.checkpoint()
      await ann.close()
      await next.eraseEntries('notes/ann', { entries: { from: 3, to: 6 } })
      expect((await next.verify()).faults).toEqual([])
      const catalog = await next.checkpoints('notes/ann')
      const last = await next.open(notes, 'ann')
      expect(last.state.texts).toEqual(['text-1', 'text-2', 'text-7', 'text-8', 'between'])
      await last.close()
      expect((await next.drill()).ok, `${step} ${catalog.length}`).toBe(true)
      await next.close()
    }
  })

  it('an export carries it, and the imported history verifies', async () => {
    const { at, rp } = await filled()
    await rp.eraseEntries('notes/ann', { entries: { from: 2, to: 2 } })
    const file = join(newFolder(), 'ann.reprise')
    await rp.export({ timeline: 'notes/ann', seq: 8 }, file)
    const other = await at.engine({ namespace: 'other' })
    await other.import(file)
    expect((await other.verify()).faults).toEqual([])
    expect((await other.open(notes, 'ann')).state.gone).toEqual(['wrote@2'])
  })
})
