// Opens an engine from a description, for the crash programs. Uses the built library, as a user's program would.

import { sha256, systemClock } from '../../dist/engine/base/platform.js'
import { createEngine } from '../../dist/store.js'

/**
 * Where: { kind: 'sqlite', file, chunks? } or { kind: 'postgres', url, schema }. Clocks are off by skewMs; `wrap` puts a store
 * of the program's own around the one that was opened.
 */
export async function openEngine(where, { skewMs = 0, ...options } = {}, wrap = (store) => store) {
  const store = wrap(await openStore(where, skewMs))
  const clock = { ...systemClock, now: () => Date.now() + skewMs }
  return createEngine({ store, clock }, { lease: '15s', ...options })
}

async function openStore({ kind, file, chunks, url, schema }, skewMs) {
  if (kind === 'postgres') {
    const { openPostgres } = await import('../../dist/stores/postgres/index.js')
    return await openPostgres(url, { namespace: 'default', schema, hash: sha256 })
  }
  const { openSqlite } = await import('../../dist/stores/sqlite/index.js')
  const store = await openSqlite(file, {
    namespace: 'default',
    hash: sha256,
    clock: () => Date.now() + skewMs,
    busyMs: 60_000,
  })
  if (!chunks) return store
  const { openDirectoryBlobs } = await import('../../dist/stores/directory-blobs.js')
  const blobs = await openDirectoryBlobs(chunks)
  return new Proxy(store, {
    get(target, name) {
      if (name === 'blobs') return blobs
      const member = Reflect.get(target, name, target)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
}
