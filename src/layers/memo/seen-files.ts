// What the files of a directory looked like at the last look, between processes: a second `reprise cache run` reads
// only what changed. It is a cache of a cache: whatever is wrong with it, files are read again.

import { timelineId, toHex } from '../../core/coordinate.ts'
import { ChunkHold } from '../../engine/checkpoint/chunk-hold.ts'
import { StateTimeline } from '../../engine/checkpoint/state-timeline.ts'
import { readValue, writeValue } from '../../engine/checkpoint/stored-value.ts'
import type { Kernel } from '../../engine/kernel.ts'
import { foldVersion } from './entry.ts'
import { FileDigests, type SeenFiles } from './files.ts'

/** No memo can have this name. */
const folder = 'memo/.files'

export class SeenFilesStore {
  readonly #kernel: Kernel
  readonly #directory: string

  constructor(kernel: Kernel, directory: string) {
    this.#kernel = kernel
    this.#directory = directory
  }

  async load(): Promise<FileDigests> {
    const seen = await this.#read().catch(() => ({}))
    return new FileDigests(this.#directory, this.#kernel.limits, seen)
  }

  /** Only if there is something new; never fails. */
  async save(digests: FileDigests): Promise<void> {
    if (!digests.hasNew) return
    await this.#write(digests.seen).catch(() => undefined)
  }

  get #id() {
    const { hash, codec } = this.#kernel
    return timelineId(`${folder}/${toHex(hash(codec.encode(this.#directory))).slice(0, 32)}`)
  }

  async #read(): Promise<SeenFiles> {
    const [newest] = await this.#kernel.store.checkpoints(this.#id)
    if (!newest || newest.invalid !== null || newest.foldVersion !== foldVersion) return {}
    const { value } = await readValue(this.#kernel, newest)
    const { directory, seen } = value as { readonly directory: string; readonly seen: SeenFiles }
    return directory === this.#directory ? seen : {}
  }

  async #write(seen: SeenFiles): Promise<void> {
    const taken = await StateTimeline.take(this.#kernel, this.#id)
    const hold = await ChunkHold.begin(this.#kernel)
    try {
      const written = await writeValue(this.#kernel, hold, null, () => ({ directory: this.#directory, seen }))
      const entry = { type: 'seen', data: { files: Object.keys(seen).length } }
      await taken.publish({ entry, ...written, foldVersion, baseId: null, trigger: 'memo' })
      await taken.retain({ checkpoints: 1, history: 'needed' }, foldVersion)
    } finally {
      hold.end()
      await taken.release()
    }
  }
}
