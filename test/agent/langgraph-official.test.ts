import { join } from 'node:path'
import type { CheckpointSaverTestInitializer } from '@langchain/langgraph-checkpoint-validation'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest'
import { RepriseSaver } from '../../src/adapters/langgraph/index.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { open, type Reprise } from '../../src/index.ts'
import { createEngine } from '../../src/store.ts'
import { openPostgres } from '../../src/stores/postgres/index.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { dropSchema, newSchemaName } from '../support/schema.ts'

Object.assign(globalThis, { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it })
const { deltaChannelHistoryTests, specTest } = await import('@langchain/langgraph-checkpoint-validation')

type Opener = (namespace: string) => Promise<Reprise>

const folder = temporaryFolder('langgraph')
const url = inject('postgresUrl')
const schema = newSchemaName()
afterAll(async () => {
  await dropSchema(url, schema)
})

// One database a kind; each saver has a namespace of its own in it.
const openers: Record<string, Opener> = {
  memory: () => open('memory:'),
  sqlite: (namespace) => open(`sqlite:${join(folder, 'test.db')}`, { namespace }),
  postgres: async (namespace) => createEngine({ store: await openPostgres(url, { namespace, schema, hash: sha256 }) }),
}
let count = 0

for (const [kind, openOne] of Object.entries(openers)) {
  const engines = new WeakMap<RepriseSaver, Reprise>()
  const initializer: CheckpointSaverTestInitializer<RepriseSaver> = {
    checkpointerName: `RepriseSaver on ${kind}`,
    async createCheckpointer() {
      const engine = await openOne(`n${++count}`)
      const saver = new RepriseSaver(engine)
      engines.set(saver, engine)
      return saver
    },
    async destroyCheckpointer(saver: RepriseSaver) {
      await engines.get(saver)?.close()
    },
  }
  describe(`C11 the official suite (${kind})`, () => {
    specTest(initializer)
    deltaChannelHistoryTests(initializer)
  })
}
