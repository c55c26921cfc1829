// The keys with which a store is encrypted, as recorded in the store itself: attributes `$key:ID` of the timeline
// `reprise/store`, with a proof that distinguishes a key from another of the same id. A tool that lacks a key names it
// before it reads anything, and a program without keys does not write plain text beside encrypted data.

import { type TimelineId, timelineId, type WorkerId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { originDigest } from '../../core/history/entry-run.ts'
import type { Attribute, Commit, Sql } from '../../core/store/ports.ts'
import { type Kernel, newOperation } from './kernel.ts'

const storeTimeline = 'reprise/store'
const prefix = '$key:'
const noted = /^\$key:(.+)$/
const attemptsMax = 8

type Notes = Pick<Kernel, 'store' | 'sealer' | 'hash' | 'random'>

/** The ids of all keys that records may be sealed with. */
export async function notedKeys(kernel: Pick<Kernel, 'store'>): Promise<string[]> {
  return [...(await readNotes(kernel)).keys()].sort()
}

/** The proof of each key, by id. */
async function readNotes({ store }: Pick<Kernel, 'store'>): Promise<Map<string, Attribute>> {
  const [head] = await store.head([timelineId(storeTimeline)])
  const notes = new Map<string, Attribute>()
  for (const [name, proof] of Object.entries(head?.attributes ?? {})) {
    const id = noted.exec(name)?.[1]
    if (id !== undefined) notes.set(id, proof)
  }
  return notes
}

/** The note under this name. */
export async function readNote({ store }: Pick<Kernel, 'store'>, name: string): Promise<Attribute | undefined> {
  const [head] = await store.head([timelineId(storeTimeline)])
  return head?.attributes[name]
}

/** The keys among them that are missing in the key ring of this process. */
export async function lackingKeys(kernel: Pick<Kernel, 'store' | 'sealer'>): Promise<string[]> {
  return (await notedKeys(kernel)).filter((id) => !kernel.sealer.hasKey(id))
}

/**
 * Called when a store is opened: records the key that seals from now on, or reads that there must be one. Refuses
 * another key under a known id, and a new key of a process that lacks a key in use: its ring is out of date.
 */
export async function meetKeys(kernel: Notes, isReadOnly: boolean): Promise<void> {
  const { sealer } = kernel
  const notes = await readNotes(kernel)
  if (sealer.keyId === null) {
    if (notes.size > 0) sealer.refusePlain([...notes.keys()].sort())
    return
  }
  for (const [id, proof] of notes) {
    if (!sealer.hasKey(id) || typeof proof !== 'string' || sealer.proofOf(id) === proof) continue
    const what = `the key ${JSON.stringify(id)} in the key ring is not the one that this store is encrypted with`
    throw new RepriseError('KEY_MISSING', what, { keys: [id] })
  }
  if (isReadOnly || notes.has(sealer.keyId)) return
  checkCurrent(sealer, [...notes.keys()])
  await changeNotes(kernel, { [prefix + sealer.keyId]: sealer.proofOf(sealer.keyId) ?? true })
}

/**
 * For a process that opened the store read-only and seals data from it: its key ring must have the key for writing. Throws
 * KEY_MISSING.
 */
export async function requireWriterKeys(kernel: Pick<Kernel, 'store' | 'sealer'>): Promise<void> {
  checkCurrent(kernel.sealer, await notedKeys(kernel))
}

function checkCurrent(sealer: Kernel['sealer'], ids: readonly string[]): void {
  if (sealer.keyId !== null && ids.includes(sealer.keyId)) return
  const missing = ids.filter((id) => !sealer.hasKey(id))
  if (missing.length > 0) throw lacking(missing)
}

/** All data is sealed with the current key: removes the notes of the others. */
export async function forgetOtherKeys(kernel: Notes): Promise<string[]> {
  const others = (await notedKeys(kernel)).filter((id) => id !== kernel.sealer.keyId)
  if (others.length > 0) await changeNotes(kernel, Object.fromEntries(others.map((id) => [prefix + id, null])))
  return others
}

export function lacking(ids: readonly string[]): RepriseError {
  const named = ids.map((id) => JSON.stringify(id)).join(', ')
  const what = `this store is encrypted with ${named}, which the key ring does not have`
  return new RepriseError('KEY_MISSING', what, { keys: [...ids] })
}

/** Runs SQL in the store's database, outside of any timeline of the user. */
export async function runInStore<Result>(kernel: Notes, userSql: (sql: Sql) => Promise<Result>): Promise<Result> {
  return (await change(kernel, { userSql })) as Result
}

/** Sets and removes attributes of `reprise/store`. */
export async function changeNotes(
  kernel: Notes,
  attributes: Readonly<Record<string, Attribute | null>>,
): Promise<void> {
  await change(kernel, { attributes })
}

async function change(kernel: Notes, what: Pick<Commit, 'attributes' | 'userSql'>): Promise<unknown> {
  const timeline = timelineId(storeTimeline) as TimelineId
  for (let attempt = 1; ; attempt++) {
    const [head] = await kernel.store.head([timeline])
    const [outcome] = await kernel.store.commit([
      {
        operation: newOperation(kernel.random),
        guard: { timeline, epoch: (head ?? (await kernel.store.past([timeline]))[0]!).epoch },
        take: { worker: 'opener' as WorkerId, from: 'dead', create: { digest: originDigest(kernel.hash, timeline) } },
        ...what,
        release: true,
      },
    ])
    if (outcome?.ok) return outcome.sqlResult
    if (outcome?.code === 'RIDER_FAILED') throw outcome.cause
    // Another process changed a note at the same moment.
    if (attempt >= attemptsMax) throw new RepriseError('STORE_BUSY', `${timeline}: ${outcome?.reason}`, { timeline })
  }
}
