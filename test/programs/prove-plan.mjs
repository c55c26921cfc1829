// A small plan for scripts/prove.mjs: quick slices that leave a line each, one that fails until it is mended, and a real one.

import { existsSync } from 'node:fs'
import { join } from 'node:path'

const folder = process.env.PROVE_FOLDER
const note = `require('node:fs').appendFileSync(${JSON.stringify(join(folder, 'log'))}, process.env.FROM + '\\n'); setTimeout(() => {}, 150)`
const fail = `process.exit(${existsSync(join(folder, 'mended')) ? 0 : 3})`

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
