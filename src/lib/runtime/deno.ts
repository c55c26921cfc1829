// Deno: as Node; it keeps compiled code by itself.

import { runtime as node } from './node.ts'
import type { Runtime } from './port.ts'

const { Deno } = globalThis as unknown as { readonly Deno: { readonly version: { readonly deno: string } } }

export const runtime: Runtime = { ...node, name: 'deno', version: Deno.version.deno, cacheCompiled: null }
