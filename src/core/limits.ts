// Whatever grows has its bound here. Each bound has a test on both sides of it.

/**
 * Rows of workers that were retired: a store keeps the newest of them, and those of the last minutes. The others are forgotten by
 * the next retirement. They are read with every look for dead workers, and programs that start often leave many.
 */
export const retiredWorkers = { kept: 200, keptMs: 600_000 } as const

/**
 * How long a store remembers the life of an id that was forgotten, after `tidy`. An id that is used again later starts above
 * every life that was remembered, so it never has the life of an earlier use; its number may then differ after a restore.
 */
export const pastLives = { keptMs: 30 * 86_400_000 } as const

export interface Limits {
  /** Longest timeline id, in characters. */
  readonly idLength: number
  /** Largest encoded value (entry data, message, part of a checkpoint's value), in bytes, before compression. */
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
  /** Commits that go in one transaction. */
  readonly batchCommits: number
  /** Bytes of payload that go in one transaction; a larger single commit still goes, alone. */
  readonly batchBytes: number
  /** Largest chunk, in bytes, as stored. */
  readonly chunkBytes: number
  /** A chunk may not grow by more than this factor when it is decompressed… */
  readonly inflateRatio: number
  /** …nor beyond this size. */
  readonly inflateBytes: number
  /** Largest stream of bytes in one save. It is never whole in memory, but the list of its chunks is. */
  readonly streamBytes: number
  /** Searchable attributes of one timeline, and the length of a key and of a text value. */
  readonly attributes: number
  readonly attributeKeyLength: number
  readonly attributeTextLength: number
  /** Timelines that one list() gives without a limit. */
  readonly listedTimelines: number
  /** How deep forks of forks may nest. */
  readonly forkDepth: number
  /** Directories below one another in a captured or restored tree of files. */
  readonly treeDepth: number
  /** Names in a captured or restored tree of files, those that are left alone included. */
  readonly treeNames: number
  /** How long the user's code inside a transaction may take, in milliseconds: it holds locks meanwhile. */
  readonly userCodeMs: number
  /** Rows that one `rp.sql` gives, and how long it may take, in milliseconds. */
  readonly sqlRows: number
  readonly sqlMs: number
  /** Changes of one kind of resource that are kept in memory for its watchers, and about how many bytes of them. */
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
