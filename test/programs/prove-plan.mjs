// A small plan for scripts/prove.mjs: quick slices that leave a line each, two that fail until they are mended, one that is
// interrupted until then, slices of which the second takes forever, and a real one.

import { existsSync } from 'node:fs'
import { join } from 'node:path'

const folder = process.env.PROVE_FOLDER
const note = `require('node:fs').appendFileSync(${JSON.stringify(join(folder, 'log'))}, process.env.FROM + '\\n'); setTimeout(() => {}, 150)`
const isMended = existsSync(join(folder, 'mended'))
const fail = `console.log('because of the ' + 'moon'); process.exit(${isMended ? 0 : 3})`
const interrupt = isMended ? '' : `process.kill(process.pid, 'SIGINT'); setTimeout(() => {}, 60_000)`
const linger = `if (process.env.FROM !== '0') setTimeout(() => {}, 600_000)`

export const proofs = [
  {
    id: 'quick',
    promises: 'G1',
    what: 'quick ones',
    target: 12,
    size: 2,
    command: ['node', '-e', note],
    env: (_count, from) => ({ FROM: from }),
  },
  { id: 'failing', promises: 'G2', what: 'failing ones', target: 1, size: 1, command: ['node', '-e', fail] },
  { id: 'other', promises: 'G2', what: 'others', target: 1, size: 1, command: ['node', '-e', fail] },
  { id: 'interrupted', promises: 'G2', what: 'of them', target: 1, size: 1, command: ['node', '-e', interrupt] },
  {
    id: 'lingering',
    promises: 'G2',
    what: 'lingering ones',
    target: 3,
    size: 1,
    command: ['node', '-e', linger],
    env: (_count, from) => ({ FROM: from }),
  },
  {
    id: 'simulation',
    promises: 'G3',
    what: 'seeds of the simulation',
    target: 1_000_000,
    size: 10,
    command: ['node', 'test/simulation/main.mjs', '--threads', '1'],
    args: (count, from) => ['--seeds', String(count), '--from', String(1 + from)],
  },
]
