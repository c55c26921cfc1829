// A program that awaits something must not end before its answer, and one that awaits nothing more must end.

import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

function runProgram(name: string, args: readonly string[], node: readonly string[] = []) {
  const program = fileURLToPath(new URL(`../programs/${name}`, import.meta.url))
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const { stdout, status } = spawnSync(process.execPath, [...node, program, ...args], {
    encoding: 'utf8',
    timeout: 120_000,
    env,
  })
  return { stdout, status }
}

it('a program that only awaits the result of a sleeping run stays alive until it has it, and then ends', () => {
  expect(runProgram('workflow-alive.mjs', ['memory:'])).toEqual({ stdout: 'rested\n', status: 0 })
})

it('a program that only awaits an update, and then the end of the engine, stays alive until it has both', () => {
  expect(runProgram('workflow-update.mjs', ['memory:'])).toEqual({ stdout: '2\nclosed\n', status: 0 })
})

it('a process ends when its kit is closed, also after a crash', () => {
  expect(runProgram('workflow-kit.mjs', ['plain'])).toEqual({ stdout: 'rested\n', status: 0 })
})

it('and so does node --test', () => {
  const { stdout, status } = runProgram('workflow-kit.mjs', [], ['--test'])
  expect({ status, isOk: /# pass 1/.test(stdout) || /pass 1/.test(stdout) }).toEqual({ status: 0, isOk: true })
})

const jest = fileURLToPath(new URL('../../node_modules/jest/bin/jest.js', import.meta.url))
if (!existsSync(jest)) console.warn('not tried under Jest: it is not installed (npm install --no-save jest@30)')

it.skipIf(!existsSync(jest))('and so does Jest, where it is installed', () => {
  const args = [
    '--experimental-vm-modules',
    jest,
    '--rootDir',
    'test/programs',
    '--testMatch',
    '**/workflow-kit.jest.mjs',
  ]
  const root = fileURLToPath(new URL('../..', import.meta.url))
  const options = { cwd: root, encoding: 'utf8', timeout: 60_000 } as const
  const { stderr, status } = spawnSync(process.execPath, [...args, '--runInBand', '--transform', '{}'], options)
  // Without --forceExit: it ends because nothing is left to wait for.
  expect({ status, told: /Jest did not exit|1 passed/.exec(stderr)?.[0] }).toEqual({ status: 0, told: '1 passed' })
})
