// The number of rollbacks is unlimited: each rollback leaves an archive that the next one builds on, and a thousand of them are
// read as well as one. Branches from the same point and branches one step further each time are different families.

import { expect, it } from 'vitest'
import { added, counter } from '../support/definitions.ts'
import { onEveryStore } from '../support/worlds.ts'

/** More with REPRISE_ROLLBACKS=1000. */
const count = (kind: string) => Number(process.env.REPRISE_ROLLBACKS ?? { memory: 70, sqlite: 68, postgres: 66 }[kind])

onEveryStore('many rollbacks of one timeline', (world) => {
  it('to the same point, and on from there', async () => {
    const w = await world()
    const rp = await w.engine()
    const first = await rp.open(counter, 'a')
    await first.append(added(1))
    await first.close()
    for (let n = 0; n < count(w.kind); n++) {
      const handle = await rp.open(counter, 'a')
      await handle.append(added(10))
      await handle.close()
      await rp.rollback({ to: { timeline: 'counter/a', seq: 1 } })
    }
    const handle = await rp.open(counter, 'a')
    expect(handle.state.total).toBe(1)
    await handle.append(added(5))
    expect((await rp.verify({ timelines: ['counter/a'] })).faults).toEqual([])
  }, 300_000)

  it('a step further each time: history lies in as many archives', async () => {
    const w = await world()
    const rp = await w.engine()
    const rounds = w.kind === 'postgres' ? 20 : 70
    for (let n = 0; n < rounds; n++) {
      const handle = await rp.open(counter, 'a')
      await handle.append([added(1), added(100)])
      await handle.close()
      await rp.rollback({ to: { timeline: 'counter/a', seq: n + 1 } })
    }
    const handle = await rp.open(counter, 'a')
    expect(handle.state.total).toBe(rounds)
    expect(handle.coordinate.seq).toBe(rounds)
    await rp.fork({ timeline: 'counter/a', seq: rounds }, 'counter/b')
    expect((await rp.open(counter, 'b')).state.total).toBe(rounds)
  }, 300_000)
})
