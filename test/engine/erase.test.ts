// Erasing a timeline takes its bytes out of the files: entries, effects, dedupe keys, mail, checkpoints, chunks, archives and
// forks. The files are read as bytes; everything else is as it was.

import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { kinds, listKind } from '../../src/engine/storage/redundancy/keys.ts'
import { type Options, open, timeline } from '../../src/index.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const notes = timeline('notes', {
  initial: () => ({ texts: [] as string[] }),
  apply: (state: { texts: string[] }, entry: { type: 'wrote'; text: string }) => ({
    texts: [...state.texts, entry.text],
  }),
  retain: { checkpoints: 2 },
})

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

function filesWith(folder: string, text: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .filter(({ parentPath, name }) => readFileSync(join(parentPath, name)).includes(text))
    .map(({ name }) => name)
}

/** Random, so that a sealer does not compress it and the files contain it unchanged. */
function secretText(word: string): string {
  let x = 7
  const tail = Array.from({ length: 30_000 }, () => {
    x = Math.imul(x ^ (x >>> 15), 0x2c1b3c6d) + 0x9e3779b9
    return String.fromCharCode(33 + ((x >>> 16) % 90))
  })
  return `${word} ${tail.join('')}`
}

async function fill(options: Options, url: string, folder: string): Promise<void> {
  const rp = await open(url, { housekeeping: false, ...options })
  const [ann, bob] = [await rp.open(notes, 'ann'), await rp.open(notes, 'bob')]
  for (let n = 0; n < 6; n++) {
    await Promise.all([
      ann.append({ type: 'wrote', text: `ann-secret-${n}` }, { key: `ann-key-${n}` }),
      bob.append({ type: 'wrote', text: `bob-says-${n}` }),
    ])
  }
  await ann.append({ type: 'wrote', text: secretText('ann-secret-large') })
  await bob.append({ type: 'wrote', text: secretText('bob-says-large') })
  await ann.effects.run('mail', () => 'ann-secret-result', { input: 'ann-secret-input' })
  await ann.checkpoint()
  await bob.checkpoint()
  await ann.append({ type: 'wrote', text: 'ann-secret-last' })
  await ann.checkpoint()
  await ann.close()
  await rp.send('notes/ann', 'note', { text: 'ann-secret-mail' }, { key: 'm1' })
  await hostOf(rp).forkTimeline({ timeline: 'notes/ann', seq: 4 }, 'notes/fork')
  await rp.rollback({ to: { timeline: 'notes/ann', seq: 5 } })
  expect(filesWith(folder, 'ann-secret')).not.toEqual([])
  const plan = await rp.erase('notes/ann', { forks: true, dryRun: true })
  expect(plan.timelines.map((each) => each.timeline).sort()).toEqual(['notes/ann', 'notes/ann~1', 'notes/fork'])
  await expect(rp.erase('notes/ann')).rejects.toMatchObject({ code: 'PINNED' })
  // Killed after the last timeline went and before the files were looked at.
  const { upkeep } = hostOf(rp).kernel.store
  const { scrub } = upkeep
  upkeep.scrub = () => Promise.reject(new Error('killed'))
  await expect(rp.erase('notes/ann', { forks: true })).rejects.toThrow('killed')
  upkeep.scrub = scrub
  const done = await rp.erase('notes/ann', { forks: true })
  expect(done.remains).toEqual([expect.stringContaining('backups')])
  for (const text of ['ann-secret', 'ann-key']) expect(filesWith(folder, text)).toEqual([])
  expect(filesWith(folder, 'bob-says')).not.toEqual([])
  expect((await rp.verify()).faults).toEqual([])
  expect(bob.state.texts).toHaveLength(7)
  await rp.close()
  // Its id is erased as well: reports about it are removed from the log of the store.
  for (const text of ['ann-secret', 'ann-key', 'notes/ann', 'notes/fork']) expect(filesWith(folder, text)).toEqual([])
  const again = await open(url, { housekeeping: false, ...options })
  expect((await again.open(notes, 'bob')).state.texts).toHaveLength(7)
  expect(await again.head('notes/ann')).toBeNull()
  await again.close()
}

it('A4.5: erased data is in no file of a SQLite store', async () => {
  const folder = temporaryFolder('erase')
  folders.push(folder)
  await fill({}, `sqlite:${join(folder, 'a.db')}`, folder)
})

it('A4.5: nor in a folder of chunks', async () => {
  const folder = temporaryFolder('erase')
  folders.push(folder)
  await fill({ blobs: `file:${join(folder, 'chunks')}` }, `sqlite:${join(folder, 'a.db')}`, folder)
})

onEveryStore('erasing', (world) => {
  it('A4.5: deletes on every store, leaves the others unchanged, and names places where copies may remain', async () => {
    const at = await world()
    const rp = await at.engine()
    const [ann, bob] = [await rp.open(notes, 'ann'), await rp.open(notes, 'bob')]
    for (const handle of [ann, bob]) {
      await handle.append({ type: 'wrote', text: secretText('same for both') })
      await handle.checkpoint()
    }
    await expect(rp.erase('notes/ann')).rejects.toMatchObject({ code: 'OWNED' })
    await ann.close()
    // The dry run reports the same.
    const planned = await rp.erase('notes/ann', { dryRun: true })
    expect(planned.remains.some((where) => where.includes('write-ahead'))).toBe(at.kind !== 'memory')
    const entries = await rp.eraseEntries('notes/ann', { entries: { from: 1, to: 1 }, dryRun: true })
    expect(entries.remains.some((where) => where.includes('write-ahead'))).toBe(at.kind !== 'memory')
    const done = await rp.erase('notes/ann')
    expect(done.timelines.map((each) => each.timeline)).toEqual(['notes/ann'])
    expect(done.remains.some((where) => where.includes('write-ahead'))).toBe(at.kind === 'postgres')
    expect(await rp.head('notes/ann')).toBeNull()
    expect((await rp.verify()).faults).toEqual([])
    expect((await rp.drill()).results.every(({ ok }) => ok)).toBe(true)
    await expect(rp.erase('notes/ann', { dryRun: true })).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })

  it('A4.5: the second copies of its checkpoint lines, which hold its id and small state, go with it', async () => {
    const at = await world()
    const rp = await at.engine()
    const ann = await rp.open(notes, 'ann')
    await ann.append({ type: 'wrote', text: 'ann-secret' })
    await ann.checkpoint()
    await ann.close()
    await hostOf(rp).kernel.redundancy?.tendCatalog(timelineId('notes/ann'), true)
    const store = await at.store()
    const lines = async () => await listKind(store.blobs, kinds.line)
    expect(await lines()).not.toEqual([])
    await rp.erase('notes/ann')
    expect(await lines()).toEqual([])
  })
})
