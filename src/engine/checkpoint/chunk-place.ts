// Where the chunks of a store live, as the store itself knows it: in the store, or in a folder that carries a mark. Whoever
// opens the store without that folder, or with another one, is told so before it reads a chunk. It would otherwise take
// every checkpoint for damaged.
//
// The note is a timeline without entries, `reprise/store`, whose attribute `$chunks` names the mark and where it was seen.

import { randomUUID } from 'node:crypto'
import { type OperationId, type TimelineId, timelineId, type WorkerId } from '../../core/coordinate.ts'
import { originDigest } from '../../core/entry-run.ts'
import { RepriseError } from '../../core/errors.ts'
import { forwardStore } from '../../core/forward.ts'
import type { Blobs, Hash, Store, StoreFacts } from '../../core/ports.ts'

export interface ChunkFolder {
  readonly path: string
  readonly blobs: Blobs
  /** The mark in the folder; null if there is none. */
  mark(): Promise<string | null>
  /** Puts one there, durable when it resolves; the one that is there if somebody was faster. */
  setMark(mark: string): Promise<string>
  /** The store whose chunks alone lie there; null if nobody can say. */
  owner(): Promise<string | null>
  setOwner(owner: string): Promise<void>
  /** They are of several stores, from now on and for good. */
  setShared(): Promise<void>
}

export interface PlacedStore {
  readonly store: Store
  /** No other store has chunks in the same place: what this one does not name, nobody does. */
  readonly isAlone: boolean
}

interface Note {
  readonly mark: string
  readonly at: string
}

const storeTimeline = 'reprise/store'
const chunksAttribute = '$chunks'

/** The store with the chunks of that folder, or, without it, with its own, or with none that can be touched. */
export async function withChunks(store: Store, hash: Hash, folder: ChunkFolder | null): Promise<PlacedStore> {
  const [head] = await store.head([timelineId(storeTimeline)])
  const note = noteOf(head?.attributes[chunksAttribute])
  if (!folder) return { store: note ? forwardStore(store, { blobs: unseen(note) }) : store, isAlone: true }
  const mark = await folder.mark()
  const facts = await store.facts()
  const placed = forwardStore(store, { blobs: folder.blobs })
  if (note) {
    if (mark !== note.mark) throw notThese(folder.path, note)
    return { store: placed, isAlone: await isAlone(folder, note, facts) }
  }
  if ((await store.blobs.list(null, 1)).length > 0) {
    const what = `this store has chunks of its own: with ${folder.path} they would be out of sight`
    throw new RepriseError('INVALID_ARGUMENT', what, { blobs: folder.path })
  }
  // A store that was filled before folders were noted may keep its chunks elsewhere: an empty folder, perhaps a mistyped one,
  // is not taken for theirs.
  const isTheirs = mark !== null || !(await hasTimelines(store)) || (await folder.blobs.list(null, 1)).length > 0
  if (!facts.isReadOnly && isTheirs) {
    const own = mark ?? (await folder.setMark(randomUUID()))
    const noted: Note = { mark: own, at: folder.path }
    // Whoever finds chunks or a mark there cannot know that nobody else needs them.
    const isFirst = mark === null && (await folder.blobs.list(null, 1)).length === 0
    if (isFirst) await folder.setOwner(ownerOf(noted, facts))
    await write(store, hash, head?.epoch ?? 0, noted)
    return { store: placed, isAlone: await isAlone(folder, noted, facts) }
  }
  return { store: placed, isAlone: false }
}

/**
 * A copy of the database knows the same note and lies elsewhere. It says so in the folder, as does any other store that comes
 * to it: from then on neither takes what it does not name for garbage.
 */
async function isAlone(folder: ChunkFolder, note: Note, facts: StoreFacts): Promise<boolean> {
  const owner = await folder.owner()
  // Stores in memory all lie in the same place.
  if (owner !== null && owner === ownerOf(note, facts)) return facts.kind !== 'memory'
  if (owner !== null && !facts.isReadOnly) await folder.setShared()
  return false
}

function ownerOf({ mark }: Note, { location }: StoreFacts): string {
  return `${mark} ${location}`
}

async function hasTimelines(store: Store): Promise<boolean> {
  return (await store.timelines({ limit: 1 })).length > 0
}

/** Two that open a new store at once: one of them notes it, and both found the same mark in the folder. */
async function write(store: Store, hash: Hash, epoch: number, note: Note): Promise<void> {
  const timeline = timelineId(storeTimeline) as TimelineId
  const [outcome] = await store.commit([
    {
      operation: randomUUID() as string as OperationId,
      guard: { timeline, epoch },
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

function notThese(path: string, note: Note): RepriseError {
  const what = `${path} does not hold the chunks of this store: they were last in ${note.at}`
  return new RepriseError('CHUNKS_ELSEWHERE', what, { blobs: path, expected: note.at })
}

/** Whoever reads, writes or sweeps a chunk is told; what needs none (heads, history, mail) works. */
function unseen(note: Note): Blobs {
  const refuse = (): never => {
    const what = `the chunks of this store lie in a folder, last seen at ${note.at}, which was not named`
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
