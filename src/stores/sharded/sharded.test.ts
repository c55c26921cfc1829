// The sharded store behind the port: the conformance suite over three memory stores, and over three SQLite files. The
// random histories compare every order with that of one store, so there all timelines are on one shard, and only
// archives elsewhere.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'vitest'
import type { Store } from '../../core/store/ports.ts'
import { shardOf } from '../../core/store/shards.ts'
import { hash } from '../../testing/conformance/kit.ts'
import { conformance } from '../../testing/conformance/suite.ts'
import { createWorld, openMemory } from '../memory/index.ts'
import { openSqlite } from '../sqlite/index.ts'
import { openSharded } from './index.ts'

const three = [0, 1, 2]

function inMemory(place?: (id: string) => number) {
  return async () => {
    const worlds = three.map(() => createWorld())
    const stores: Store[] = []
    return {
      async open(namespace = 'default', options: { readonly readOnly?: boolean } = {}) {
        const sources = worlds.map((world, i) => ({
          name: `memory ${i}`,
          open: async () => openMemory({ namespace, hash, world }),
        }))
        const store = await openSharded(sources, { ...options, ...(place && { place }) })
        stores.push(store)
        return store
      },
      async destroy() {
        for (const store of stores) await store.close()
      },
    }
  }
}

const capabilities = { sql: false, isSharded: true }

conformance({ describe, it }, { name: 'sharded memory', capabilities, seeds: [], create: inMemory() })

const together = (id: string) => (id.startsWith('old-') ? shardOf(id, 3) : 1)
conformance({ describe, it }, { name: 'sharded memory, families together', capabilities, create: inMemory(together) })

// Three files for each of 180 tests take long.
const isThorough = process.env.REPRISE_TEST_SHARDS === 'all'
if (isThorough)
  conformance(
    { describe, it },
    {
      name: 'sharded sqlite',
      capabilities: { sql: true, isSharded: true },
      seeds: [],
      async create() {
        const directory = mkdtempSync(join(tmpdir(), 'reprise-sharded-'))
        const stores: Store[] = []
        return {
          async open(namespace = 'default', options = {}) {
            const sources = three.map((i) => ({
              name: `sqlite ${i}`,
              open: () => openSqlite(join(directory, `${i}.db`), { namespace, hash }),
            }))
            const store = await openSharded(sources, options)
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
