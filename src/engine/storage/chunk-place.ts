// Where the chunks of a store are, as recorded in the store itself: in the store, or in a folder that carries a mark. A
// process that opens the store without that folder, or with another one, gets an error before it reads a chunk.
// Otherwise it would report every checkpoint as damaged.
// The note is a timeline without entries, `reprise/store`, whose attribute `$chunks` names the mark and where it was
// seen. In a store from before there were notes, the chunks that its checkpoints name are checked
// before a first chunk is put: a place that lacks them is refused, and nothing is recorded.

import { randomUUID } from 'node:crypto'
import { resolve } from 'node:path'
import { chunksOf, decodeManifest } from '../../core/checkpoint/manifest.ts'
import { type Digest, type OperationId, type TimelineId, timelineId, type WorkerId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { originDigest } from '../../core/history/entry-run.ts'
import { isWrapped } from '../../core/history/wrapped-record.ts'
import { isRedundancy } from '../../core/store/blobs.ts'
import type { Blobs, Hash, ManifestRecord, Store, StoreFacts } from '../../core/store/ports.ts'
import { forwardBlobs, forwardStore } from '../../core/store/store-wrapper.ts'
import { systemClock } from '../base/platform.ts'
import { Yielder } from '../base/yielder.ts'
import { headsIn } from './heads.ts'
import { isSegment } from './segment-catalog.ts'
import type { TierRequests } from './tiered-blobs.ts'

export interface ChunkFolder {
  readonly path: string
  /** Requests made so far, where they cost money (tools/housekeeping/blob-tiers.ts). */
  readonly meter?: TierRequests
  /** A missing folder reads as empty; the first put creates it. */
  readonly blobs: Blobs
  exists(): Promise<boolean>
  /** Creates the folder if it is missing. */
  make(): Promise<void>
  /** The mark in the folder. Null: none. */
  mark(): Promise<string | null>
  /** Writes a mark, durable when it resolves. Returns the existing mark if another process recorded one first. */
  setMark(mark: string): Promise<string>
  /** The only store with chunks there. Null: unknown. */
  owner(): Promise<string | null>
  setOwner(owner: string): Promise<void>
  /** Records permanently that several stores have chunks there. */
  setShared(): Promise<void>
}

export interface PlacedStore {
  readonly store: Store
  /** No other store has chunks in the same place: chunks that this store does not name are garbage. */
  readonly isAlone: boolean
  /** Requests made to the object store of its chunks. */
  readonly requests?: TierRequests | undefined
}

interface Note {
  readonly mark: string
  readonly at: string
}

const storeTimeline = 'reprise/store'
const chunksAttribute = '$chunks'

/** The store with the chunks of that folder; without a folder, with its own chunks, or with none that can be accessed. */
export async function withChunks(
  store: Store,
  hash: Hash,
  folder: ChunkFolder | null,
  /** The caller confirms that the previous content is lost permanently: the folder is accepted as it is. */
  isLost = false,
): Promise<PlacedStore> {
  const [head] = await store.head([timelineId(storeTimeline)])
  const note = noteOf(head?.attributes[chunksAttribute])
  if (!folder) return { store: note ? over(store, unseen(note)) : await withOwnChunks(store), isAlone: true }
  const mark = await folder.mark()
  const facts = await store.upkeep.facts()
  const blobs = folder.blobs.isDurable ? besideStore(folder.blobs, store.blobs) : folder.blobs
  const placed = over(store, blobs)
  if (note) {
    if (mark !== note.mark) {
      const error = await misplaced(folder, mark, note)
      if (!isLost || error.code !== 'CHUNKS_GONE') throw error
      return { store: placed, isAlone: await adopt(store, hash, folder, facts) }
    }
    return { store: placed, isAlone: await isAlone(folder, note, facts) }
  }
  if ((await store.blobs.list(null, 1)).length > 0) {
    const what = `this store contains chunks, which ${folder.path} would hide`
    throw new RepriseError('INVALID_ARGUMENT', what, { blobs: folder.path })
  }
  const noteFolder = () => adopt(store, hash, folder, facts)
  if (!(await hasTimelines(store))) {
    return { store: placed, isAlone: facts.isReadOnly ? false : await noteFolder() }
  }
  // A store filled before folders were recorded may keep its chunks elsewhere: an empty folder, perhaps mistyped, is
  // not accepted as their place.
  const isEmpty = mark === null && (await folder.blobs.list(null, 1)).length === 0
  if (isEmpty) {
    const put = checkedBeforePut(store, blobs, async (named) => {
      if (await isNoted(store, folder)) return
      if (named && !(await lies(folder.blobs, named))) throw nowhere(folder.path)
      await noteFolder()
    })
    return { store: over(store, put), isAlone: false }
  }
  const named = await findNamedChunk(store)
  if (named?.digest && !(await lies(folder.blobs, named))) throw nowhere(folder.path)
  return { store: placed, isAlone: facts.isReadOnly ? false : await noteFolder() }
}

/** The chunks of a folder are not part of a frozen store: a collector keeps them for the grace period. */
function over(store: Store, blobs: Blobs): Store {
  const freeze = async () => {
    const frozen = await store.freeze()
    return frozen && forwardStore(frozen, { blobs })
  }
  return forwardStore(store, { blobs, freeze })
}

/** Copies of catalog entries are small and stay with the catalog: elsewhere, each would cost a request. */
function besideStore(chunks: Blobs, own: Blobs): Blobs {
  const both = async <T>(digests: readonly Digest[], ask: (blobs: Blobs, some: readonly Digest[]) => Promise<T[]>) => {
    const ofChunks = digests.filter((digest) => !isRedundancy(digest))
    const ofStore = digests.filter(isRedundancy)
    return [
      ...(ofChunks.length > 0 ? await ask(chunks, ofChunks) : []),
      ...(ofStore.length > 0 ? await ask(own, ofStore) : []),
    ]
  }
  /** In the order requested, from whichever of the two has them. */
  const each = async <T>(digests: readonly Digest[], ask: (blobs: Blobs, some: readonly Digest[]) => Promise<T[]>) => {
    const found = await both(digests, ask)
    let [chunk, other] = [0, digests.filter((digest) => !isRedundancy(digest)).length]
    return digests.map((digest) => found[isRedundancy(digest) ? other++ : chunk++]!)
  }
  return forwardBlobs(chunks, {
    ...(own.of && { of: (timeline) => own.of!(timeline) }),
    async put(all, at) {
      const ofStore = all.filter(({ digest }) => isRedundancy(digest))
      const ofChunks = all.filter(({ digest }) => !isRedundancy(digest))
      if (ofChunks.length > 0) await chunks.put(ofChunks, at)
      if (ofStore.length > 0) await own.put(ofStore, at)
    },
    touch: (digests, at) => both(digests, (blobs, some) => blobs.touch(some, at)),
    get: (digests) => each(digests, (blobs, some) => blobs.get(some)),
    has: (digests) => each(digests, async (blobs, some) => (await blobs.has?.(some)) ?? some.map(() => true)),
    async list(after, limit) {
      const rows = after !== null && isRedundancy(after) ? [] : await chunks.list(after, limit)
      return rows.length >= limit ? rows : [...rows, ...(await own.list(after, limit - rows.length))]
    },
    async delete(digests, touchedBefore) {
      const counts = await both(digests, async (blobs, some) => [await blobs.delete(some, touchedBefore)])
      return counts.reduce((sum, count) => sum + count, 0)
    },
  })
}

export async function notesItsFolder(store: Store): Promise<boolean> {
  const [head] = await store.head([timelineId(storeTimeline)])
  return noteOf(head?.attributes[chunksAttribute]) !== null
}

/** Records the folder as the place of this store's chunks. @returns whether no other store uses it. */
async function adopt(store: Store, hash: Hash, folder: ChunkFolder, facts: StoreFacts): Promise<boolean> {
  const mark = await folder.mark()
  // Chunks or a mark found there may belong to another store.
  const isFirst = mark === null && (await folder.blobs.list(null, 1)).length === 0
  await folder.make()
  const noted: Note = { mark: mark ?? (await folder.setMark(randomUUID())), at: folder.path }
  if (isFirst) await folder.setOwner(ownerOf(noted, facts))
  const [head] = await store.head([timelineId(storeTimeline)])
  await write(store, hash, head?.epoch ?? 0, noted)
  return await isAlone(folder, noted, facts)
}

/** A store without a note and without a chunk may be one from before folders were recorded, opened without its folder. */
async function withOwnChunks(store: Store): Promise<Store> {
  // Sets of shards were introduced after the notes, so they need no upgrade; and one shard may be unreachable.
  if (store.shards) return store
  if ((await store.blobs.list(null, 1)).length > 0 || !(await hasTimelines(store))) return store
  const blobs = checkedBeforePut(store, store.blobs, async (named) => {
    // The store had no chunks when it was opened: those that exist now were put into the store itself.
    if (named && (await store.blobs.list(null, 1)).length === 0) throw nowhere(null)
  })
  return forwardStore(store, { blobs })
}

/** Another process recorded the folder since this one opened the store. */
async function isNoted(store: Store, folder: ChunkFolder): Promise<boolean> {
  const [head] = await store.head([timelineId(storeTimeline)])
  const note = noteOf(head?.attributes[chunksAttribute])
  return note !== null && note.mark === (await folder.mark())
}

/** True if the chunk exists by now: another process may have put it since this one opened the store. */
async function lies(blobs: Blobs, { digest }: NamedChunk): Promise<boolean> {
  return digest !== null && (await blobs.get([digest]))[0] !== null
}

/** Before the first put: checks the chunks that the store's checkpoints name. Checked again as long as the check refuses. */
function checkedBeforePut(store: Store, blobs: Blobs, answer: (named: NamedChunk | null) => Promise<void>): Blobs {
  let answered: Promise<void> | null = null
  const ask = async () => {
    answered ??= findNamedChunk(store).then(answer)
    try {
      await answered
    } catch (error) {
      answered = null
      throw error
    }
  }
  return forwardBlobs(blobs, {
    put: async (...given) => {
      await ask()
      await blobs.put(...given)
    },
  })
}

/**
 * A copy of the database has the same note but another location. It records this in the folder, as does any other store
 * that uses the folder: from then on, neither treats chunks that it does not name as garbage.
 */
async function isAlone(folder: ChunkFolder, note: Note, facts: StoreFacts): Promise<boolean> {
  const owner = await folder.owner()
  // Stores in memory all have the same location.
  if (owner !== null && owner === ownerOf(note, facts)) return facts.kind !== 'memory'
  if (owner !== null && !facts.isReadOnly) await folder.setShared()
  return false
}

function ownerOf({ mark }: Note, { location }: StoreFacts): string {
  return `${mark} ${location}`
}

/** A damaged timeline is treated as one. */
async function hasTimelines(store: Store): Promise<boolean> {
  try {
    return (await store.timelines({ limit: 1 })).length > 0
  } catch (error) {
    if (isReprise(error, 'STORE_DAMAGED')) return true
    throw error
  }
}

/** If two processes open a new store at once, one of them writes the note, and both found the same mark in the folder. */
async function write(store: Store, hash: Hash, epoch: number, note: Note): Promise<void> {
  const timeline = timelineId(storeTimeline) as TimelineId
  const last = epoch > 0 ? epoch : (await store.past([timeline]))[0]!.epoch
  const [outcome] = await store.commit([
    {
      operation: randomUUID() as string as OperationId,
      guard: { timeline, epoch: last },
      take: { worker: 'opener' as WorkerId, from: 'free', create: { digest: originDigest(hash, timeline) } },
      attributes: { [chunksAttribute]: JSON.stringify(note) },
      release: true,
    },
  ])
  if (outcome?.ok) return
  const [head] = await store.head([timeline])
  const other = noteOf(head?.attributes[chunksAttribute])
  if (other?.mark !== note.mark) throw notThese(note.at, other ?? note)
}

function noteOf(text: unknown): Note | null {
  if (typeof text !== 'string') return null
  return JSON.parse(text) as Note
}

/** Another folder than before, or its content is missing: an unmounted volume, an incomplete restore, a deletion. */
async function misplaced(folder: ChunkFolder, mark: string | null, note: Note): Promise<RepriseError> {
  const { path } = folder
  if (resolve(path) !== resolve(note.at)) return notThese(path, note)
  const others = mark !== null
  const left = !others && (await folder.blobs.list(null, 1)).length > 0
  const what = others
    ? `${path} now contains the chunks of another store; those of this store are missing`
    : left
      ? `${path} contains chunks without the mark of this store`
      : `${path} held the chunks of this store, and they are missing: ${(await folder.exists()) ? 'the folder is empty' : 'there is no such folder'}`
  return new RepriseError('CHUNKS_GONE', what, { blobs: path })
}

function notThese(path: string, note: Note): RepriseError {
  const what = `${path} does not hold the chunks of this store: they were last in ${note.at}`
  return new RepriseError('CHUNKS_ELSEWHERE', what, { blobs: path, expected: note.at })
}

function nowhere(path: string | null): RepriseError {
  const where = path === null ? 'nor in a named folder' : `nor in ${path}`
  const what = `checkpoints of this store name chunks that are neither in it ${where}`
  return new RepriseError('CHUNKS_ELSEWHERE', what, { blobs: path })
}

/** Every access to a chunk is refused with the reason; heads, history and mail need no chunks and work. */
function unseen(note: Note): Blobs {
  const refuse = (): never => {
    const what = `the chunks of this store are in a folder, last seen at ${note.at}, which was not named`
    throw new RepriseError('CHUNKS_ELSEWHERE', what, { expected: note.at })
  }
  return {
    put: async () => refuse(),
    touch: async () => refuse(),
    get: async (digests) => (digests.length === 0 ? [] : refuse()),
    has: async (digests) => (digests.length === 0 ? [] : refuse()),
    list: async () => refuse(),
    delete: async () => refuse(),
    rewrite: async () => refuse(),
  }
}

interface NamedChunk {
  /** Null: there is a chunk, and only the keys of the store reveal which. */
  readonly digest: Digest | null
}

/**
 * A chunk that some checkpoint names; null: no checkpoint needs a chunk. Catalogs are read until the first one; a store whose
 * checkpoints name no chunk is read completely, once, before its first chunk.
 */
async function findNamedChunk(store: Store): Promise<NamedChunk | null> {
  if (!(await store.upkeep.hasCheckpoints())) return null
  const yielder = new Yielder(systemClock)
  let hidden: NamedChunk | null = null
  for await (const { timeline } of headsIn(store)) {
    if (yielder.isDue) await yielder.take()
    for (const record of await store.checkpoints(timeline)) {
      // History in a colder tier does not show where the other chunks are stored.
      const named = isSegment(record) ? null : namedBy(record)
      if (named?.digest) return named
      hidden ??= named
    }
  }
  return hidden
}

function namedBy(record: ManifestRecord): NamedChunk | null {
  // Content in the manifest itself counts in both sizes.
  if (isWrapped(record.body)) return record.totalBytes > record.body.length ? { digest: null } : null
  try {
    const [first] = chunksOf(decodeManifest(record.body))
    return first ? { digest: first.digest } : null
  } catch (error) {
    // A restore of this checkpoint reports the damage.
    if (isReprise(error, 'MALFORMED')) return null
    throw error
  }
}
