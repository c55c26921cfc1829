// A process on a job with a rate limit. Every start of an item is one line outside the store: the time of the start, by the
// clock of the rate limit, and the key. The clock is the machine's monotonic one, the same for all processes, and frozen
// between two turns of the event loop: the recorded time is exactly the time that the limit used, however busy the machine is.
// node rate-worker.mjs URL NAMESPACE ITEMS SHARDS MAX PER_MS LEDGER

import { openSync, writeSync } from 'node:fs'
import { createEngine, openStore } from '../../dist/engine/api/open.js'
import { systemClock } from '../../dist/engine/base/platform.js'
import { job } from '../../dist/layers/job/index.js'

const [url, namespace, items, shards, max, perMs, ledger] = process.argv.slice(2)
const file = openSync(ledger, 'a')

let now = 0
const look = () => {
  now = Number(process.hrtime.bigint()) / 1e6
}
const turn = (call) => () => {
  look()
  call()
}
look()
setInterval(look, 1).unref()
const clock = {
  ...systemClock,
  elapsed: () => now,
  after: (delayMs, call, isAwaited) => systemClock.after(delayMs, turn(call), isAwaited),
  soon: (call) => systemClock.soon(turn(call)),
}

const limited = job('limited', {
  source: Array.from({ length: Number(items) }, (_, i) => `item-${i}`),
  shards: Number(shards),
  concurrency: 50,
  rate: { max: Number(max), per: Number(perMs) },
  crashesMax: 1000,
  each: (key) => void writeSync(file, `${now} ${process.pid} ${key}\n`),
})

const store = await openStore(url, { namespace })
const engine = createEngine({ store, clock }, { lease: '3s', worker: 'rate' })
await (await engine.run(limited)).result()
await engine.close()
