// B3, the oldest failure of a write-ahead log: a page that is stored before the log entries that made it. Here a store delays
// commits while checkpoints are taken, and every arriving chunk and manifest is opened: its content must be durable history by
// then, up to the coordinate of the manifest, and no further.

import { expect, it } from 'vitest'
import { decodeManifest } from '../../src/core/checkpoint/manifest.ts'
import { toHex } from '../../src/core/coordinate.ts'
import type { Commit, Store } from '../../src/core/store/ports.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { entriesOf } from '../../src/engine/history/history.ts'
import { stateIo } from '../../src/engine/snapshot/kernel-io.ts'
import { restoreState } from '../../src/engine/snapshot/restore.ts'
import { aggregate } from '../../src/layers/events/index.ts'
import { pagedTable, table } from '../../src/layers/table/index.ts'
import { randomFrom } from '../programs/crash-model.mjs'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'
import { type Bend, bentEngine, noise, soon } from './support.ts'

/** Every value has a unique name, so that it can be found anywhere in the files. */
const marked = (n: number) => `<mark ${n}>${noise(n, 200)}`
const marksIn = (bytes: Uint8Array) =>
  [
    ...Buffer.from(bytes)
      .toString('latin1')
      .matchAll(/<mark (\d+)>/g),
  ].map((m) => Number(m[1]))

interface Subject {
  readonly name: string
  open(rp: Reprise): Promise<{ write(n: number): Promise<unknown>; checkpoint(): Promise<unknown> }>
}

const retain = { checkpoints: 50, history: 'all' as const }
const log = aggregate('log', {
  initial: () => ({ last: '' }),
  evolve: { noted: (_s, e: { text: string }) => ({ last: e.text }) },
  decide: { note: (_s, c: { text: string }) => ({ type: 'noted', text: c.text }) },
  retain,
})
const subjects: readonly Subject[] = [
  {
    name: 'table',
    async open(rp) {
      const t = await rp.open(table<string>('rows', { checkpoint: {}, retain }))
      return { write: (n) => t.set(`k${n % 40}`, marked(n)), checkpoint: () => t.checkpoint() }
    },
  },
  {
    name: 'paged table',
    async open(rp) {
      const t = await rp.open(pagedTable<string>('rows', { cacheBytes: 4000, changedRows: 10, retain }))
      return { write: (n) => t.set(`k${n % 40}`, marked(n)), checkpoint: () => t.checkpoint() }
    },
  },
  {
    name: 'aggregate',
    async open(rp) {
      const a = await rp.open(log, 'x')
      return { write: (n) => a.do('note', { text: marked(n) }), checkpoint: () => a.checkpoint() }
    },
  },
]

onEveryStore('signature failures', (world) => {
  for (const { name, open } of subjects) {
    it(`B3: page before log: no chunk and no manifest of a ${name} contains data that is not durable history`, async () => {
      const w = await world()
      const random = randomFrom(11)
      const bend: Bend = {}
      const { rp, store } = await bentEngine(w, bend)
      const durable = new Set<number>()
      /** Marks up to each sequence, read from the log: the reference for every checkpoint. */
      const marksAt = new Map<string, readonly number[]>()
      const early: string[] = []
      let published = 0
      const takesIn = (commit: Commit) => {
        if (!commit.run || !commit.guard) return
        const at = `${commit.guard.timeline}@`
        const { timeline } = commit.guard
        const verified = { timeline, run: commit.run, before: new Uint8Array(32), skipTo: 0 }
        const entries = entriesOf(hostOf(rp).kernel, verified)
        const marks = entries.flatMap(({ data }) => marksIn(Buffer.from(textOf(data))))
        const before = marksAt.get(at + (commit.run.first - 1)) ?? []
        for (const n of marks) durable.add(n)
        // Entries of one run become durable together; checkpoints are made between runs here.
        marksAt.set(at + (commit.run.first + commit.run.count - 1), [...before, ...marks])
      }
      bend.blobsPut = async (chunks) => {
        for (const { bytes } of chunks) {
          for (const n of marksIn(hostOf(rp).kernel.sealer.openChunk(bytes)))
            if (!durable.has(n)) early.push(`chunk has ${n}`)
        }
        if (random.chance(0.5)) await soon(random.below(3))
        return await store.blobs.put(chunks)
      }
      bend.commit = async (commits) => {
        for (const { publish = [], guard } of commits) {
          for (const record of publish) {
            published += 1
            const [head] = await store.head([guard!.timeline])
            if (record.seq > head!.seq) early.push(`manifest at ${record.seq}, log at ${head!.seq}`)
            const known = marksAt.get(`${guard!.timeline}@${record.seq}`) ?? []
            const { state } = await restoreState(decodeManifest(record.body), stateIo(hostOf(rp).kernel))
            for (const n of marksIn(Buffer.from(textOf(state)))) {
              if (!known.includes(n)) early.push(`manifest at ${record.seq} has ${n}`)
            }
          }
        }
        if (random.chance(0.7)) await soon(random.below(6))
        const outcomes = await (store as Store).commit(commits)
        commits.forEach((commit, i) => {
          if (outcomes[i]!.ok) takesIn(commit)
        })
        return outcomes
      }
      const subject = await open(rp)
      let n = 0
      const writing = (async () => {
        while (n < 120) {
          // A few at once, so that some are always on their way while a checkpoint is taken.
          await Promise.all(Array.from({ length: 1 + random.below(4) }, () => subject.write(n++)))
        }
      })()
      while (n < 120) {
        await subject.checkpoint()
        await soon(1)
      }
      await writing
      await subject.checkpoint()
      expect(early).toEqual([])
      // The alarm is wired: there were checkpoints while entries were on their way, and all marks were met.
      expect(published).toBeGreaterThan(3)
      expect(durable.size).toBe(n)
      const [timeline] = (await rp.list({})).map((head) => head.timeline)
      const [newest] = await rp.checkpoints(timeline!)
      expect(toHex(newest!.digest)).toBe(toHex((await rp.head(timeline!))!.digest))
    })
  }
})

/** All texts in a restored state, one after another. */
function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  if (typeof value !== 'object' || value === null) return ''
  const parts = Symbol.iterator in value ? [...(value as Iterable<unknown>)] : Object.values(value)
  return parts.map(textOf).join('')
}
