// A write of one timeline on its way to the store: its commit, and the requests that wait for it.

import type { Commit, EntryRun, Outcome } from '../../core/store/ports.ts'
import type { Entry } from '../model/entry.ts'
import type { PreparedCommit } from '../storage/batches.ts'
import { sizeOf } from '../storage/committer.ts'

/** The owner of a write. `Taken`: the requests in the write. */
interface WriteOwner<Taken> {
  settle(outcome: Outcome, write: PreparedWrite<Taken>): void
  fail(error: unknown, taken: Taken): void
}

/** One object per commit, without closures: a thousand of them are alive at once, and the garbage collector copies them. */
export class PreparedWrite<Taken> implements PreparedCommit {
  readonly commit: Commit
  readonly bytes: number
  readonly run: EntryRun | null
  readonly taken: Taken
  readonly entries: readonly Entry[]
  readonly #writer: WriteOwner<Taken>

  constructor(
    writer: WriteOwner<Taken>,
    commit: Commit,
    run: EntryRun | null,
    taken: Taken,
    entries: readonly Entry[],
  ) {
    this.#writer = writer
    this.commit = commit
    this.bytes = sizeOf(commit)
    this.run = run
    this.taken = taken
    this.entries = entries
  }

  settle(outcome: Outcome): void {
    this.#writer.settle(outcome, this)
  }

  fail(error: unknown): void {
    this.#writer.fail(error, this.taken)
  }
}
