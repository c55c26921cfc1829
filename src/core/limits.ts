// The bounds of everything that grows. Each bound is tested on both sides.

/**
 * Rows of retired workers: a store keeps the newest `kept` rows and those of the last `keptMs`; the next retirement removes
 * the others. Every search for dead workers reads these rows, and programs that start often leave many.
 */
export const retiredWorkers = { kept: 200, keptMs: 600_000 } as const

/**
 * How long a store keeps the life of a forgotten id after `tidy`. An id that is used again later starts above every
 * remembered life, so it never reuses the life of an earlier use; its number may then differ after a restore.
 */
export const pastLives = { keptMs: 30 * 86_400_000 } as const

/**
 * More lives than one id can ever have had: where lives of forgotten ids are lost, an id without one starts this far above every
 * known life.
 */
export const raisedLives = 1_000_000

export interface Limits {
  /** Longest timeline id, in characters. */
  readonly idLength: number
  /** Largest encoded value (entry data, message, part of a checkpoint's state), in bytes, before compression. */
  readonly valueBytes: number
  /** Deepest nesting of a value. */
  readonly valueDepth: number
  /** Largest number of entries in one append. */
  readonly entriesPerAppend: number
  /** Largest run of entries that the group commit packs together, in bytes. */
  readonly runBytes: number
  /** Largest run of entries that the group commit packs together, in entries. */
  readonly runEntries: number
  /** Commits that may wait in the queue; further callers wait for room. */
  readonly queuedCommits: number
  /** Commits in one transaction. */
  readonly batchCommits: number
  /** Payload bytes in one transaction; a larger single commit is written alone. */
  readonly batchBytes: number
  /** Largest chunk, in bytes, as stored. */
  readonly chunkBytes: number
  /** A chunk may not grow by more than this factor when it is decompressed… */
  readonly inflateRatio: number
  /** …nor beyond this size. */
  readonly inflateBytes: number
  /** Largest stream of bytes in one save. Memory never holds the whole stream, but it holds the list of its chunks. */
  readonly streamBytes: number
  /** Searchable attributes of one timeline, and the length of a key and of a text value. */
  readonly attributes: number
  readonly attributeKeyLength: number
  readonly attributeTextLength: number
  /** Timelines that one list() returns without a limit. */
  readonly listedTimelines: number
  /** How deep forks of forks may nest. */
  readonly forkDepth: number
  /** Directories below one another in a captured or restored tree of files. */
  readonly treeDepth: number
  /** Names in a captured or restored tree of files, including excluded ones. */
  readonly treeNames: number
  /** How long the user's code inside a transaction may take, in milliseconds: the transaction holds locks meanwhile. */
  readonly userCodeMs: number
  /** Rows that one `rp.sql` returns, and how long it may take, in milliseconds. */
  readonly sqlRows: number
  readonly sqlMs: number
  /** Changes of one kind of resource that stay in memory for its watchers, and their approximate size in bytes. */
  readonly watchedChanges: number
  readonly watchedBytes: number
}

export const defaultLimits: Limits = {
  idLength: 512,
  valueBytes: 64 * 1024 * 1024,
  valueDepth: 1000,
  entriesPerAppend: 10_000,
  runBytes: 1024 * 1024,
  runEntries: 4096,
  queuedCommits: 10_000,
  batchCommits: 1024,
  batchBytes: 8 * 1024 * 1024,
  chunkBytes: 4 * 1024 * 1024,
  inflateRatio: 2000,
  inflateBytes: 64 * 1024 * 1024,
  streamBytes: 64 * 1024 * 1024 * 1024,
  attributes: 64,
  attributeKeyLength: 128,
  attributeTextLength: 2048,
  listedTimelines: 100_000,
  forkDepth: 64,
  treeDepth: 128,
  treeNames: 200_000,
  userCodeMs: 60_000,
  sqlRows: 100_000,
  sqlMs: 30_000,
  watchedChanges: 4096,
  watchedBytes: 16 * 1024 * 1024,
}
