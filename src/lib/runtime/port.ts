// Everything that the package takes from the runtime that executes it and that differs between runtimes. Each runtime has one
// file in this folder, which the conditions of `#runtime` in package.json choose; no other file tests for a runtime.

import type { AsyncLocalStorage } from 'node:async_hooks'
import type { Worker } from 'node:worker_threads'

export interface Runtime {
  readonly name: 'node' | 'bun' | 'deno' | 'workerd'
  readonly version: string
  readonly clock: RuntimeClock
  readonly AsyncContext: typeof AsyncLocalStorage
  sha256(bytes: Uint8Array): Uint8Array
  /** The same off the event loop, on another core if there is one: for many bytes at once. */
  sha256Aside(bytes: Uint8Array): Promise<Uint8Array>
  randomBytes(count: number): Uint8Array
  /** Null: the runtime has no threads that load code of their own. */
  readonly Thread: typeof Worker | null
  /** Null: the runtime has no files that outlive it. */
  readonly files: RuntimeFiles | null
  /** Names this process among all that share a store. `pid`: null where a runtime has no processes. */
  readonly identity: { readonly host: string; readonly pid: number | null }
  /** Makes replaced functions of built-in modules visible to modules that imported them by name. Null: not possible. */
  readonly publishModules: (() => void) | null
  /** The reason in an error that a missing permission caused; null for other errors. Null: the runtime has no permissions. */
  readonly refusedPermission: ((error: unknown) => string | null) | null
  /** Keeps compiled code in a folder for the next start. Null: the runtime has no such cache. */
  readonly cacheCompiled: ((folder: string) => void) | null
}

/** Captured at load: the guard of workflow code replaces the globals later, and its replacements check each call. */
interface RuntimeClock {
  now(): number
  elapsed(): number
  /** Milliseconds for which the event loop was busy. Missing: the runtime does not measure them. */
  activeMs?(): number
  readonly setTimeout: typeof setTimeout
  readonly clearTimeout: typeof clearTimeout
  readonly setImmediate: typeof setImmediate
}

interface RuntimeFiles {
  /** The built-in module `node:sqlite`. Undefined: the runtime has none, or only behind a flag. */
  sqlite(): unknown
}
