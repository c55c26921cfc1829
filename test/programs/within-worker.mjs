// A worker of test/within/kill.test.ts: carries out requests until it is killed. Argument: the store's URL.

import { open } from '../../dist/index.js'
import { workflow } from '../../dist/layers/workflow/index.js'

const [, , url] = process.argv
const rp = await open(url, { lease: '1s' })
rp.work([workflow('order', async (_ctx, id) => id)])
process.send?.('working')
