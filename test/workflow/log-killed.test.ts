// Logs over the death of a process: replayed code logs nothing, and each line knows its place. The logger writes to a file,
// which workflow code itself may not.

import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, it } from 'vitest'
import { temporaryFolder } from '../support/fixture.ts'

const program = fileURLToPath(new URL('../programs/logged.mjs', import.meta.url))
const cleanups: (() => void)[] = []
afterEach(() => {
  for (const cleanup of cleanups.splice(0).reverse()) cleanup()
})

it('replay is silent up to the last outcome before the kill, and each line has run, step and attempt', async () => {
  const folder = temporaryFolder('log')
  const start = () => {
    const child = spawn(process.execPath, [program, `sqlite:${join(folder, 'store.db')}`, folder], {
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    cleanups.push(() => child.kill('SIGKILL'))
    return { child, closed: new Promise<void>((resolve) => child.once('close', () => resolve())) }
  }
  const lines = () =>
    readFileSync(join(folder, 'log'), 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
  writeFileSync(join(folder, 'log'), '')
  const first = start()
  await expect
    .poll(
      () =>
        readFileSync(join(folder, 'log'), 'utf8')
          .split('\n')
          .filter((line) => /ships|"b"/.test(line)).length,
      {
        timeout: 60_000,
      },
    )
    .toBe(2)
  first.child.kill('SIGKILL')
  await first.closed
  writeFileSync(join(folder, 'go'), '')
  await start().closed

  const of = { workflow: 'order', run: 'o-1' }
  const ship = { ...of, step: 'ship' }
  // The work after the last outcome in history is repeated, and logs again.
  expect(lines().filter(({ workflow }) => workflow)).toEqual([
    { level: 'info', message: 'begins', ...of },
    { level: 'info', message: 'charges', ...of, step: 'charge', attempt: 1 },
    { level: 'info', message: 'charged', ...of },
    { level: 'info', message: 'ships', ...ship, attempt: 1 },
    { level: 'info', message: 'charged', ...of },
    { level: 'info', message: 'ships', ...ship, attempt: 1 },
    { level: 'error', message: 'has no van', ...ship, attempt: 1 },
    { level: 'warn', message: 'pays back', ...of, step: 'charge', attempt: 1, compensates: true },
  ])
  expect(
    lines()
      .filter(({ job }) => job)
      .map(({ message, job, item }) => [job, message, item]),
  ).toEqual([
    ['papers', 'reads', 'a'],
    ['papers', 'has read', 'a'],
    ['papers', 'reads', 'b'],
    ['papers', 'reads', 'b'],
    ['papers', 'has read', 'b'],
  ])
})
