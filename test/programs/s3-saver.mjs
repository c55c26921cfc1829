// Saves states whose chunks are in an object store, collects in between, and prints `ACK n` when save n is durable. One
// argument, as JSON: { file, blobs, count }.

import { writeSync } from 'node:fs'
import { open } from '../../lib/index.js'
import { save } from '../../lib/layers/save/index.js'

const { file, blobs, count } = JSON.parse(process.argv[2])
const rp = await open(`sqlite:${file}`, { blobs, housekeeping: false, lease: '1s' })
const states = await rp.open(save('state', { keep: 2 }))
for (let n = 1; n <= count; n++) {
  await states.put({ n, text: Array.from({ length: 3000 }, (_, i) => `${n} ${i * n * 7919}`).join(' ') })
  writeSync(1, `ACK ${n}\n`)
  if (n % 2 === 0) await rp.collect({ graceMs: 0 })
}
await rp.close()
