// Checks that the open file is still the one under its name. A process keeps writing to a file that was moved, removed or
// replaced, and to a write-ahead log that another process removed because it did not see our locks (any open and close of the
// file in this process, by another library or by hand, releases them). Such writes are durable, but lost. So before a commit
// is reported as durable, both names must still lead to the same files.
//
// Names change in the folder, so usually only the folder is checked, and the two files when it has changed. Checking the
// write-ahead log each time made an append 17 µs slower, of 75 (Linux 6.18, ext4; bench/README.md): probably because, with fine
// timestamps, the write after a stat renews the inode, and the fsync waits for that.

import { type Stats, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { RepriseError } from '../../../core/errors.ts'

// Save the original before the guard installs its replacements, which determine the caller on each call.
const stat = statSync
const { now } = Date

/** The files are checked after this long in any case: a mount over one of them does not change the folder. */
const trustedMs = 100
/** A folder change this shortly before a check may share its timestamp with a later one; longer for coarse timestamps. */
const fineMs = 50
const coarseMs = 2500

export class InPlace {
  readonly #file: string
  readonly #logFile: string
  readonly #folderPath: string
  readonly #main: Stats | undefined
  readonly #hasLog: boolean
  #log: Stats | undefined
  /** The folder's state when both files were last found in place; undefined: unknown. */
  #folder: Stats | undefined
  #lookedAt = 0

  /** Construct it when the file is open: from then on neither file may change. `hasLog`: check the log as well. */
  constructor(file: string, hasLog = true) {
    this.#file = file
    this.#logFile = `${file}-wal`
    this.#folderPath = dirname(file)
    this.#hasLog = hasLog
    this.#main = look(file)
    this.#log = look(this.#logFile)
  }

  /** Throws STORE_MOVED. */
  check(): void {
    const time = now()
    const folder = look(this.#folderPath)
    const isRecent = time - this.#lookedAt < trustedMs && time >= this.#lookedAt
    if (isRecent && this.#folder && folder && isUnchanged(this.#folder, folder)) return
    this.#checkFiles()
    this.#lookedAt = time
    // The folder was read before the files: a change to them meanwhile is detected the next time.
    this.#folder = folder && isSettled(folder, time) ? folder : undefined
  }

  #checkFiles(): void {
    const log = look(this.#logFile)
    this.#log ??= log
    if (isSame(this.#main, look(this.#file)) && (!this.#hasLog || isSame(this.#log, log))) return
    throw new RepriseError('STORE_MOVED', `${this.#file}, or its write-ahead log, is no longer the open file`, {
      file: this.#file,
    })
  }
}

const mayBeMissing = { throwIfNoEntry: false } as const

function look(path: string): Stats | undefined {
  return stat(path, mayBeMissing)
}

function isSame(before: Stats | undefined, after: Stats | undefined): boolean {
  return before?.ino === after?.ino && before?.dev === after?.dev
}

/** No name in it was added, removed or changed: that moves both times, and the second one cannot be set back. */
function isUnchanged(before: Stats, after: Stats): boolean {
  return isSame(before, after) && before.mtimeMs === after.mtimeMs && before.ctimeMs === after.ctimeMs
}

function isSettled({ mtimeMs, ctimeMs }: Stats, time: number): boolean {
  const isCoarse = mtimeMs % 1000 === 0 || ctimeMs % 1000 === 0
  return time - Math.max(mtimeMs, ctimeMs) > (isCoarse ? coarseMs : fineMs)
}
