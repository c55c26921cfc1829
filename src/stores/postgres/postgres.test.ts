// The PostgreSQL store against a real server: the conformance suite, on one schema with fresh namespaces.

import { afterAll, describe, inject, it } from 'vitest'
import { dropSchema, newSchemaName } from '../../../test/support/schema.ts'
import { hash } from '../../testing/conformance/kit.ts'
import { conformance } from '../../testing/conformance/suite.ts'
import { openPostgres } from './index.ts'

const url = inject('postgresUrl')
const schema = newSchemaName()
let worlds = 0

afterAll(() => dropSchema(url, schema))

conformance(
  { describe, it },
  {
    name: 'postgres',
    capabilities: { sql: true, presence: true },
    async create() {
      worlds += 1
      const world = worlds
      const opened: { close(): Promise<void> }[] = []
      return {
        async open(namespace = 'default', options = {}) {
          const names = { namespace: `${world}/${namespace}`, schema }
          const store = await openPostgres(url, { ...names, hash, poolSize: 3, ...options })
          opened.push(store)
          return store
        },
        async destroy() {
          for (const store of opened) await store.close()
        },
      }
    },
  },
)
