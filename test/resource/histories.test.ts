// Random histories of resources on every store, against a reference; and planted bugs, each of which must be found.
// REPRISE_HISTORIES is the number per store, REPRISE_HISTORY_SEED the first seed. A seed decides the requests and their order;
// the interleaving of several processes is up to the machine.

import { expect, it } from 'vitest'
import { sha256 } from '../../src/engine/base/platform.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { amount } from '../crash/support.ts'
import { onEveryStore } from '../support/worlds.ts'
import { play } from './model/play.ts'

const first = amount('REPRISE_HISTORY_SEED', 1)
const usual: Readonly<Record<string, number>> = { memory: 4, sqlite: 2, postgres: 1 }
const isLoud = process.env.REPRISE_HISTORIES !== undefined

onEveryStore('B10 random histories', (world) => {
  it('C10: are seen by every reader, informer and controller as the reference has them', async () => {
    const { kind } = await world()
    const count = amount('REPRISE_HISTORIES', usual[kind]!)
    const total: Record<string, number> = {}
    for (let seed = first; seed < first + count; seed++) {
      const here = await world()
      const tally = await play({ seed, steps: 60, open: () => here.store() }).catch((error) => {
        throw new Error(`REPRISE_HISTORY_SEED=${seed} REPRISE_HISTORIES=1 (${kind}): ${error.message}`, {
          cause: error,
        })
      })
      for (const [name, value] of Object.entries(tally)) total[name] = (total[name] ?? 0) + value
    }
    if (isLoud) console.log(`${count} histories on ${kind}: ${JSON.stringify(total)}`)
    expect(total.writes).toBeGreaterThan(0)
  }, 600_000)
})

/** With the seed that found it last, which is tried first. */
const plants: Readonly<Record<string, number>> = {
  'too-old-unsaid': 1,
  'record-before-handler': 1,
  'informer-unrecorded': 1,
  'begins-unnoted': 2,
  'bookmark-ahead': 2,
  'gap-after-list': 4,
  'page-of-now': 10,
  'status-of-now': 1,
  'unfenced-status': 1,
  'forget-added-while-running': 3,
  'relist-misses-deletions': 3,
  'finalizers-ignored': 1,
}

it.each(Object.entries(plants))(
  'the planted bug %s is found',
  async (planted, foundAt) => {
    const seeds = Array.from({ length: 80 }, (_, i) => (i === 0 ? foundAt : i))
    for (const seed of seeds) {
      const world = createWorld()
      const open = async () => openMemory({ namespace: 'default', hash: sha256, world })
      const found = await play({ seed, steps: 80, open, planted }).then(
        () => null,
        (error) => error,
      )
      if (isLoud && found) console.log(`${planted}: seed ${seed}: ${found.message}`)
      if (found) return expect(found.constructor.name).toBe('Violation')
    }
    expect.fail('80 histories do not find it')
  },
  600_000,
)
