// A client that was connected before: a query of workflow code reaches the outside later, in a tick of its own, where the stack
// no longer shows the caller. The error still names the user's line. In a process of its own: the pool must be the one that
// users have, not one that the test runner has loaded.

import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, inject, it } from 'vitest'

const program = fileURLToPath(new URL('../programs/warm-pool.mjs', import.meta.url))

it('a query of a warm pool is refused with the line of the workflow that called it', () => {
  const said = execFileSync(process.execPath, [program, inject('postgresUrl')], { encoding: 'utf8' })
  const told = JSON.parse(said) as Record<string, { call: string; at: string }>
  expect(Object.keys(told)).toEqual(['query', 'inFunction', 'callback'])
  for (const { call, at } of Object.values(told)) {
    expect([call, at]).toEqual(['net.Socket.write', expect.stringMatching(/warm-pool\.mjs:\d+:\d+$/)])
  }
})
