// Is the file that is open still the one that others open? A file that was moved, removed or replaced goes on being written
// by whoever has it open, and so does a write-ahead log that another process removed because it could not see us (any
// open and close of the file in this process, by another library or by hand, lets go of our locks). What is written there
// is durable, and lost. So before anybody is told "durable", both names must still lead to where they led.
//
// Names change where they stand: in the folder. So mostly the folder alone is looked at, and the two files when it has
// changed. To look at the write-ahead log each time made an append 17 µs slower, of 75 (Linux 6.18, ext4; bench/README.md):
// probably since, with fine timestamps, the write after a look renews the inode, and the fsync waits for that.

import { type Stats, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { RepriseError } from '../../../core/errors.ts'

// Taken before the guard puts others in their place: those ask each time who calls.
const stat = statSync
const { now } = Date

/** The files are looked at after so long in any case: a folder does not tell of a file system mounted over one of them. */
const trustedMs = 100
/** A change of the folder this shortly before a look may share its timestamp with one after it; more where those are coarse. */
const fineMs = 50
const coarseMs = 2500

export class InPlace {
  readonly #file: string
  readonly #logFile: string
  readonly #folderPath: string
  readonly #main: Stats | undefined
  readonly #hasLog: boolean
  #log: Stats | undefined
  /** As it was when both files were last found in place; undefined: nothing can be told from it. */
  #folder: Stats | undefined
  #lookedAt = 0

  /** To be made when the file is open: from here on neither of the two may change. `hasLog`: the log is looked at as well. */
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
    // The folder was looked at before the files: what happens to them meanwhile is seen the next time.
    this.#folder = folder && isSettled(folder, time) ? folder : undefined
  }

  #checkFiles(): void {
    const log = look(this.#logFile)
    this.#log ??= log
    if (isSame(this.#main, look(this.#file)) && (!this.#hasLog || isSame(this.#log, log))) return
    throw new RepriseError('STORE_MOVED', `${this.#file}, or the log beside it, is no longer the file that is open`, {
      file: this.#file,
    })
  }
}

function look(path: string): Stats | undefined {
  return stat(path, { throwIfNoEntry: false })
}

function isSame(before: Stats | undefined, after: Stats | undefined): boolean {
  return before?.ino === after?.ino && before?.dev === after?.dev
}

/** No name was added, removed or changed in it: that moves both times, and nobody can set the second one back. */
function isUnchanged(before: Stats, after: Stats): boolean {
  return isSame(before, after) && before.mtimeMs === after.mtimeMs && before.ctimeMs === after.ctimeMs
}

function isSettled({ mtimeMs, ctimeMs }: Stats, time: number): boolean {
  const isCoarse = mtimeMs % 1000 === 0 || ctimeMs % 1000 === 0
  return time - Math.max(mtimeMs, ctimeMs) > (isCoarse ? coarseMs : fineMs)
}
