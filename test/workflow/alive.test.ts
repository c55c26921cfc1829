// A program that awaits a sleeping run must not end before its answer.

import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

it('a program that only awaits the result of a sleeping run stays alive until it has it, and then ends', () => {
  const program = fileURLToPath(new URL('../programs/workflow-alive.mjs', import.meta.url))
  const { stdout, status } = spawnSync(process.execPath, [program, 'memory:'], { encoding: 'utf8', timeout: 60_000 })
  expect({ stdout, status }).toEqual({ stdout: 'rested\n', status: 0 })
})
