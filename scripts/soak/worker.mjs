// A worker of the soak: runs orders until it is killed. node worker.mjs URL

import { open } from '../../dist/index.js'
import { order } from './model.mjs'

const rp = await open(process.argv[2], {
  housekeeping: { every: '20s', expire: { ended: { 'workflow/order/': '30s' } } },
})
rp.work([order])
process.on('disconnect', () => process.exit(0))
