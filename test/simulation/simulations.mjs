// The simulations by name: `main`, and smaller ones for situations that it cannot express.

import { simulateErrands } from './errands.mjs'
import { simulateFailover } from './failover.mjs'
import { simulateFile } from './file-simulate.mjs'
import { simulateShards } from './shards.mjs'
import { simulate } from './simulate.mjs'

export const simulations = {
  main: simulate,
  failover: simulateFailover,
  file: simulateFile,
  errands: simulateErrands,
  shards: simulateShards,
}
