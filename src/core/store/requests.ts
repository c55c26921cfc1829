// Requests: starts, signals and messages that an application wrote in a transaction of its own, into one table of the store's
// database (docs/decisions/within.md). A request is carried out by a commit that also removes it (Commit.settles), so that it
// happens once. Part of the store's contract (ports.ts).

import type { WorkerId } from '../coordinate.ts'

/** The definition that a request is for, or `mail` if any process can carry it out. @example 'workflow/checkout' */
export type RequestTarget = string

export interface RequestRow {
  readonly number: number
  /** The transaction that wrote the request, if the store knows it. A group is carried out in the order of its numbers. */
  readonly group: string
  readonly verb: string
  readonly target: RequestTarget
  /** The id of the run, or of the timeline that a message is for. */
  readonly id: string
  /** The name of the signal, or the kind of the message. Null: the verb has none. */
  readonly topic: string | null
  /** Bytes: sealed by a process. Text: JSON that SQL wrote. Null: no payload. */
  readonly data: Uint8Array | string | null
  /** The same key is carried out once. Null: none was given. */
  readonly key: string | null
  /** JSON. Null: none. */
  readonly options: string | null
  readonly sentAt: number
  /** The reason it cannot be carried out; it is kept for a person. Null: it waits. */
  readonly problem: string | null
}

export interface RequestClaim {
  readonly worker: WorkerId
  readonly targets: readonly RequestTarget[]
  /** Approximate: a group is taken whole. */
  readonly limit: number
  /** Numbers that the caller is already working on. */
  readonly except: readonly number[]
}

export interface RequestQuery {
  readonly number?: number
  /** Only those with a problem, or only those without. */
  readonly hasProblem?: boolean
  /** Default: all targets. */
  readonly targets?: readonly RequestTarget[]
  readonly limit: number
}

export interface NewRequest {
  readonly verb: string
  readonly target: RequestTarget
  readonly id: string
  readonly topic: string | null
  readonly data: Uint8Array | null
  readonly key: string | null
  /** The id of the store's identity: another database refuses the request. */
  readonly store: string
}

/** Runs one statement in the transaction of the application. */
export type ExecuteStatement = (
  text: string,
  values: readonly unknown[],
) => Promise<readonly Readonly<Record<string, unknown>>[]>

/** The database of requests. Boxes with the same `table` are written with the same statement. */
export interface RequestPlace {
  readonly table: string
  readonly name: string
}

/** The table of requests. A store without one cannot take part in a transaction of the application. */
export interface RequestBox {
  readonly dialect: 'postgres' | 'sqlite'

  /**
   * The database of this box; with `execute`, that of the application's transaction. It differs for a copy of the database.
   * `isFresh`: read again, since it changes when a server restarts.
   */
  place(isFresh: boolean, execute?: ExecuteStatement): Promise<RequestPlace>

  /**
   * Writes a request in the transaction of the application, in one statement, if that is in one of the `places` (default: the
   * place of this box). Null: it is in another database than the store, even if that is a copy of it.
   */
  enlist(
    request: NewRequest,
    execute: ExecuteStatement,
    places?: readonly string[],
  ): Promise<{ readonly number: number; readonly place: string } | null>

  /**
   * Takes waiting requests of these targets that no live worker has taken, in the order of their numbers. Taking is for
   * liveness only: a second worker may hold the same request, and only one of their commits settles it.
   */
  take(claim: RequestClaim): Promise<RequestRow[]>

  /** Any worker can take them again. */
  release(numbers: readonly number[]): Promise<void>

  /** All requests, taken or not, in the order of their numbers. */
  list(query: RequestQuery): Promise<RequestRow[]>

  /** Adds the requests of a backup, in their order and in one transaction. A repeated call adds nothing. */
  fill(requests: readonly RequestRow[]): Promise<void>

  /** 'removed', a problem to keep it with, or null: it waits again. Numbers that do not exist are skipped. */
  mark(number: number, as: 'removed' | { readonly problem: string } | null): Promise<void>
}
