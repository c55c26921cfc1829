// Examples of `reprise/remote`.

import { remote } from 'reprise/remote'
import { workflow } from 'reprise/workflow'
import { example } from './example.ts'

export default [
  example(
    ['remote'],
    async (rp) => {
      const charge = remote<{ cents: number }, { id: string }>('charge')
      const order = workflow(
        'order',
        async (ctx, cents: number) => await ctx.step('charge', (step) => charge({ cents }, step)),
      )
      // A worker in any language asks `reprise serve` for waiting steps of the queue "charge".
      return await rp.run(order, 100).result()
    },
    'compiled',
  ),
]
