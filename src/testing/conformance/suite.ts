// The conformance suite: the store port as tests, for every store; the harness's capabilities declare the missing features of a
// store. It needs no particular test runner: pass it describe and it.

import { blobTests } from './blobs.ts'
import { closingTests, namespaceTests } from './borders.ts'
import { catalogTests } from './catalog.ts'
import { commitTests } from './commits.ts'
import { digestTests } from './digest.ts'
import { feedTests } from './feed.ts'
import { claimTests, inboxTests } from './inbox.ts'
import { type Harness, Kit, type OpenStore, type Test } from './kit.ts'
import { lineageTests } from './lineage.ts'
import { lifeTests } from './lives.ts'
import { lostAnswerTests } from './lost-answers.ts'
import { operationTests } from './operations.ts'
import { ownershipTests } from './ownership.ts'
import { queryTests } from './queries.ts'
import { randomTests } from './random.ts'
import { readOnlyTests } from './read-only.ts'
import { rewriteTests } from './rewrite.ts'
import { riderTests } from './user-sql.ts'
import { upkeepTests, workerTests } from './workers.ts'

export type { Capabilities, Harness } from './kit.ts'

export interface Runner {
  describe(name: string, body: () => void): void
  it(name: string, body: () => Promise<void>): void
}

const defaultSeeds = [1, 2, 3, 4, 5, 6]

/** @example conformance({ describe, it }, { name: 'my store', create }) */
export function conformance(runner: Runner, harness: Harness): void {
  const test: Test = (title, body) => runner.it(title, () => inFreshWorld(harness, body))
  const groups: Readonly<Record<string, (test: Test) => void>> = {
    commits: commitTests,
    digests: digestTests,
    operations: operationTests,
    ownership: ownershipTests,
    lineage: lineageTests,
    lives: lifeTests,
    catalog: catalogTests,
    inbox: inboxTests,
    claim: claimTests,
    feed: feedTests,
    queries: queryTests,
    workers: workerTests,
    upkeep: upkeepTests,
    blobs: blobTests,
    rewriting: rewriteTests,
    riders: riderTests,
    namespaces: namespaceTests,
    'reading only': readOnlyTests,
    closing: closingTests,
    'lost answers': lostAnswerTests,
    ...(harness.seeds?.length !== 0 && {
      'random histories': (test: Test) => randomTests(test, harness.seeds ?? defaultSeeds),
    }),
  }
  runner.describe(`${harness.name} store`, () => {
    for (const [name, group] of Object.entries(groups)) runner.describe(name, () => group(test))
  })
}

async function inFreshWorld(harness: Harness, body: (kit: Kit) => Promise<void>): Promise<void> {
  const world = await harness.create()
  try {
    const open: OpenStore = (namespace, options) => world.open(namespace, options)
    await body(new Kit(await open(), open, harness.capabilities ?? {}))
  } finally {
    await world.destroy()
  }
}
