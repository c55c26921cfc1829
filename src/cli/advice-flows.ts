// Advice for pipelines, cached results and uploads.

import type { Advice } from './advice-shape.ts'

export const flowAdvices: readonly Advice[] = [
  {
    id: 'B7-pipeline',
    title: 'a pipeline (positions, keyed state and sinks in one checkpoint)',
    when: { about: 'stream' },
    why: 'Records flow from sources with positions through operators with keyed state. A checkpoint falls between two batches and contains both, so every record counts once, from source to sink.',
    watch: [
      'a source must return the same records again from a position',
      'results become visible with their checkpoint; a sink outside the store receives keys, and may receive a result twice',
    ],
    code: `import { open } from 'reprise'
import { collectSink, pipeline, sum, tumbling, valueSource } from 'reprise/pipeline'

// Stands for your stream.
const orders = [{ customer: 'ann', cents: 500, at: 1_000 }, { customer: 'ann', cents: 250, at: 61_000 }]
const totals = collectSink()
export const revenue = pipeline('advised-revenue', (p) => {
  p.from('orders', valueSource(orders), { time: (order) => order.at })
    .keyBy((order) => order.customer)
    .window('per-minute', tumbling('1m'))
    .aggregate(sum((order) => order.cents))
    .to('totals', totals)
})

const rp = await open()
console.log(await rp.run(revenue, { checkpoint: { recoverWithin: 'BUDGET' } }).result(), totals.values)
await rp.close()
`,
  },
  {
    id: 'B9-memo',
    title: 'a memo (results keyed by their inputs)',
    when: { about: 'results' },
    why: 'The inputs are the truth and a result can always be computed again: it is stored under a digest of all its inputs, so a hit equals a run, and a miss names the input that changed.',
    watch: [
      'name every file and variable that the function reads, or a hit may come from different inputs',
      'raise the version when the function changes its results',
    ],
    code: `import { open } from 'reprise'
import { memo } from 'reprise/memo'

export const squares = memo('advised-squares', { version: 1, run: async (n) => n * n })

const rp = await open()
const remembered = await rp.open(squares)
console.log(await remembered.call(7), await remembered.explain(7))
await rp.close()
`,
  },
  {
    id: 'B2-upload',
    title: 'an upload (bytes that arrive in pieces, durable when acknowledged)',
    when: { about: 'files' },
    why: 'A client sends a file in pieces over the tus protocol, and resumes at the offset of the server after a crash of either side. Each acknowledged offset is durable; the completion of the file is recorded once.',
    watch: [
      'the id of an upload is enough to resume it: restrict access in authorize',
      'the name and type that a client sends are stored, but not verified',
    ],
    code: `import { open } from 'reprise'
import { upload } from 'reprise/upload'

export const photos = upload('advised-photos', {
  maxBytes: 50_000_000,
  onComplete: (file) => console.log('received', file.size, 'bytes of', file.metadata.filename),
})

const rp = await open()
// Mount it in your server: any that speaks Request and Response.
const handler = photos.handler(rp, { path: '/photos', authorize: () => 'anybody' })
const about = await handler(new Request('http://localhost/photos', { method: 'OPTIONS' }))
console.log(about.headers.get('tus-extension'))
await rp.close()
`,
  },
]
