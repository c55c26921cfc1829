// Saves noise, one save after another, and prints `PUT n` when all chunks of a save are durable and none of it is published yet.
// It pauses then for a moment, so that it can be stopped. `SAVED n id` when the save is acknowledged. One argument, as JSON:
//   where, leaseMs, count, planted (a bug to have)

import { writeSync } from 'node:fs'
import { save } from '../../dist/layers/save/index.js'
import { createEngine } from '../../dist/store.js'
import { hostOf } from '../support/host.mjs'
import { openEngine } from './crash-open.mjs'

const { where, leaseMs, count, planted } = JSON.parse(process.argv[2])
const { kernel } = hostOf(await openEngine(where))
const { store } = kernel
const rp = createEngine({ store, planted: new Set(planted ? [planted] : []) }, { lease: leaseMs, worker: 'saver' })

let n = 0
const commit = store.commit.bind(store)
store.commit = async (commits) => {
  if (commits.some((one) => one.publish?.length)) {
    writeSync(1, `PUT ${n}\n`)
    await new Promise((resolve) => setTimeout(resolve, 300))
  }
  return await commit(commits)
}

const series = await rp.open(save('noise', { keep: 20 }))
for (n = 1; n <= count; n++) {
  let x = n
  const bytes = new Uint8Array(100_000).map(() => {
    x = (Math.imul(x, 1664525) + 1013904223) | 0
    return x >>> 24
  })
  const { id } = await series.put({ n, bytes })
  writeSync(1, `SAVED ${n} ${id}\n`)
}
await rp.close()
