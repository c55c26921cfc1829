// Cloudflare's workerd with `nodejs_compat`: no files that outlive a request, no processes, no threads, and no measure of the
// event loop's activity. Its modules declare most of that all the same, so nothing is tried here.

import { AsyncLocalStorage } from 'node:async_hooks'
import { createHash, randomBytes, randomUUID, webcrypto } from 'node:crypto'
import type { Runtime } from './port.ts'

const { now } = Date
const { setTimeout, clearTimeout, setImmediate } = globalThis

export const runtime: Runtime = {
  name: 'workerd',
  version: '',
  clock: { now: () => now(), elapsed: () => performance.now(), ...{ setTimeout, clearTimeout, setImmediate } },
  AsyncContext: AsyncLocalStorage,
  sha256: (bytes) => createHash('sha256').update(bytes).digest(),
  sha256Aside: async (bytes) => new Uint8Array(await webcrypto.subtle.digest('SHA-256', bytes)),
  randomBytes,
  Thread: null,
  files: null,
  // Every isolate calls itself localhost. Random values are refused while a worker is loaded.
  get identity() {
    host ??= `workerd-${randomUUID()}`
    return { host, pid: null }
  },
  publishModules: null,
  refusedPermission: null,
  cacheCompiled: null,
}

let host: string | undefined
