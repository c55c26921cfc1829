// The conformance suite: the store port as tests. It speaks for every store; a store that lacks something says so in the
// harness's capabilities. It needs no particular test runner: give it describe and it.

import { commitTests } from './conformance-commits.ts'
import { type Harness, Kit, type Test } from './conformance-kit.ts'

export type { Capabilities, Harness } from './conformance-kit.ts'

export interface Runner {
  describe(name: string, body: () => void): void
  it(name: string, body: () => Promise<void>): void
}

/** @example conformance({ describe, it }, { name: 'my store', create }) */
export function conformance(runner: Runner, harness: Harness): void {
  const test: Test = (title, body) => runner.it(title, () => inFreshWorld(harness, body))
  runner.describe(`${harness.name} store`, () => {
    runner.describe('commits', () => commitTests(test))
  })
}

async function inFreshWorld(harness: Harness, body: (kit: Kit) => Promise<void>): Promise<void> {
  const world = await harness.create()
  try {
    const open = (namespace?: string) => world.open(namespace)
    await body(new Kit(await open(), open, harness.capabilities ?? {}))
  } finally {
    await world.destroy()
  }
}
