// Worlds for engine tests: the same tests run on every store. A world is one database; each engine in it is like
// another process.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, inject } from 'vitest'
import type { Store } from '../../src/core/store/ports.ts'
import { createEngine, type EngineOptions, type Ports } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { openPostgres } from '../../src/stores/postgres/index.ts'
import { openSqlite } from '../../src/stores/sqlite/index.ts'
import { dropSchema, newSchemaName } from './schema.ts'

export interface World {
  readonly kind: string
  store(namespace?: string): Promise<Store>
  engine(options?: EngineOptions & { namespace?: string; ports?: Partial<Ports> }): Promise<Reprise>
}

type Opener = { open(namespace: string): Promise<Store>; destroy(): Promise<void> }

const makers: Record<string, () => Promise<Opener>> = {
  async memory() {
    const world = createWorld()
    return { open: async (namespace) => openMemory({ namespace, hash: sha256, world }), destroy: async () => undefined }
  },
  async sqlite() {
    const folder = mkdtempSync(join(tmpdir(), 'reprise-test-'))
    return {
      open: (namespace) => openSqlite(join(folder, 'test.db'), { namespace, hash: sha256 }),
      destroy: async () => rmSync(folder, { recursive: true, force: true }),
    }
  },
  async postgres() {
    const url = inject('postgresUrl')
    const schema = newSchemaName()
    return {
      open: (namespace) => openPostgres(url, { namespace, schema, hash: sha256 }),
      destroy: () => dropSchema(url, schema),
    }
  },
}

/** Runs the tests once for each store. `world()` is fresh for each test; whatever it opened is closed afterwards. */
export function onEveryStore(
  title: string,
  body: (world: () => Promise<World>) => void,
  only?: readonly string[],
): void {
  for (const [kind, make] of Object.entries(makers)) {
    if (only && !only.includes(kind)) continue
    describe(`${title} (${kind})`, () => {
      const cleanups: (() => Promise<unknown>)[] = []
      afterEach(async () => {
        for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
      })
      body(async () => {
        const opener = await make()
        cleanups.push(opener.destroy)
        const store = async (namespace = 'default') => {
          const opened = await opener.open(namespace)
          cleanups.push(() => opened.close())
          return opened
        }
        return {
          kind,
          store,
          async engine({ namespace, ports, ...options } = {}) {
            const engine = createEngine(
              { store: await store(namespace), ...(namespace !== undefined && { namespace }), ...ports },
              { worker: 'test', ...options },
            )
            cleanups.push(() => engine.close())
            return engine
          },
        }
      })
    })
  }
}
