// Runs the stored pipeline on worker threads until it is killed or done. node staged-killed.mjs '{"url": "…", "threads": 2}'

import { open } from '../../dist/index.js'
import { gate, stored } from './staged-pipelines.mjs'

const { url, threads, parallelism } = JSON.parse(process.argv[2])
gate.batch = 20
const rp = await open(url)
const run = await rp.run(stored, { threads, ...(parallelism && { parallelism }), wait: '30s' })
await run.started()
console.log('READY')
console.log(`DONE ${(await run.result()).status}`)
await rp.close()
