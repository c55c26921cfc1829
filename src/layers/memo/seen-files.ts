// Metadata and digests of a directory's files, shared between processes: a second `reprise cache run` reads only changed
// files. If this cache is unusable, the files are read again.

import { timelineId, toHex } from '../../core/coordinate.ts'
import { ChunkHold } from '../../engine/storage/chunk-hold.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { StateTimeline } from '../../engine/writing/state-timeline.ts'
import { readStream, readValue, writeValue } from '../../engine/writing/stored-value.ts'
import { foldVersion } from './entry.ts'
import { FileDigests } from './files.ts'
import { SeenFolders, type StoredBriefs, type StoredDetails } from './seen-folders.ts'

/** No memo can have this name. */
const folder = 'memo/.files'

/** The value; the details are stored as its stream. */
interface Stored {
  readonly directory: string
  readonly folders: StoredBriefs
}

export class SeenFilesStore {
  readonly #kernel: Kernel
  readonly #directory: string

  constructor(kernel: Kernel, directory: string) {
    this.#kernel = kernel
    this.#directory = directory
  }

  async load(): Promise<FileDigests> {
    const seen = await this.#read().catch(() => new SeenFolders())
    return new FileDigests(this.#directory, this.#kernel.limits, seen)
  }

  /** Saves only new information; never fails. */
  async save({ seen }: FileDigests): Promise<void> {
    if (!seen.hasNew) return
    await this.#write(seen).catch(() => undefined)
  }

  get #id() {
    const { hash, codec } = this.#kernel
    return timelineId(`${folder}/${toHex(hash(codec.encode(this.#directory))).slice(0, 32)}`)
  }

  async #read(): Promise<SeenFolders> {
    const [newest] = await this.#kernel.store.checkpoints(this.#id)
    if (!newest || newest.invalid !== null || newest.foldVersion !== foldVersion) return new SeenFolders()
    // The details are checked when they are read, which is rare.
    const { value, stream } = await readValue(this.#kernel, newest, { unverified: true })
    const { directory, folders } = value as Partial<Stored>
    if (directory !== this.#directory || !folders) return new SeenFolders()
    return new SeenFolders(folders, async () => {
      const pieces: Uint8Array[] = []
      for await (const piece of readStream(this.#kernel, stream)) pieces.push(piece)
      return this.#kernel.codec.decode(Buffer.concat(pieces)) as StoredDetails
    })
  }

  async #write(seen: SeenFolders): Promise<void> {
    const { briefs, details } = await seen.stored(this.#directory)
    const taken = await StateTimeline.take(this.#kernel, this.#id)
    const hold = await ChunkHold.begin(this.#kernel)
    try {
      const stream = this.#kernel.codec.encode(details)
      const value: Stored = { directory: this.#directory, folders: briefs }
      const written = await writeValue(this.#kernel, hold, stream, () => value)
      const entry = { type: 'seen', data: { folders: details.length } }
      await taken.publish({ entry, ...written, foldVersion, baseId: null, trigger: 'memo' })
      await taken.retain({ checkpoints: 1, history: 'needed' }, foldVersion)
    } finally {
      hold.end()
      await taken.release()
    }
  }
}
