// The conformance suite: the store port as tests. It speaks for every store; a store that lacks something says so in the
// harness's capabilities. It needs no particular test runner: give it describe and it.

import { blobTests } from './conformance-blobs.ts'
import { closingTests, namespaceTests } from './conformance-borders.ts'
import { catalogTests } from './conformance-catalog.ts'
import { commitTests } from './conformance-commits.ts'
import { digestTests } from './conformance-digest.ts'
import { feedTests } from './conformance-feed.ts'
import { claimTests, inboxTests } from './conformance-inbox.ts'
import { type Harness, Kit, type OpenStore, type Test } from './conformance-kit.ts'
import { lineageTests } from './conformance-lineage.ts'
import { lostAnswerTests } from './conformance-lost-answers.ts'
import { operationTests } from './conformance-operations.ts'
import { ownershipTests } from './conformance-ownership.ts'
import { queryTests } from './conformance-queries.ts'
import { randomTests } from './conformance-random.ts'
import { readOnlyTests } from './conformance-read-only.ts'
import { rewriteTests } from './conformance-rewrite.ts'
import { riderTests } from './conformance-riders.ts'
import { upkeepTests, workerTests } from './conformance-workers.ts'

export type { Capabilities, Harness } from './conformance-kit.ts'

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
    'random histories': (test) => randomTests(test, harness.seeds ?? defaultSeeds),
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
