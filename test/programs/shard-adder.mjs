// Adds a shard to a set, to be killed in the middle: a second start resumes.

import { open } from '../../lib/index.js'

const { shards, url } = JSON.parse(process.argv[2] ?? '{}')

const rp = await open({ shards, lease: '3s', patience: '60s', worker: 'shard-adder', housekeeping: false })
/** @type {string[]} */
const told = []
const grown = await rp.addShard(url, {
  wait: '1s',
  onProgress: ({ stage, moved }) => {
    const line = `${stage} ${moved}`
    if (told.at(-1) !== line) console.log(line)
    told.push(line)
  },
})
console.log(`DONE ${grown.shards} ${grown.moved} ${JSON.stringify(grown.stays)}`)
await rp.close()
