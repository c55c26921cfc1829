// Appends entries whose older history moves to an object store, collects in between, and prints `ACK n` when entry n is
// durable. One argument, as JSON: { file, at, count }.

import { writeSync } from 'node:fs'
import { open, timeline } from '../../lib/index.js'

const { file, at, count } = JSON.parse(process.argv[2])
const rp = await open(`sqlite:${file}`, { housekeeping: false, lease: '1s', tiers: { cold: { at, history: true } } })
const notes = timeline('notes', {
  initial: () => ({ count: 0 }),
  apply: (state) => ({ count: state.count + 1 }),
  retain: { checkpoints: 2, history: 'tiered' },
})
const written = await rp.open(notes, 'a')
for (let n = 1; n <= count; n++) {
  await written.append({ type: 'noted', n })
  writeSync(1, `ACK ${n}\n`)
  if (n % 5 > 0) continue
  await written.checkpoint()
  await rp.tiers()
  await rp.collect({ graceMs: -60_000 })
}
await rp.close()
