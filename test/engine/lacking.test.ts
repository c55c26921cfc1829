// A tool without the application's folder of chunks, keys, classes or limits cannot check: it marks nothing, and the
// application opens its own healthy timeline as before. A wrong mark is removed.

import { mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import type { ManifestId } from '../../src/core/coordinate.ts'
import { guardOf } from '../../src/core/store/commit-guard.ts'
import { type Options, open, openStore } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { newOperation } from '../../src/engine/storage/kernel.ts'
import { timeline } from '../../src/index.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { dropSchema, newSchemaName } from '../support/schema.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

class Money {
  readonly cents: number
  constructor(cents: number) {
    this.cents = cents
  }
}
const money = {
  name: 'money',
  type: Money,
  encode: (value: Money) => value.cents,
  decode: (cents: unknown) => new Money(cents as number),
}

interface State {
  readonly total: number
  readonly pad: Uint8Array
  readonly money: Money | null
}
/** Too large for its manifest, so that there are chunks; little history is kept, so that they are needed. */
const folding = {
  initial: (): State => ({ total: 0, pad: new Uint8Array(0), money: null }),
  apply: (state: State, entry: { type: 'added'; by: number; money?: Money }): State => ({
    total: state.total + entry.by,
    pad: new Uint8Array(60_000).map((_, i) => (i * 7919 + state.total) % 251),
    money: entry.money ?? state.money,
  }),
}
const book = timeline('book', { ...folding, retain: { checkpoints: 2, history: 'needed' } })

let folder: string
beforeEach(() => {
  folder = temporaryFolder('lacking')
})

describe.each(['sqlite', 'postgres'])('on %s', (kind) => {
  let url: string
  let schema: string
  beforeEach(() => {
    schema = newSchemaName()
    const server = new URL(inject('postgresUrl'))
    server.searchParams.set('schema', schema)
    url = kind === 'sqlite' ? `sqlite:${join(folder, 'store.db')}` : server.href
  })
  afterEach(() => dropSchema(inject('postgresUrl'), schema))

  async function withEngine<T>(options: Options, use: (rp: Reprise) => Promise<T>): Promise<T> {
    const rp = await open(url, options)
    try {
      return await use(rp)
    } finally {
      await rp.close()
    }
  }

  async function fill(options: Options, entry: object = {}): Promise<void> {
    await withEngine(options, async (rp) => {
      const b = await rp.open(book, 'x')
      for (let n = 0; n < 4; n++) {
        await b.append({ type: 'added', by: 1, ...entry })
        await b.checkpoint()
      }
      await rp.collect()
      expect((await rp.head('book/x'))!.floor).toBeGreaterThan(0)
    })
  }

  /** Calls of every tool: each notes nothing, and reports that it cannot check. */
  async function askAll(options: Options): Promise<void> {
    await withEngine(options, async (rp) => {
      hostOf(rp).register('book/', book.fold as never)
      const drilled = await rp.drill({ timelines: ['book/x'] })
      expect(drilled.ok).toBe(false)
      expect(drilled.results.every((result) => result.isUnknown)).toBe(true)
      // It compares bytes with their digests and need not decode them.
      const verified = await rp.verify()
      expect(verified.faults).toEqual([])
      expect(verified.ok).toBe(verified.cannotTell.length === 0)
      await expect(rp.open(book, 'x')).rejects.toThrow()
    })
  }

  async function isUnharmed(options: Options): Promise<void> {
    await withEngine(options, async (rp) => {
      const marks = (await rp.checkpoints('book/x')).map((record) => [record.invalid, record.drilledAt])
      expect(marks.every(([invalid, drilledAt]) => invalid === null && drilledAt === null)).toBe(true)
      expect((await rp.open(book, 'x')).state.total).toBe(4)
    })
  }

  it('a tool without the folder of the chunks, or with another, cannot check and harms nothing', async () => {
    const blobs = `file:${join(folder, 'chunks')}`
    await fill({ blobs })
    await askAll({})
    await withEngine({}, async (rp) => {
      await expect(rp.collect()).rejects.toEqual(code('CHUNKS_ELSEWHERE'))
      expect((await rp.verify()).cannotTell.length).toBeGreaterThan(0)
      // Calls that need no chunk work.
      expect((await rp.head('book/x'))!.seq).toBe(4)
    })
    mkdirSync(join(folder, 'other'))
    await expect(open(url, { blobs: `file:${join(folder, 'other')}` })).rejects.toEqual(code('CHUNKS_ELSEWHERE'))
    await isUnharmed({ blobs })
  })

  it("a folder without its chunks is refused with a remedy, and accepted on a person's decision", async () => {
    const blobs = join(folder, 'chunks')
    const whole = timeline('whole', folding)
    await fill({ blobs })
    await withEngine({ blobs: `file:${blobs}` }, async (rp) => {
      const handle = await rp.open(whole, 'x')
      await handle.append({ type: 'added', by: 5 })
      await handle.checkpoint()
    })
    const [inner] = readdirSync(blobs)
    const aside = join(folder, 'aside')
    renameSync(join(blobs, inner!), aside)
    const refused = async (words: string) => {
      const error = await open(url, { blobs }).catch((thrown) => thrown)
      expect(error).toMatchObject({ code: 'CHUNKS_GONE', message: expect.stringContaining(words) })
      expect(error.message.split(blobs)).toHaveLength(2)
    }
    await refused('there is no such folder')
    mkdirSync(join(blobs, inner!))
    await refused('the folder is empty')
    // Put back, all is well.
    rmSync(join(blobs, inner!), { recursive: true })
    renameSync(aside, join(blobs, inner!))
    await isUnharmed({ blobs })
    rmSync(join(blobs, inner!), { recursive: true })
    await (await openStore(url, { blobs, areChunksLost: true })).close()
    await withEngine({ blobs }, async (rp) => {
      expect((await rp.open(whole, 'x')).state.total).toBe(5)
      await expect(rp.open(book, 'x')).rejects.toEqual(code('UNRECOVERABLE'))
    })
    await expect(openStore(url, { blobs: join(folder, 'other'), areChunksLost: true })).rejects.toEqual(
      code('CHUNKS_ELSEWHERE'),
    )
    await expect(open(url, { blobs: 's3:bucket' })).rejects.toEqual(code('INVALID_ARGUMENT'))
  })

  /** As in an earlier version: neither the store nor the folder records the location of the chunks. */
  async function forgetPlace(options: Options): Promise<void> {
    await withEngine(options, async (rp) => {
      const guard = guardOf((await rp.head('reprise/store'))!)
      const operation = newOperation(hostOf(rp).kernel.random)
      expect(await hostOf(rp).kernel.committer.submit({ operation, guard, forget: true })).toMatchObject({ ok: true })
    })
    for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
      if (/reprise-(chunks|owner)$/.test(file)) rmSync(join(folder, file))
    }
  }

  /** A program, not a tool: it writes, and would put chunks. */
  async function writeNew(options: Options, id: string): Promise<unknown> {
    return await withEngine(options, async (rp) => {
      const b = await rp.open(book, id)
      await b.append({ type: 'added', by: 1 })
      return await b.checkpoint()
    })
  }

  it('a store from before folders were noted: without the folder, or with another, nothing is harmed and nothing noted', async () => {
    const blobs = `file:${join(folder, 'chunks')}`
    await fill({ blobs })
    const other = { blobs: `file:${join(folder, 'others')}`, namespace: 'other' }
    await fill(other, { by: 7 })
    await forgetPlace({ blobs })
    await askAll({})
    const empty = `file:${join(folder, 'empty')}`
    await askAll({ blobs: empty })
    // A chunk that was put elsewhere would take that place for the store's, and the right folder would be refused.
    await expect(writeNew({}, 'y')).rejects.toEqual(code('CHUNKS_ELSEWHERE'))
    await expect(writeNew({ blobs: empty }, 'z')).rejects.toEqual(code('CHUNKS_ELSEWHERE'))
    expect(readdirSync(folder)).not.toContain('empty')
    renameSync(join(folder, 'others/other'), join(folder, 'others/default'))
    await expect(open(url, { blobs: other.blobs })).rejects.toEqual(code('CHUNKS_ELSEWHERE'))
    await isUnharmed({ blobs })
    // The application noted it.
    await expect(open(url, { blobs: empty })).rejects.toEqual(code('CHUNKS_ELSEWHERE'))
  })

  it('a store from before folders were noted, without a chunk, takes the place of its first one', async () => {
    const rows = timeline('rows', { initial: () => 0, apply: (n: number) => n + 1 })
    const some = (rp: Reprise) => rp.open(rows, 'a').append({ type: 'x' })
    await withEngine({}, some)
    await withEngine({ namespace: 'own' }, some)
    const blobs = `file:${join(folder, 'chunks')}`
    await writeNew({ blobs }, 'y')
    await expect(open(url, { blobs: `file:${join(folder, 'empty')}` })).rejects.toEqual(code('CHUNKS_ELSEWHERE'))
    await writeNew({ namespace: 'own' }, 'y')
    await expect(open(url, { blobs, namespace: 'own' })).rejects.toEqual(code('INVALID_ARGUMENT'))
  })

  it.each(['its own chunks', 'a folder'])(
    'two that open a new store in the same moment, with %s: both can write, whoever is first',
    async (where) => {
      const options = where === 'a folder' ? { blobs: `file:${join(folder, 'chunks')}` } : {}
      const [one, other] = [await open(url, options), await open(url, options)]
      await one.open(book, 'first').append({ type: 'added', by: 1 })
      // It finds a timeline and no chunk, as in a store from before places were noted.
      const late = await open(url, options)
      for (const [i, rp] of [one, late, other].entries()) {
        const each = await rp.open(book, `x${i}`)
        await each.append({ type: 'added', by: i })
        await each.checkpoint()
      }
      for (const rp of [one, other, late]) await rp.close()
      await withEngine(options, async (rp) => expect((await rp.verify()).ok).toBe(true))
    },
  )

  it("a backup is complete in a store without the folder, and the store's own notes are not included", async () => {
    const blobs = `file:${join(folder, 'chunks')}`
    await fill({ blobs })
    const file = join(folder, 'all.rpb')
    await withEngine({ blobs }, async (rp) => {
      await rp.backup(file)
      const refused = code('INVALID_ARGUMENT')
      await expect(rp.delete('reprise/store')).rejects.toEqual(refused)
      await expect(rp.move('reprise/store', join(folder, 'moved'))).rejects.toEqual(refused)
      await expect(rp.export({ timeline: 'reprise/store', seq: 0 }, join(folder, 'out'))).rejects.toEqual(refused)
      await expect(rp.fork({ timeline: 'reprise/store', seq: 0 }, 'other')).rejects.toEqual(refused)
    })
    const rp = await open(`sqlite:${join(folder, 'restored.db')}`)
    try {
      await rp.restore(file)
      expect((await rp.verify()).ok).toBe(true)
      expect((await rp.open(book, 'x')).state.total).toBe(4)
    } finally {
      await rp.close()
    }
  })

  it('a store that has chunks of its own is not opened with a folder beside them', async () => {
    await fill({})
    await expect(open(url, { blobs: `file:${join(folder, 'chunks')}` })).rejects.toEqual(code('INVALID_ARGUMENT'))
    await isUnharmed({})
  })

  it('a tool without the keys, the classes or the limits cannot check and harms nothing', async () => {
    const keys = { current: 'k', keys: { k: new Uint8Array(32).fill(7) } }
    await fill({ keys, namespace: 'sealed' })
    await askAll({ namespace: 'sealed' })
    await isUnharmed({ keys, namespace: 'sealed' })
    const classes = [money] as never
    await fill({ classes, namespace: 'classes' }, { money: new Money(5) })
    await askAll({ namespace: 'classes' })
    await isUnharmed({ classes, namespace: 'classes' })
    await fill({ namespace: 'limits' })
    await askAll({ limits: { valueBytes: 1000 }, namespace: 'limits' } as Options)
    await isUnharmed({ namespace: 'limits' })
  })

  it('a mark for unreachable chunks is removed by a drill, and by opening', async () => {
    await fill({})
    const markAll = (rp: Reprise, invalid: string) =>
      rp.head('book/x').then(async (head) => {
        const marks = (await rp.checkpoints('book/x')).map(({ id }) => ({ id: id as ManifestId, invalid }))
        const guard = { timeline: head!.timeline, epoch: head!.epoch }
        await hostOf(rp).kernel.committer.submit({ operation: newOperation(hostOf(rp).kernel.random), guard, marks })
      })
    const invalid = (rp: Reprise) => rp.checkpoints('book/x').then((all) => all.map((record) => record.invalid))
    await withEngine({}, async (rp) => {
      hostOf(rp).register('book/', book.fold as never)
      await markAll(rp, 'chunk 00ff is missing [CHUNK_MISSING]')
      expect((await rp.drill({ timelines: ['book/x'] })).ok).toBe(true)
      expect(await invalid(rp)).toEqual([null, null])
      await markAll(rp, 'chunk 00ff is missing [CHUNK_MISSING]')
    })
    await withEngine({}, async (rp) => {
      expect((await rp.open(book, 'x')).state.total).toBe(4)
      expect((await invalid(rp)).filter((mark) => mark === null)).toHaveLength(1)
    })
    await withEngine({}, async (rp) => {
      // A checkpoint that contradicts history is not trusted again.
      await markAll(rp, 'restored state differs from that of full replay')
      hostOf(rp).register('book/', book.fold as never)
      expect((await rp.drill({ timelines: ['book/x'] })).ok).toBe(false)
      await expect(rp.open(book, 'x')).rejects.toEqual(code('UNRECOVERABLE'))
    })
  })
})
