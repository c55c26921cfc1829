// Results as files in a folder, one per checkpoint: written under a temporary name, made durable, and renamed when the
// checkpoint is published. A file with its final name is therefore whole and final, and each result is in exactly one file.

import { open, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import { checkGivenOptions, checkText, namesOf } from '../../../core/options.ts'
import { checkFunctions, synchronous } from '../../../core/synchronous.ts'
import { codeOf, isMissing, makeFolders, syncFolder } from '../../../lib/durable-file.ts'
import type { Batch } from '../batch.ts'
import { type CutId, type Prepared, type Sink, type SinkWriter, Waiting } from '../sink.ts'

export interface FilesOptions<T> {
  /**
   * The folder is created if missing. Several sinks may share it: file names begin with the names of their sink and pipeline.
   */
  readonly folder: string
  /** Formats a line of the file. Default: JSON. */
  readonly line?: (value: T) => string
  /** The suffix of file names. Default: '.jsonl'. */
  readonly extension?: string
}

const asideEnd = '.part'

interface PreparedFile {
  readonly aside: string
  readonly final: string
}

/** @example fileSink<Total>({ folder: 'out' }) // out/totals@revenue-00000001-00000003.jsonl, … */
export function fileSink<T>(options: FilesOptions<T>): Sink<T> {
  checkGivenOptions('fileSink', options, namesOf<FilesOptions<never>>()('folder line extension'))
  checkText('fileSink: folder', options.folder)
  checkFunctions('fileSink', options, [], ['line'])
  const { folder, extension = '.jsonl' } = options
  return {
    async open({ pipeline, name }, listed) {
      makeFolders(folder)
      // Neither name contains an @.
      const prefix = [name, ...pipeline.split('/').slice(1)].join('@')
      const writer = new FilesWriter<T>({ ...options, folder, extension, prefix })
      if (listed !== null) await writer.commit(listed)
      // A file that no checkpoint lists was never published.
      for (const file of await readdir(folder)) {
        if (file.startsWith(`${prefix}-`) && file.endsWith(asideEnd)) await rm(join(folder, file))
      }
      return writer
    },
  }
}

class FilesWriter<T> implements SinkWriter {
  readonly #folder: string
  readonly #prefix: string
  readonly #extension: string
  readonly #line: (value: T) => string
  readonly #waiting = new Waiting<T>()

  constructor(options: FilesOptions<T> & { readonly extension: string; readonly prefix: string }) {
    this.#prefix = options.prefix
    this.#folder = options.folder
    this.#extension = options.extension
    const line = options.line ?? ((value: T) => JSON.stringify(value))
    this.#line = synchronous(line, 'line of fileSink()', 'use call() before the sink')
  }

  get pending(): number {
    return this.#waiting.count
  }

  write(batch: Batch): void {
    this.#waiting.add(batch.values)
  }

  cut({ checkpoint, epoch }: CutId): () => Promise<Prepared> {
    const values = this.#waiting.cut()
    return async () => {
      if (values.length === 0) return null
      const number = (n: number) => String(n).padStart(8, '0')
      // With the epoch in its name, a file of a fenced owner is never mistaken for one of this owner.
      const final = `${this.#prefix}-${number(epoch)}-${number(checkpoint)}${this.#extension}`
      const aside = `${final}${asideEnd}`
      await writeDurably(join(this.#folder, aside), values.map((value) => `${this.#line(value)}\n`).join(''))
      return { aside, final } satisfies PreparedFile
    }
  }

  /** A repeated commit finds the file under its final name. */
  async commit(prepared: Prepared): Promise<void> {
    this.#waiting.settle()
    if (prepared === null || prepared === undefined) return
    const { aside, final } = prepared as PreparedFile
    const [from, to] = [join(this.#folder, aside), join(this.#folder, final)]
    try {
      await rename(from, to)
    } catch (error) {
      if (!isMissing(error) || !(await exists(to))) throw lost(to, error)
    }
    await syncFolder(this.#folder).catch((error) => {
      // Some systems cannot sync a folder.
      if (!['EISDIR', 'EINVAL', 'EPERM'].includes(codeOf(error))) throw error
    })
  }

  rejoin(): void {
    this.#waiting.rejoin()
  }

  async close(): Promise<void> {}
}

async function writeDurably(path: string, text: string): Promise<void> {
  const file = await open(path, 'w')
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  )
}

function lost(path: string, error: unknown): unknown {
  if (isReprise(error)) return error
  const what = `${path} cannot be moved to its final name: ${(error as Error).message}; its checkpoint is published, so the file must not be lost`
  return new RepriseError('STORE_IO', what, { path }, error)
}
