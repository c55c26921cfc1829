// A worker of the soak: executes due work until it is killed, and reports its size on request. node worker.mjs URL [leak]

import { openSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { open } from '../../dist/index.js'
import { again } from './again.mjs'
import { measureSelf } from './measure.mjs'
import { batch, batchEveryMs, grace, housekeeping, order, ticks, totals, trial } from './model.mjs'

const [url, leak] = process.argv.slice(2)
const rp = await again(() => open(url, { housekeeping, grace }))
process.on('disconnect', () => process.exit(0))
process.on('message', ({ measure }) => process.send({ measure, of: measureSelf() }))
rp.events.on('problem', ({ where, error }) =>
  process.send({ problem: `${where}: ${error?.code ?? ''} ${error?.message}` }),
)
rp.work([order, trial, ticks])
if (leak) plant(leak)
await again(() => rp.open(totals))
for (;;) await runBatch(Math.floor(Date.now() / batchEveryMs))

/** The batch of this minute, and then the next. It has an id, so it may be begun again after any failure. */
async function runBatch(n) {
  try {
    const { status, failed } = await rp.run(batch(n)).result()
    process.send({ batch: n, isDone: status === 'completed' && failed === 0, status })
    await pause((n + 1) * batchEveryMs - Date.now())
  } catch (error) {
    process.send({ problem: `batch ${n}: ${error.code} ${error.message}` })
    await pause(1000)
  }
}

/** A planted fault: the verdict must change. */
function plant(kind) {
  const kept = []
  setInterval(() => {
    if (kind === 'memory') kept.push('m'.repeat(100_000) + Math.random(), new Array(10_000).fill(kept.length))
    else if (kind === 'descriptors') kept.push(openSync('/dev/null'))
  }, 1000)
}
