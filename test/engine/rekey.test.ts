// Everything in a store can be re-encrypted under a new key while an application runs, and the old key can then be discarded:
// no record names it, and history, checkpoints, savepoints, forks, mail, results and exports open without it.

import { spawn } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { type Options, open } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { timeline } from '../../src/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { dropSchema, newSchemaName, query } from '../support/schema.ts'

const oldKey = new Uint8Array(32).fill(1)
const newKey = new Uint8Array(32).fill(2)
/** Ids that nothing else contains. */
const oldId = 'the-old-key-id'
const newId = 'the-new-key-id'
const before = { current: oldId, keys: { [oldId]: oldKey } }
const both = { current: newId, keys: { [oldId]: oldKey, [newId]: newKey } }
const after = { current: newId, keys: { [newId]: newKey } }
const code = (expected: string) => expect.objectContaining({ code: expected })
const secret = 'anna@example.com'

const book = timeline('book', {
  initial: () => ({ total: 0, pad: new Uint8Array(0) }),
  apply: (state, entry: { type: 'added'; by: number }) => ({
    total: state.total + entry.by,
    pad: new Uint8Array(40_000).map((_, i) => (i * 7919 + state.total) % 251),
  }),
})
const stock = table<{ count: number }>('stock')

let folder: string
let schema: string
beforeEach(() => {
  folder = temporaryFolder('rekey')
  schema = newSchemaName()
})
afterEach(async () => {
  await dropSchema(inject('postgresUrl'), schema)
})

const places: readonly (readonly [string, () => { url: string; blobs?: string }])[] = [
  ['sqlite', () => ({ url: `sqlite:${join(folder, 'store.db')}` })],
  [
    'sqlite with a folder',
    () => ({ url: `sqlite:${join(folder, 'store.db')}`, blobs: `file:${join(folder, 'chunks')}` }),
  ],
  [
    'postgres',
    () => {
      const server = new URL(inject('postgresUrl'))
      server.searchParams.set('schema', schema)
      return { url: server.href }
    },
  ],
]

describe.each(places)('on %s', (_name, placeOf) => {
  async function engine(options: Options): Promise<Reprise> {
    const { url, blobs } = placeOf()
    return await open(url, { ...options, ...(blobs && { blobs }), housekeeping: false })
  }

  async function withEngine<T>(options: Options, use: (rp: Reprise) => Promise<T>): Promise<T> {
    const rp = await engine(options)
    try {
      return await use(rp)
    } finally {
      await rp.close()
    }
  }

  /** Plain data, then data under the old key, of every kind that a store has. */
  async function fill(): Promise<void> {
    await withEngine({}, async (rp) => {
      const plain = await rp.open(book, 'plain')
      await plain.append({ type: 'added', by: 1 }, { key: secret })
      await plain.checkpoint()
    })
    await withEngine({ keys: before }, async (rp) => {
      const a = await rp.open(book, 'a')
      for (let n = 0; n < 12; n++) await a.append({ type: 'added', by: 1 }, { key: `${secret}#${n}` })
      await a.checkpoint()
      await rp.savepoint({ timeline: 'book/a', seq: 12 }, { label: 'kept' })
      await rp.fork({ timeline: 'book/a', seq: 5 }, 'book/forked')
      await a.append({ type: 'added', by: 100 })
      await a.close()
      await rp.rollback({ to: { timeline: 'book/a', seq: 12 } })
      await rp.send('book/a', 'note', { secret })
      await rp.send('book/nobody', 'note', { secret })
      const rows = await rp.open(stock)
      for (let n = 0; n < 300; n++) await rows.set(`k${n}`, { count: n })
    })
  }

  async function contents(): Promise<Buffer> {
    const { url } = placeOf()
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name))
    const bytes: Uint8Array[] = files.filter((name) => statSync(name).isFile()).map((name) => readFileSync(name))
    if (url.startsWith('postgres')) {
      for (const [name, column] of [
        ['run', 'bytes'],
        ['manifest', 'body'],
        ['message', 'data'],
        ['chunk', 'bytes'],
      ]) {
        const rows = await query(inject('postgresUrl'), `SELECT ${column} AS b FROM "${schema}".${name}`)
        bytes.push(...rows.map(({ b }) => b as Buffer))
      }
    }
    return Buffer.concat(bytes)
  }

  async function readsAll(rp: Reprise): Promise<void> {
    expect((await rp.open(book, 'plain')).state.total).toBe(1)
    const a = await rp.open(book, 'a')
    expect(a.state.total).toBe(12)
    expect((await rp.at(book, 'a', { seq: 3 })).state.total).toBe(3)
    expect((await rp.open(book, 'forked')).state.total).toBe(5)
    const { messages } = await hostOf(rp).kernel.store.inbox('book/a' as never, 10)
    expect(messages.map((message) => hostOf(rp).openMessage(message))).toEqual([{ secret }])
    const waiting = await hostOf(rp).kernel.store.inbox('book/nobody' as never, 10)
    expect(waiting.messages.map((message) => hostOf(rp).openMessage(message))).toEqual([{ secret }])
    expect(await (await rp.open(stock)).get('k299')).toEqual({ count: 299 })
    // The same key is still known: the entry is not appended again.
    await a.append({ type: 'added', by: 1 }, { key: `${secret}#3` })
    expect(a.state.total).toBe(12)
    const verified = await rp.verify()
    expect([verified.faults, verified.cannotTell]).toEqual([[], []])
    expect((await rp.drill()).ok).toBe(true)
  }

  it('re-encrypts everything under the new key beside an application, and the old key can be retired', async () => {
    await fill()
    const digests = await withEngine({ keys: before }, (rp) =>
      rp.list().then((all) => all.map((h) => [h.timeline, h.digest])),
    )
    const application = await engine({ keys: both })
    const live = await application.open(book, 'live')
    await live.append({ type: 'added', by: 1 })
    const writing = (async () => {
      for (let n = 0; n < 40; n++) await live.append({ type: 'added', by: 1 })
      await live.checkpoint()
    })()
    await withEngine({ keys: both }, async (rp) => {
      const report = await rp.rekey()
      expect(report).toMatchObject({ isDone: true, key: newId, left: {}, retired: [oldId] })
      expect(report.changed.runs).toBeGreaterThan(0)
      expect(report.changed.checkpoints).toBeGreaterThan(0)
      expect(report.changed.messages).toBe(2)
      expect(report.changed.chunks).toBeGreaterThan(0)
      const again = await rp.rekey()
      expect(again.changed).toEqual({ runs: 0, checkpoints: 0, messages: 0, chunks: 0, rows: 0 })
    })
    await writing
    expect(live.state.total).toBe(41)
    await application.close()
    const stored = await contents()
    expect(stored.includes(oldId)).toBe(false)
    expect(stored.includes(newId)).toBe(true)
    expect(stored.includes(secret)).toBe(false)
    await withEngine({ keys: after }, async (rp) => {
      hostOf(rp).register('book/', book.fold as never)
      await readsAll(rp)
      // Nothing that names history has changed.
      const heads = await rp.list()
      for (const [id, digest] of digests) {
        if (String(id).startsWith('book/')) expect(heads.find((head) => head.timeline === id)?.digest).toEqual(digest)
      }
      await rp.export({ timeline: 'book/a', seq: 12 }, join(folder, 'a.reprise'))
    })
    expect(readFileSync(join(folder, 'a.reprise')).includes(oldId)).toBe(false)
    const other = await open('memory:', { keys: after })
    await other.import(join(folder, 'a.reprise'))
    expect((await other.open(book, 'a')).state.total).toBe(12)
    expect((await other.verify()).ok).toBe(true)
    await other.close()
  })

  it('ends at the next page when it is aborted, leaves nothing partial, and resumes when repeated', async () => {
    await fill()
    const controller = new AbortController()
    await withEngine({ keys: both }, async (rp) => {
      let done = 0
      const onProgress = ({ changed }: { changed: number }) => {
        done = changed
        controller.abort()
      }
      await expect(rp.rekey({ signal: controller.signal, onProgress })).rejects.toEqual(code('ABORTED'))
      const [change] = await rp.changes()
      expect(change).toMatchObject({ kind: 'rekey', isRunning: false })
      expect(change!.done).toBeGreaterThanOrEqual(done)
      expect((await rp.verify()).faults).toEqual([])
      expect((await rp.keys()).noted).toContain(oldId)
      const report = await rp.rekey()
      expect(report).toMatchObject({ isDone: true, retired: [oldId] })
      // One page was done before, and is not done again.
      expect(done).toBeGreaterThan(0)
      expect(report.changed.runs).toBeGreaterThan(0)
      expect(report.changed.runs).toBeLessThan(done)
    })
    await withEngine({ keys: after }, async (rp) => expect((await rp.verify()).faults).toEqual([]))
  })

  it('a key does not leave while a live process seals with it', async () => {
    await withEngine({ keys: before }, async (old) => {
      const a = await old.open(book, 'live')
      await a.append({ type: 'added', by: 1 })
      await withEngine({ keys: both }, async (rp) => {
        const report = await rp.rekey()
        expect([report.isDone, report.retired]).toEqual([false, []])
        expect(report.users).toEqual([{ worker: expect.any(String), key: oldId }])
        await a.append({ type: 'added', by: 1 })
      })
    })
    await withEngine({ keys: both }, async (rp) => expect((await rp.rekey()).isDone).toBe(true))
    await withEngine({ keys: after }, async (rp) => expect((await rp.open(book, 'live')).state.total).toBe(2))
  })

  it('names missing keys before it reads, marks nothing and writes no plain text', async () => {
    await fill()
    await withEngine({}, async (rp) => {
      expect(await rp.keys()).toEqual({ current: null, noted: [oldId], lacking: [oldId] })
      const { cannotTell } = await rp.verify()
      expect(cannotTell[0]).toMatchObject({ code: 'KEY_MISSING', what: expect.stringContaining(oldId) })
      await expect(rp.collect()).rejects.toEqual(code('KEY_MISSING'))
      const fresh = await rp.open(book, 'fresh')
      await expect(fresh.append({ type: 'added', by: 1 })).rejects.toEqual(code('KEY_MISSING'))
      await expect(rp.send('book/a', 'note', { secret })).rejects.toEqual(code('KEY_MISSING'))
    })
    // A ring with only a new key would write data that readers with the old key cannot read, and the reverse.
    await expect(withEngine({ keys: after }, async () => {})).rejects.toEqual(code('KEY_MISSING'))
    await withEngine({ keys: both }, async (rp) => {
      await rp.rekey()
      expect(await rp.keys()).toEqual({ current: newId, noted: [newId], lacking: [] })
    })
    // Wrapped records name their key as well.
    await withEngine({}, async (rp) => {
      await expect(rp.open(book, 'a')).rejects.toEqual(code('KEY_MISSING'))
      expect(await rp.checkpoints('book/a')).not.toEqual([])
      expect((await rp.verify()).faults).toEqual([])
      hostOf(rp).register('book/', book.fold as never)
      expect((await rp.drill({ timelines: ['book/a'] })).results.every((result) => result.isUnknown)).toBe(true)
    })
    await withEngine({ keys: after }, async (rp) => {
      hostOf(rp).register('book/', book.fold as never)
      await readsAll(rp)
    })
  })

  it('resumes after kill -9, and a third key replaces the second', async () => {
    await fill()
    await withEngine({ keys: before }, async (rp) => {
      const many = await rp.open(book, 'many')
      for (let n = 0; n < 100; n++) await many.append({ type: 'added', by: 1 })
      await many.checkpoint()
    })
    for (let kill = 0; kill < 3; kill++) await rekeyKilled(placeOf())
    await withEngine({ keys: both }, async (rp) => {
      expect((await rp.rekey()).isDone).toBe(true)
    })
    const third = { current: 'third', keys: { third: new Uint8Array(32).fill(3), [newId]: newKey } }
    await withEngine({ keys: third }, async (rp) => {
      expect(await rp.rekey()).toMatchObject({ isDone: true, retired: [newId] })
    })
    const stored = await contents()
    expect([stored.includes(oldId), stored.includes(newId)]).toEqual([false, false])
    await withEngine({ keys: { current: 'third', keys: { third: new Uint8Array(32).fill(3) } } }, async (rp) => {
      hostOf(rp).register('book/', book.fold as never)
      expect((await rp.open(book, 'many')).state.total).toBe(100)
      await readsAll(rp)
    })
  })
})

/** Ends when it has changed something and was killed. */
function rekeyKilled({ url, blobs }: { url: string; blobs?: string }): Promise<void> {
  const program = `
    import { open } from ${JSON.stringify(new URL('../../dist/index.js', import.meta.url).href)}
    const key = (n) => new Uint8Array(32).fill(n)
    const keys = { current: ${JSON.stringify(newId)}, keys: { ${JSON.stringify(oldId)}: key(1), ${JSON.stringify(newId)}: key(2) } }
    const rp = await open(${JSON.stringify(url)}, { keys, housekeeping: false, ...${JSON.stringify(blobs ? { blobs } : {})} })
    await rp.rekey({ onProgress: ({ changed }) => changed > 0 && process.kill(process.pid, 'SIGKILL') })
  `
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: 'inherit' })
    child.on('error', reject)
    child.on('exit', () => resolve())
  })
}
