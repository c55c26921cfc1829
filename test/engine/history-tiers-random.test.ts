// Random lives of timelines whose history moves to a colder place: appends, checkpoints, moves, collections, forks and
// rollbacks at any sequence, deletions, and reopened engines. Afterwards every timeline has exactly the entries of a list in
// memory, and verify finds nothing. Repeat one with HISTORY_SEED=n.

import { join } from 'node:path'
import { beforeEach, expect, it } from 'vitest'
import { open, type Reprise, timeline } from '../../src/index.ts'
import { entriesAfter } from '../../src/operations/history.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { seeded } from '../support/seeded.ts'
import { storeUrls } from '../support/store-urls.ts'

let folder: string
beforeEach(() => {
  folder = temporaryFolder('history')
})

type Noted = { readonly type: 'noted'; readonly n: number }
const notes = timeline('notes', {
  initial: () => ({ seen: [] as readonly number[] }),
  apply: ({ seen }, { n }: Noted) => ({ seen: [...seen, n] }),
  retain: { checkpoints: 2, history: 'tiered' },
})

const chosen = process.env.HISTORY_SEED
const seeds = chosen
  ? [Number(chosen)]
  : Array.from({ length: Number(process.env.HISTORY_SEEDS ?? 3) }, (_, i) => i + 1)

const lives = Object.keys(storeUrls).flatMap((kind) => seeds.map((seed) => ({ kind, seed })))

it.each(lives)(
  'A8.3, A9.1: seed $seed ($kind): nothing of any history is lost, whatever is moved, forked, rolled back and collected',
  async ({ kind, seed }) => {
    const place = storeUrls[kind]!()
    const random = seeded(seed)
    const below = (n: number) => Math.floor(random() * n)
    const start = () =>
      open(place.url, {
        housekeeping: false,
        tiers: { cold: { at: join(folder, `cold-${kind}-${seed}`), history: true } },
      })
    let rp = await start()
    const expected = new Map<string, number[]>([['a', []]])
    let names = 0
    let value = 0
    const told: string[] = []
    for (let step = 0; step < 30; step++) {
      const all = [...expected.keys()]
      const name = all[below(all.length)]!
      const has = expected.get(name)!
      const dice = below(10)
      told.push(`${name} ${dice}`)
      if (dice <= 3) {
        const written = await rp.open(notes, name)
        for (let i = below(8); i >= 0; i--) {
          has.push(++value)
          await written.append({ type: 'noted', n: value })
        }
        await written.checkpoint()
        await written.close()
      } else if (dice <= 5) {
        await rp.tiers()
      } else if (dice === 6) {
        await rp.collect({ graceMs: -60_000 })
      } else if (dice === 7 && has.length > 0) {
        const to = `f${++names}`
        const seq = below(has.length + 1)
        await rp.fork({ timeline: `notes/${name}`, seq }, to)
        expected.set(to, has.slice(0, seq))
      } else if (dice === 8 && has.length > 1) {
        const seq = 1 + below(has.length - 1)
        // A process with the definition has opened it.
        await (await rp.open(notes, name)).close()
        await rp.rollback({ to: { timeline: `notes/${name}`, seq }, consumed: 'force' })
        has.length = seq
      } else if (dice === 9) {
        await rp.close()
        rp = await start()
      }
    }
    for (const [name, has] of expected) {
      const head = await rp.head(`notes/${name}`)
      const found: number[] = []
      if (head)
        for await (const { type, data } of entriesAfter(rp, head, 0))
          if (type !== '$rolled-back') found.push((data as Noted).n)
      expect(found, `${name} after ${told.join(', ')}`).toEqual(has)
      if (!head) continue
      const opened = await rp.open(notes, name)
      expect(opened.state.seen, name).toEqual(has)
      await opened.close()
    }
    expect((await rp.verify()).faults).toEqual([])
    await checkForkOutlives(rp, expected)
    await rp.close()
    await place.remove()
  },
)

/** Deleted one by one, each leaves the others whole. */
async function checkForkOutlives(rp: Reprise, expected: ReadonlyMap<string, number[]>): Promise<void> {
  for (const name of expected.keys()) {
    const isGone = await rp.delete(`notes/${name}`).then(
      () => true,
      () => false,
    )
    if (isGone) await rp.collect({ graceMs: -60_000 })
    expect((await rp.verify()).faults, `after ${name}`).toEqual([])
  }
}
