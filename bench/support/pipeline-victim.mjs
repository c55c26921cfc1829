// A keyed count that is killed from outside: it prints FULL when a checkpoint has every key, STARTED when records flow, and
// FIRST when its first new result is visible, that is, in a published checkpoint. node pipeline-victim.mjs '{"url":
// "sqlite:file.db", "keys": 1000000}'

import { open } from '../../dist/index.js'
import { collectSink, count, generatedSource, pipeline } from '../../dist/layers/pipeline/index.js'

const { url, keys } = JSON.parse(process.argv[2])
const out = collectSink()
const counting = pipeline('counting', (p) => {
  p.from(
    'numbers',
    generatedSource((n) => (n < keys ? n : (Math.imul(n, 0x9e3779b1) >>> 0) % keys)),
  )
    .keyBy((key) => key)
    .aggregate('counts', count())
    .filter(({ key }) => key % 1000 === 0)
    .to('out', out)
})

const rp = await open(url)
const run = await rp.run(counting, { checkpoint: { every: '100ms' }, takeover: true }).started()
console.log('STARTED')
const watch = setInterval(() => {
  if (out.values.length === 0) return
  clearInterval(watch)
  console.log('FIRST')
}, 1)
while (run.status().records < keys) await new Promise((resolve) => setTimeout(resolve, 5))
await run.checkpoint()
console.log('FULL')
