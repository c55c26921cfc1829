// Is the file that is open still the one that others open? A file that was moved, removed or replaced goes on being written
// by whoever has it open, and so does a write-ahead log that another process removed because it could not see us (any
// open and close of the file in this process, by another library or by hand, lets go of our locks). What is written there
// is durable, and lost. So before anybody is told "durable", both names must still lead to where they led.

import { type Stats, statSync } from 'node:fs'
import { RepriseError } from '../../core/errors.ts'

export class InPlace {
  readonly #file: string
  readonly #main: Stats | undefined
  readonly #hasLog: boolean
  #log: Stats | undefined

  /** To be made when the file is open: from here on neither of the two may change. `hasLog`: the log is looked at as well. */
  constructor(file: string, hasLog = true) {
    this.#file = file
    this.#hasLog = hasLog
    this.#main = look(file)
    this.#log = look(`${file}-wal`)
  }

  /** Throws STORE_MOVED. */
  check(): void {
    const log = look(`${this.#file}-wal`)
    this.#log ??= log
    if (isSame(this.#main, look(this.#file)) && (!this.#hasLog || isSame(this.#log, log))) return
    throw new RepriseError('STORE_MOVED', `${this.#file}, or the log beside it, is no longer the file that is open`, {
      file: this.#file,
    })
  }
}

function look(file: string): Stats | undefined {
  return statSync(file, { throwIfNoEntry: false })
}

function isSame(before: Stats | undefined, now: Stats | undefined): boolean {
  return before?.ino === now?.ino && before?.dev === now?.dev
}
