// The job of the demo, in a process of its own so that it can be killed. Each item has an effect outside the store: a line in
// a file.

import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from '../../engine/api/open.ts'
import { attachReporter, job } from '../../layers/job/index.ts'

export interface DemoReport {
  readonly replayedEntries: number
  readonly recoverMs: number
}

const [folder, count] = process.argv.slice(2) as [string, string]
const items = Array.from({ length: Number(count) }, (_, i) => `paper-${i + 1}`)

const papers = job('papers', {
  source: items,
  concurrency: 8,
  each: async (paper) => {
    await sleep(4 + Math.random() * 8)
    appendFileSync(join(folder, 'outside.txt'), `${paper}\n`)
  },
})

const rp = await open(`sqlite:${join(folder, 'demo.db')}`)
const run = await rp.run(papers)
attachReporter(run, 'auto')
const report = await run.result()
await rp.close()
const answer: DemoReport = {
  replayedEntries: report.recoveries.reduce((sum, recovery) => sum + recovery.entriesReplayed, 0),
  recoverMs: report.recoveries.reduce((sum, recovery) => sum + recovery.totalMs, 0),
}
process.stdout.write(JSON.stringify(answer))
