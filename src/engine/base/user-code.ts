// The user's code inside a transaction, as the engine passes it to the store: with a time limit, and marked, so that a
// write that it awaits is refused. Such a write would wait for the transaction that waits for it.

import { RepriseError } from '../../core/errors.ts'
import type { Clock, Commit } from '../../core/store/ports.ts'
import { runtime } from '../../lib/runtime/index.ts'

/** The running user code; that of one store may run inside that of another. */
interface Inside {
  readonly of: UserCode
  readonly outer: Inside | undefined
}

/** One for all engines: Node keeps every AsyncLocalStorage forever once used, and each promise pays for each of them. */
const insides = new runtime.AsyncContext<Inside>()

export class UserCode {
  readonly #clock: Clock
  readonly #limitMs: number

  constructor(clock: Clock, limitMs: number) {
    this.#clock = clock
    this.#limitMs = limitMs
  }

  /** The commit, with a time limit on its SQL. */
  bound(commit: Commit): Commit {
    const { userSql } = commit
    if (!userSql) return commit
    return {
      ...commit,
      userSql: (sql) =>
        this.#limit(insides.run({ of: this, outer: insides.getStore() }, async () => await userSql(sql))),
    }
  }

  /** The error for a write that user code of this engine makes inside its transaction; null outside of one. */
  refusal(): RepriseError | null {
    let inside = insides.getStore()
    while (inside && inside.of !== this) inside = inside.outer
    if (!inside) return null
    return new RepriseError(
      'SQL_REFUSED',
      'a write inside a transaction of the same store would wait for itself: write before or after the transaction',
    )
  }

  /** The SQL connection closes with the commit, so later statements of the code reach nothing. */
  #limit(work: Promise<unknown>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const limitMs = this.#limitMs
      const cancel = this.#clock.after(
        limitMs,
        () =>
          reject(
            new RepriseError('TIMEOUT', `the code inside the transaction took more than ${limitMs} ms`, { limitMs }),
          ),
        true,
      )
      work.then(resolve, reject).finally(cancel)
    })
  }
}
