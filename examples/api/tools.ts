// Examples of `reprise/tools`: functions on a store as a whole, beside the methods of the handle.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { open, timeline } from 'reprise'
import { housekeepingRound, housekeepingState, renewStore, restoreShipped } from 'reprise/tools'
import { example } from './example.ts'

const counter = timeline('counter', {
  initial: () => 0,
  apply: (total: number, entry: { type: 'added'; by: number }) => total + entry.by,
})

export default [
  example(
    ['restoreShipped'],
    async (rp, folder) => {
      await rp.open(counter, 'visits').append({ type: 'added', by: 1 })
      const place = join(folder, 'shipped')
      await rp.ship(place, { once: true })
      // The machine is lost: on another one, everything is restored.
      const { file, lost } = await restoreShipped(place, `sqlite:${join(folder, 'new', 'app.db')}`)
      assert.equal(lost, null)
      const other = await open(`sqlite:${file}`)
      assert.equal((await other.head('counter/visits'))!.seq, 1)
      await other.close()
    },
    'sqlite',
  ),
  example(['renewStore'], async (_, folder) => {
    const url = `sqlite:${join(folder, 'app.db')}`
    const app = await open(url)
    await app.open(counter, 'visits').append({ type: 'added', by: 1 })
    await app.close()
    // For a file that no longer opens: the loss if it were written anew.
    const { lost } = (await renewStore(url, { dryRun: true }))!
    assert.deepEqual(lost, [])
  }),
  example(['housekeepingRound', 'housekeepingState'], async (rp) => {
    const report = await housekeepingRound(rp)
    console.assert(report !== null && (await housekeepingState(rp)) !== null)
  }),
]
