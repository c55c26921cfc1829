// Deno: like Node; it caches compiled code itself, and refuses what its flags do not allow.

import { runtime as node } from './node.ts'
import type { Runtime } from './port.ts'

const { Deno } = globalThis as unknown as { readonly Deno: { readonly version: { readonly deno: string } } }

export const runtime: Runtime = {
  ...node,
  name: 'deno',
  version: Deno.version.deno,
  refusedPermission,
  cacheCompiled: null,
}

/** By the message: the errors of SQLite and of the PostgreSQL driver have classes of their own, or wrap that of Deno. */
function refusedPermission(error: unknown): string | null {
  for (let each = error; each instanceof Error; each = each.cause) {
    const found = /Requires .* access.* --allow-[a-z]+ flag/.exec(each.message)
    if (found) return found[0]
  }
  return null
}
