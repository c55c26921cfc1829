// Examples of `reprise/postgres-cdc`. They need a server with wal_level = logical, and are compiled:
// test/pipeline/postgres-cdc.test.ts runs both on a real one.

import { pipeline, printSink } from 'reprise/pipeline'
import { postgresCdcSource, slotLag } from 'reprise/postgres-cdc'
import { example } from './example.ts'

export default [
  example(
    ['postgresCdcSource', 'slotLag'],
    async (rp) => {
      const url = 'postgres://localhost/shop'
      const changes = pipeline('changes', (p) => {
        // The existing rows, then every insert, update and delete.
        p.from('orders', postgresCdcSource({ url, tables: ['orders'] }))
          .map(({ kind, row, before }) => ({ kind, row, before }))
          .to('out', printSink())
      })
      const run = await rp.run(changes).started()
      const { bytes } = await slotLag({ url, slot: 'reprise_pipeline_changes_orders' })
      console.log(`the server keeps ${bytes} bytes for it`)
      await run.stop()
    },
    'compiled',
  ),
]
