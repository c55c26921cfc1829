// A job of 60 items, for bundlers: `program STORE FILE` writes the id of each item that it does to FILE.

import { appendFileSync } from 'node:fs'
import { open } from 'reprise'
import { job } from 'reprise/job'

const [url, file] = process.argv.slice(-2)
const slow = job('slow', {
  source: Array.from({ length: 60 }, (_, i) => ({ id: `i${i}` })),
  key: (item) => item.id,
  concurrency: 2,
  each: async (item) => {
    appendFileSync(file, `${item.id}\n`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  },
})
const rp = await open(url)
await rp.run(slow).result()
await rp.close()
