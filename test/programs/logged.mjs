// Logs of a workflow and a job, as lines of a file, by a process that may be killed: the step `ship` and the item `b` wait for
// a file that releases them. Arguments: store URL, folder.

import { appendFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { open } from '../../lib/index.js'
import { job, logOf as logOfItem } from '../../lib/layers/job/index.js'
import { logOf, workflow } from '../../lib/layers/workflow/index.js'

const [, , url, folder] = process.argv
const write = (level) => (message, fields) => {
  appendFileSync(join(folder, 'log'), `${JSON.stringify({ level, message, ...fields })}\n`)
}
const logger = { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }

async function allowed() {
  while (!existsSync(join(folder, 'go'))) await new Promise((resolve) => setTimeout(resolve, 20))
}

const order = workflow('order', async (ctx) => {
  const log = logOf(ctx, logger)
  log.info('begins')
  await ctx.step('charge', () => log.info('charges'), { compensate: () => log.warn('pays back') })
  log.info('charged')
  await ctx.step(
    'ship',
    async () => {
      log.info('ships')
      await allowed()
      log.error('has no van')
      throw new Error('no van')
    },
    { retry: { attempts: 1 } },
  )
})
const papers = job('papers', {
  source: ['a', 'b'],
  key: (paper) => paper,
  concurrency: 1,
  async each(paper, item) {
    const log = logOfItem(item, logger)
    log.info('reads')
    if (paper === 'b') await allowed()
    log.info('has read')
  },
})

const rp = await open(url, { worker: 'w', lease: '2s' })
rp.work([order])
const run = await rp.run(order, { id: 'o-1' })
await Promise.allSettled([run.result(), rp.run(papers).result()])
await rp.close()
