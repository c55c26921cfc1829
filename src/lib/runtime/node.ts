// Node 20.19 and newer. Also the file of bundles without conditions, which Bun and Deno may run: a feature that only some
// runtimes have is tried here, never derived from a name.

import { AsyncLocalStorage } from 'node:async_hooks'
import { hash, randomBytes, webcrypto } from 'node:crypto'
import * as modules from 'node:module'
import { hostname } from 'node:os'
import { Worker } from 'node:worker_threads'
import type { Runtime } from './port.ts'

const digestBytes = 32
const { now } = Date
const { setTimeout, clearTimeout, setImmediate } = globalThis
const { enableCompileCache } = modules as { readonly enableCompileCache?: (folder: string) => unknown }

export const runtime: Runtime = {
  name: 'node',
  version: process.versions.node,
  clock: {
    now: () => now(),
    elapsed: () => performance.now(),
    ...(measuresUtilization() && { activeMs: () => performance.eventLoopUtilization().active }),
    ...{ setTimeout, clearTimeout, setImmediate },
  },
  AsyncContext: AsyncLocalStorage,
  // The digest is returned as a binary string and copied: a Buffer from native code costs more than hashing a short run.
  sha256: (bytes) => fromBinary(hash('sha256', bytes, 'binary')),
  sha256Aside: async (bytes) => new Uint8Array(await webcrypto.subtle.digest('SHA-256', bytes)),
  randomBytes,
  Thread: Worker,
  files: { sqlite: () => (hasSqlite(process.versions.node) ? quietly(() => builtIn('node:sqlite')) : undefined) },
  identity: {
    // Deno refuses it without a permission: `open` reports that, and not the import of the package.
    get host() {
      return hostname()
    },
    pid: process.pid,
  },
  publishModules: modules.syncBuiltinESMExports,
  refusedPermission: null,
  cacheCompiled: enableCompileCache ? (folder) => void enableCompileCache(folder) : null,
}

function fromBinary(text: string): Uint8Array {
  const bytes = new Uint8Array(digestBytes)
  for (let i = 0; i < digestBytes; i++) bytes[i] = text.charCodeAt(i)
  return bytes
}

/** Bun declares the function, and throws when it is called. */
function measuresUtilization(): boolean {
  try {
    return Number.isFinite(performance.eventLoopUtilization().active)
  } catch {
    return false
  }
}

export function hasSqlite(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major > 22 || (major === 22 && minor >= 13)
}

/** Bundlers and compilers resolve no name that they do not see. */
function builtIn(name: string): unknown {
  const { getBuiltinModule } = process as { readonly getBuiltinModule?: (name: string) => unknown }
  return getBuiltinModule?.(name)
}

/** Node 22 warns when node:sqlite is loaded. That warning is dropped, and no other. */
function quietly(load: () => unknown): unknown {
  const { emitWarning } = process as unknown as { readonly emitWarning: (...args: readonly unknown[]) => void }
  const passOn = (...args: readonly unknown[]) => {
    if (!String(args[0]).startsWith('SQLite is an experimental feature')) emitWarning.call(process, ...args)
  }
  Object.assign(process, { emitWarning: passOn })
  try {
    return load()
  } finally {
    Object.assign(process, { emitWarning })
  }
}
