// Rekey: re-encrypts everything in a store with the current key, so that older keys can leave the ring. It reads all runs,
// manifests, unread messages and chunks, and wraps records under another key or in plain text (wrap.ts). Other processes keep
// reading and writing meanwhile. Finished records are recognised, so a killed rekey is simply called again.

import { toHex } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Change, Hash, Rewritten } from '../../core/store/ports.ts'
import { warnOnReject } from '../../lib/warn-on-reject.ts'
import type { Kernel } from '../storage/kernel.ts'
import { forgetOtherKeys, lacking, lackingKeys, notedKeys } from '../storage/key-notes.ts'
import { sealNameOf } from '../storage/seal/sealing-key.ts'
import { keysIn, type Wrappable } from '../storage/seal/wrap.ts'
import { type ChangeNote, underNote } from '../storage/store-change.ts'

export interface RekeyOptions {
  readonly signal?: AbortSignal
  readonly onProgress?: (progress: {
    readonly kind: Wrappable
    readonly seen: number
    readonly changed: number
  }) => void
}

export interface RekeyReport {
  /** No data is sealed with another key any longer: the other keys can be removed from every ring. */
  readonly isDone: boolean
  /** The current key. */
  readonly key: string
  readonly changed: Readonly<Record<Wrappable | 'rows', number>>
  /** Records that are not under it, by the id of their key; '' is plain text, '?' a record that cannot be opened. */
  readonly left: Readonly<Record<string, number>>
  /** Live processes that still seal with another key ('' means no key at all): restart them with this one, and rekey again. */
  readonly users: readonly { readonly worker: string; readonly key: string }[]
  /** Ids of keys that can now be removed from the ring. */
  readonly retired: readonly string[]
}

/** In the row of a worker: the sign of its sealing key. Earlier versions do not record it. */
export const sealsWith = 'key'

const kinds: readonly Wrappable[] = ['runs', 'checkpoints', 'messages', 'chunks']
/** While another process still seals with an older key, a rekey would never end. */
const passesMax = 8
const requestsMax = 100_000
const perCall: Readonly<Record<Wrappable, number>> = { runs: 200, checkpoints: 50, messages: 500, chunks: 50 }

/** `rows` encrypts data that models keep outside of timelines, and returns the number of records. */
export async function rekey(kernel: Kernel, options: RekeyOptions, rows: () => Promise<number>): Promise<RekeyReport> {
  const { sealer } = kernel
  const key = sealer.keyId
  if (key === null)
    throw new RepriseError('INVALID_ARGUMENT', 'rekey needs keys: the key ring with the new current key', {})
  const missing = await lackingKeys(kernel)
  if (missing.length > 0) throw lacking(missing)
  return await underNote(kernel, { kind: 'rekey', of: key }, async (note) => {
    note.began()
    const report = await rekeyAll(kernel, key, note, options, rows)
    if (!report.isDone) note.stays()
    return report
  })
}

async function rekeyAll(
  kernel: Kernel,
  key: string,
  note: ChangeNote,
  options: RekeyOptions,
  rows: () => Promise<number>,
): Promise<RekeyReport> {
  const changed = { runs: 0, checkpoints: 0, messages: 0, chunks: 0, rows: await rows() }
  let left = new Map<string, number>()
  for (let pass = 1; pass <= passesMax; pass++) {
    left = new Map()
    let isQuiet = true
    for (const kind of kinds) {
      const before = note.doneBefore + Object.values(changed).reduce((sum, each) => sum + each, 0)
      const paged = (count: number) => note.progress(before + count)
      const { count, waiting } = await onePass(kernel, kind, left, options, paged)
      changed[kind] += count
      if (count > 0 || waiting > 0) isQuiet = false
    }
    if (isQuiet) break
    if (pass === passesMax) left.set('?', (left.get('?') ?? 0) + 1)
  }
  await countRequests(kernel, key, left)
  // Trimmed history whose space is not freed yet keeps its old key.
  await kernel.store.upkeep.tidy(0)
  await kernel.store.upkeep.scrub({ whole: true })
  const users = await usersOfOthers(kernel, key)
  const isDone = left.size === 0 && users.length === 0
  const retired = isDone ? await forgetOtherKeys(kernel) : []
  const what = isDone ? `all data is encrypted with ${key}` : `some data is not encrypted with ${key} yet`
  kernel.events.emit('report', { kind: 'rekey', timeline: null, what, data: { changed, retired } })
  return { isDone, key, changed, left: Object.fromEntries(left), users, retired }
}

/**
 * Requests of applications (docs/decisions/within.md) are not wrapped: a worker removes them when it carries them out. Until then
 * their key must stay in the ring. Those that SQL wrote are plain text by choice.
 */
async function countRequests({ store }: Kernel, key: string, left: Map<string, number>): Promise<void> {
  for (const { data } of (await store.requests?.list({ limit: requestsMax })) ?? []) {
    if (!(data instanceof Uint8Array)) continue
    const name = sealNameOf(data)
    const id = name === null ? '?' : name === 'plain' ? '' : name.id
    if (id !== key) left.set(id, (left.get(id) ?? 0) + 1)
  }
}

/** This check is last: a process that began later has read the notes, and seals with the current key. */
async function usersOfOthers(kernel: Kernel, key: string): Promise<RekeyReport['users']> {
  const { store, worker, hash } = kernel
  const known = new Map((await notedKeys(kernel)).map((id) => [signOf(hash, id), id]))
  return (await store.workers()).flatMap((row) => {
    const { id, name, info } = row
    const used = info[sealsWith]
    const isOther = worker.isAtWork(row) && id !== worker.id && typeof used === 'string' && used !== signOf(hash, key)
    return isOther ? [{ worker: name, key: used === '' ? '' : (known.get(used) ?? '?') }] : []
  })
}

/** A hash of the key's id: rows of workers outlive the key, and must not name it then. */
export function signOf(hash: Hash, id: string | null): string {
  return id === null ? '' : toHex(hash(new TextEncoder().encode(`reprise/1 key ${id}`))).slice(0, 16)
}

async function onePass(
  kernel: Kernel,
  kind: Wrappable,
  left: Map<string, number>,
  options: RekeyOptions,
  paged: (count: number) => Promise<void>,
): Promise<{ readonly count: number; readonly waiting: number }> {
  const { store } = kernel
  const change = changeOf(kernel, kind, left)
  let count = 0
  let waiting = 0
  let seen = 0
  for (let after: string | null = null; ; ) {
    if (options.signal?.aborted) throw new RepriseError('ABORTED', 'rekey: aborted', {}, options.signal.reason)
    const done: Rewritten =
      kind === 'chunks'
        ? await store.blobs.rewrite(change, after, perCall[kind])
        : await store.upkeep.rewrite(kind, change, after, perCall[kind])
    count += done.changed
    waiting += done.left
    seen += done.seen
    await paged(count)
    warnOnReject(options.onProgress?.({ kind, seen, changed: count }), 'onProgress')
    if (done.next === null) return { count, waiting }
    after = done.next
  }
}

function changeOf({ sealer }: Kernel, kind: Wrappable, left: Map<string, number>): Change {
  return (stored) => {
    try {
      return sealer.rewrap(kind, stored)
    } catch (error) {
      if (!(error instanceof RepriseError)) throw error
      // A process seals with a key that is missing here, or the record is damaged: counted, and reported at the end.
      const ids = error.code === 'KEY_MISSING' ? keysIn(kind, stored) : ['?']
      for (const id of ids) left.set(id, (left.get(id) ?? 0) + 1)
      return null
    }
  }
}
