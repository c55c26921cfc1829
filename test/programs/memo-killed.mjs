// Requests a cached result in a process of its own, and dies at the given place. usage: memo-killed.mjs STORE LOG WHERE WHERE:
// while it is "computing", once the first of its "chunks" is written, "before" the commit that makes it visible, right "after"
// that, or "never".

import { appendFileSync } from 'node:fs'
import { openStore } from '../../dist/engine/api/open.js'
import { memo } from '../../dist/layers/memo/index.js'
import { createEngine } from '../../dist/store.js'

const [url, log, where] = process.argv.slice(2)
const die = () => process.kill(process.pid, 'SIGKILL')
const forever = () => new Promise(() => undefined)
/** Prints that it has reached the place, and dies on request. */
const dieWhenAsked = async () => {
  console.log('there')
  process.stdin.once('data', die)
  await forever()
}

const store = await openStore(url, {})
const { commit } = store
store.commit = async (commits) => {
  const publishes = commits.some((one) => one.guard.timeline.startsWith('memo/large/') && one.publish?.length > 0)
  if (publishes && where === 'before') await dieWhenAsked()
  const outcomes = await commit.call(store, commits)
  if (publishes && where === 'after') await dieWhenAsked()
  return outcomes
}
const { put } = store.blobs
store.blobs.put = async (...given) => {
  await put.apply(store.blobs, given)
  if (where === 'chunks') await dieWhenAsked()
}
const rp = createEngine({ store }, { housekeeping: false })
const large = memo('large', {
  version: 1,
  async run(n) {
    appendFileSync(log, 'run\n')
    if (where === 'computing') await dieWhenAsked()
    return Array.from({ length: 20_000 }, (_, i) => (i * n * 2654435761) >>> 3)
  },
})
const handle = await rp.open(large)
if (where === 'never') console.log('asked')
const { result, from } = await handle.recall([3])
const isRight = result.length === 20_000 && result.every((each, i) => each === (i * 3 * 2654435761) >>> 3)
console.log(`${from === 'computed' ? 'computed' : 'found'} ${isRight}`)
await rp.close()
