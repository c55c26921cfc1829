// A housekeeper that stops itself (SIGSTOP) between its read of ended runs and the commits that forget them, and continues when
// the test wakes it. It knows no definition. One argument, as JSON:
//   where, isWeak (the planted bug: it forgets any timeline with the name)

import { writeSync } from 'node:fs'
import { guardOf } from '../../dist/core/store/commit-guard.js'
import { forwardStore } from '../../dist/core/store/store-wrapper.js'
import { housekeepingRound } from '../../dist/engine/tools/housekeeping/housekeeping.js'
import { openEngine } from './crash-open.mjs'

const { where, isWeak } = JSON.parse(process.argv[2])
const log = (line) => writeSync(1, `${JSON.stringify(line)}\n`)
let hasStopped = false

const rp = await openEngine(where, { worker: 'housekeeper' }, (store) =>
  forwardStore(store, {
    async commit(commits) {
      if (!hasStopped && commits.some(({ forget }) => forget)) {
        hasStopped = true
        log({ op: 'stops', forgets: commits.filter(({ forget }) => forget).length })
        process.kill(process.pid, 'SIGSTOP')
      }
      return await store.commit(isWeak ? await asFound(store, commits) : commits)
    },
  }),
)
const expire = { ended: { 'workflow/': 50 } }
const round = await housekeepingRound(rp, { every: 1, drill: false, collect: false, expire })
log({ op: 'done', expired: round.expired, kept: round.kept })
await rp.close()

async function asFound(store, commits) {
  return await Promise.all(
    commits.map(async (commit) => {
      const [head] = commit.forget ? await store.head([commit.guard.timeline]) : []
      return head ? { operation: commit.operation, guard: guardOf(head), forget: commit.forget } : commit
    }),
  )
}
