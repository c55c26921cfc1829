// The memory store is the reference: it must pass the suite.

import { describe, it } from 'vitest'
import { createWorld, openMemory } from '../../stores/memory/index.ts'
import { hash } from './kit.ts'
import { conformance } from './suite.ts'

conformance(
  { describe, it },
  {
    name: 'memory',
    capabilities: { sql: false },
    async create() {
      const world = createWorld()
      return {
        open: async (namespace = 'default', options = {}) => openMemory({ namespace, hash, world, ...options }),
        destroy: async () => {},
      }
    },
  },
)
