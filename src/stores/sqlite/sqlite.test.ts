// The SQLite store behind the port: the conformance suite, each "process" being another pair of connections to one file.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'vitest'
import type { Store } from '../../core/store/ports.ts'
import { hash } from '../../testing/conformance/kit.ts'
import { conformance } from '../../testing/conformance/suite.ts'
import { openSqlite } from './index.ts'

conformance(
  { describe, it },
  {
    name: 'sqlite',
    capabilities: { sql: true },
    async create() {
      const directory = mkdtempSync(join(tmpdir(), 'reprise-sqlite-'))
      const stores: Store[] = []
      return {
        async open(namespace = 'default', options = {}) {
          const store = await openSqlite(join(directory, 'store.db'), { namespace, hash, ...options })
          stores.push(store)
          return store
        },
        async destroy() {
          for (const store of stores) await store.close()
          rmSync(directory, { recursive: true, force: true })
        },
      }
    },
  },
)
