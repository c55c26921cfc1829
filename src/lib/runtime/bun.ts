// Bun: as Node, without a measure of the event loop's activity and without a cache of compiled code.

import { runtime as node } from './node.ts'
import type { Runtime } from './port.ts'

const { activeMs: _, ...clock } = node.clock
const { Bun } = globalThis as unknown as { readonly Bun: { readonly version: string } }

export const runtime: Runtime = { ...node, name: 'bun', version: Bun.version, clock, cacheCompiled: null }
