// The data of the tests of damage: values of every entity, the answers that a user gets, and the verdict on an answer after a
// byte was damaged.

import type { Reprise } from '../../src/engine/api/reprise.ts'
import { isReprise } from '../../src/index.ts'
import { aggregate, projection } from '../../src/layers/events/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { pagedTable, table } from '../../src/layers/table/index.ts'
import { collect, noise } from './support.ts'

const asked = process.env.REPRISE_ENTITY_FLIPS
export const trials = (otherwise: number) => (asked === undefined ? otherwise : Number(asked))
export const seed = Number(process.env.REPRISE_ENTITY_SEED ?? 1)
export const hours = 24 * 3_600_000

const retain = { checkpoints: 3, history: 'all' as const }
export const kept = table<string>('kept', { checkpoint: {}, retain })
export const pages = pagedTable<string>('pages', { cacheBytes: 2000, changedRows: 6, retain })
export const log = aggregate('log', {
  initial: () => [] as readonly string[],
  evolve: { noted: (s, e: { text: string }) => [...s, e.text].slice(-8) },
  decide: { note: (_s, c: { text: string }) => ({ type: 'noted', text: c.text }) },
})
const lengths = projection('lengths', {
  from: [log],
  initial: () => ({ texts: [] as readonly string[] }),
  on: { noted: (s, e) => ({ texts: [...s.texts, e.text].slice(-6) }) },
})
export const saves = save<{ text: string }>('saves', { keep: 3 })
export const savedAt = [3, 7, 11]

/** The same in every store: some of everything, with checkpoints on the way and history after them. */
export async function fill(rp: Reprise): Promise<void> {
  const [t, p, a, s] = [await rp.open(kept), await rp.open(pages), await rp.open(log, 'x'), await rp.open(saves)]
  const projected = await rp.open(lengths)
  for (let n = 0; n < 14; n++) {
    await t.set(`k${n % 9}`, noise(n, n % 3 ? 10 : 2600))
    await p.set(`k${n % 9}`, noise(n, n % 3 ? 10 : 2600))
    await a.do('note', { text: noise(n, n % 5 ? 8 : 2600) })
    if (!savedAt.includes(n)) continue
    await Promise.all([t.checkpoint(), p.checkpoint(), a.checkpoint()])
    await s.put({ text: noise(n, 2600) })
    await projected.catchUp()
    await projected.checkpoint()
  }
  await projected.close()
}

/** Damage is refused by one of these; anything else that is thrown is a fault of ours, also that there is nothing. */
const names = [
  ...['HISTORY_DAMAGED', 'UNRECOVERABLE', 'MALFORMED', 'NOT_ON_BRANCH', 'STORE_DAMAGED', 'STORE_IO', 'STORE_FOREIGN'],
  ...['STORE_READ_ONLY', 'CHUNK_MISSING', 'CHUNK_DAMAGED', 'CHECKPOINT_DAMAGED', 'INCOMPATIBLE_VERSION'],
]

export type Verdict = 'equal' | 'equal, by another way' | `refused: ${string}` | `WRONG ${string}`

export async function judge(read: () => Promise<{ readonly text: string; readonly skipped: number }>, truth: string) {
  try {
    const { text, skipped } = await read()
    if (text !== truth) return `WRONG answer ${text.slice(0, 80)} for ${truth.slice(0, 80)}` as const
    return skipped > 0 ? 'equal, by another way' : 'equal'
  } catch (error) {
    if (isReprise(error) && names.includes(error.code)) return `refused: ${error.code}` as const
    return `WRONG error ${(error as Error)?.stack ?? error}` as const
  }
}

export function report(what: string, seen: ReadonlyMap<string, number>): void {
  console.log(`${what}: ${JSON.stringify(Object.fromEntries([...seen].sort()))}`)
}

/** As a user reads: opened for writing, from the newest checkpoint on. */
export function readersOf(rp: Reprise): (() => Promise<{ text: string; skipped: number }>)[] {
  const readPages = async () => {
    const p = await rp.open(pages)
    const rows = await collect(p.entries())
    return { text: JSON.stringify(rows), skipped: p.recovery.skipped.length }
  }
  return [
    async () => {
      const t = await rp.open(kept)
      return { text: JSON.stringify([...t.entries()]), skipped: t.recovery.skipped.length }
    },
    async () => {
      try {
        return await readPages()
      } catch (error) {
        if (!isReprise(error, 'CHUNK_DAMAGED', 'CHUNK_MISSING', 'CHECKPOINT_DAMAGED')) throw error
        // The page was damaged: opened again, the table rests on the checkpoint before, or on the log alone.
        return await readPages()
      }
    },
    async () => {
      const a = await rp.open(log, 'x')
      return { text: JSON.stringify(a.state), skipped: a.recovery.skipped.length }
    },
    async () => {
      let damaged = 0
      rp.events.on('checkpoint-damaged', () => (damaged += 1))
      return { text: JSON.stringify(await (await rp.open(lengths)).catchUp()), skipped: damaged }
    },
    async () => {
      const { value, skipped } = await saves.read(rp).latest()
      const texts = savedAt.map((n) => noise(n, 2600)).reverse()
      const text = value.text === texts[skipped.length] ? 'the newest whole one' : value.text
      return { text, skipped: skipped.length }
    },
  ]
}
