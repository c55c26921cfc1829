// The folder of a mirror: files of records (core/history/mirror-record.ts), named by their writer and in order. One process
// appends to a file, and any process reads it. Later records take precedence over earlier ones of the same run.

import { type FileHandle, mkdir, open as openFile, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { TimelineId } from '../../../core/coordinate.ts'
import { lastSeq } from '../../../core/history/entry-run.ts'
import { encodeRecord, type MirrorRecord, recordAt, scanRecords } from '../../../core/history/mirror-record.ts'
import { liveIdOf } from '../../../core/history/scope.ts'
import { type EntryRun, type FeedPosition, feedStart, type Hash } from '../../../core/store/ports.ts'
import { isExisting, isMissing, syncFolder } from '../../../lib/durable-file.ts'
import type { Point } from '../../history/history.ts'

const fileName = /^(\d{12})-(\d{6})\.runs$/
const fileBytesMax = 16 * 1024 * 1024
const attemptsMax = 10

interface Place {
  readonly file: string
  readonly offset: number
  readonly size: number
}

/** The content of a mirror's files when it was opened. */
export interface MirrorContent {
  readonly files: readonly string[]
  readonly bytes: number
  readonly runs: number
  /** Bytes lost to damage, not counting an unfinished record. */
  readonly lostBytes: number
  /** All runs up to this position are in the mirror; the start: none is known to be. */
  readonly position: FeedPosition
  /** The sign of the last start (core/history/mirror-record.ts); null: there was none. */
  readonly sign: string | null
  /** Files from before the last start: they are removed when the end of the feed is reached. */
  readonly replaced: readonly string[]
  /** The last written run. */
  readonly last: { readonly timeline: TimelineId; readonly point: Point } | null
  has(timeline: TimelineId, first: number): boolean
  /**
   * Runs that begin right after this sequence, the last written first: a timeline that was rolled back has several, and its
   * archives had its name when they were written.
   */
  runsAfter(timeline: TimelineId, seq: number): Promise<EntryRun[]>
}

/** Oldest first. */
export async function filesIn(path: string): Promise<string[]> {
  return (await readdir(path)).filter((name) => fileName.test(name)).sort()
}

/** Throws the file system's error if there is no such folder. */
export async function readMirror(hash: Hash, path: string): Promise<MirrorContent> {
  for (let attempt = 1; ; attempt++) {
    const files = await filesIn(path)
    try {
      return await readFiles(hash, path, files)
    } catch (error) {
      // The mirror was rewritten meanwhile, and this file was removed.
      if (!isMissing(error) || attempt >= attemptsMax) throw error
    }
  }
}

async function readFiles(hash: Hash, path: string, files: readonly string[]): Promise<MirrorContent> {
  const index = new Map<string, Map<number, Place[]>>()
  const count = { bytes: 0, runs: 0, lostBytes: 0 }
  let position: FeedPosition = feedStart
  let sign: string | null = null
  let replaced: readonly string[] = []
  let last: MirrorContent['last'] = null
  for (const file of files) {
    const bytes = await readFile(join(path, file))
    const { records, lostBytes } = scanRecords(hash, bytes)
    count.bytes += bytes.length
    count.lostBytes += lostBytes
    for (const { record, offset, size } of records) {
      if (record.kind === 'position') {
        position = record.position
        continue
      }
      if (record.kind === 'start') {
        sign = record.sign
        position = feedStart
        replaced = files.slice(0, files.indexOf(file))
        continue
      }
      const { timeline, run } = record
      last = { timeline, point: { seq: lastSeq(run), digest: run.digest } }
      const name = liveIdOf(timeline)
      const runs = index.get(name) ?? new Map<number, Place[]>()
      count.runs += 1
      runs.set(run.first, [{ file, offset, size }, ...(runs.get(run.first) ?? [])])
      index.set(name, runs)
    }
  }
  return {
    ...{ files, ...count, position, sign, replaced, last },
    has: (timeline, first) => index.get(liveIdOf(timeline))?.has(first) ?? false,
    async runsAfter(timeline, seq) {
      const places = index.get(liveIdOf(timeline))?.get(seq + 1) ?? []
      return (await Promise.all(places.map((place) => readAt(hash, path, place)))).filter((run) => run !== null)
    },
  }
}

async function readAt(hash: Hash, path: string, { file, offset, size }: Place): Promise<EntryRun | null> {
  const handle = await openFile(join(path, file), 'r').catch(() => null)
  if (!handle) return null
  try {
    const bytes = new Uint8Array(size)
    await handle.read(bytes, 0, size, offset)
    const record = recordAt(hash, bytes, 0)?.record
    return record?.kind === 'run' ? record.run : null
  } finally {
    await handle.close()
  }
}

/** Appends to files of its own. */
export class MirrorFiles {
  readonly #hash: Hash
  readonly #path: string
  readonly #epoch: number
  #number = 0
  #file: FileHandle | null = null
  #bytes = 0

  constructor(hash: Hash, path: string, epoch: number) {
    this.#hash = hash
    this.#path = path
    this.#epoch = epoch
  }

  /** The records are durable when it resolves, unless `isDurable` is false. */
  async append(records: readonly MirrorRecord[], isDurable = true): Promise<number> {
    const bytes = Buffer.concat(records.map((record) => encodeRecord(this.#hash, record)))
    if (this.#file && this.#bytes + bytes.length > fileBytesMax) await this.close()
    this.#file ??= await this.#next()
    await this.#file.appendFile(bytes)
    if (isDurable) await this.#file.datasync()
    this.#bytes += bytes.length
    return bytes.length
  }

  async close(): Promise<void> {
    const file = this.#file
    this.#file = null
    await file?.close()
  }

  /** Removes files of earlier writers, and earlier files of this one, after everything was rewritten. */
  async removeBefore(files: readonly string[]): Promise<void> {
    for (const file of files) await rm(join(this.#path, file), { force: true })
  }

  async #next(): Promise<FileHandle> {
    this.#bytes = 0
    for (;;) {
      this.#number += 1
      const name = `${String(this.#epoch).padStart(12, '0')}-${String(this.#number).padStart(6, '0')}.runs`
      const file = await openFile(join(this.#path, name), 'ax').catch((error) => {
        if (!isExisting(error)) throw error
        return null
      })
      if (!file) continue
      await syncFolder(this.#path)
      return file
    }
  }
}

/** Creates only the last part of the path: if a disk is not mounted, the mirror must not be created on another one. */
export async function makeFolder(path: string): Promise<void> {
  await mkdir(path).catch((error) => {
    if (!isExisting(error)) throw error
  })
}
