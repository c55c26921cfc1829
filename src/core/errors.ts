// Every expected failure is a RepriseError with a stable code. The table below is the only place that defines each
// code: the caller's next step (`remedy`) and the hint for people. Wording may improve; codes never change.

/** The caller's next step: retry the same call, reload and retry, fix the input, or stop and investigate. */
export type Remedy = 'retry' | 'reload' | 'fix' | 'stop'

interface ErrorKind {
  readonly remedy: Remedy
  readonly hint: string
}

const kinds = {
  BUG: { remedy: 'stop', hint: 'This is a bug in Reprise. Please report it with the message and the stack.' },
  INVALID_ARGUMENT: { remedy: 'fix', hint: 'Correct the argument that the message names.' },
  INVALID_ID: {
    remedy: 'fix',
    hint: 'An id must have 1 to 512 characters, in segments separated by "/", without control characters.',
  },
  LIMIT_EXCEEDED: {
    remedy: 'fix',
    hint: 'Stay within the limit that the message names: make the value smaller, or split it. The limits of stored data are options of open().',
  },
  CLOSED: { remedy: 'stop', hint: 'The engine or the handle was closed. Open it again.' },
  ABORTED: { remedy: 'stop', hint: 'The AbortSignal fired before the operation finished.' },
  TIMEOUT: {
    remedy: 'retry',
    hint: 'The operation did not finish within its timeout. Try again, or allow more time.',
  },
  UNSERIALIZABLE: { remedy: 'fix', hint: 'Store plain data, or register a codec for the class by name.' },
  MALFORMED: { remedy: 'stop', hint: 'The bytes are not Reprise data of a known version. Run verify.' },
  UNKNOWN_CODEC: { remedy: 'fix', hint: 'Register the codec that the message names before reading this data.' },
  KEY_MISSING: { remedy: 'fix', hint: 'Pass the encryption key with this id in the options of open().' },
  DECRYPT_FAILED: {
    remedy: 'stop',
    hint: 'The record was changed, moved, or encrypted with another key of the same id.',
  },
  FENCED: { remedy: 'reload', hint: 'Another owner took this timeline over. Open it again to continue from its head.' },
  OWNED: { remedy: 'retry', hint: 'A live worker owns this timeline. Wait for it, or open with { takeover: true }.' },
  CONFLICT: {
    remedy: 'reload',
    hint: 'The call does not fit the current state, which the message describes. Read that state again, and decide again.',
  },
  ENDED: {
    remedy: 'stop',
    hint: 'Nothing was done, because the run has ended. Retry a failed run, fork or roll back to continue from an earlier step, or start another run.',
  },
  POSITION_GONE: {
    remedy: 'reload',
    hint: 'The store was restored to an older copy that does not reach this position. Drop all data derived from later entries, and continue from the end of the store.',
  },
  REVISION_GONE: {
    remedy: 'reload',
    hint: 'History after this revision was trimmed, or belongs to another copy of the store. List again, and watch from the revision of the list.',
  },
  TRANSACTION_EXPIRED: {
    remedy: 'fix',
    hint: 'A broker aborted a transaction that a checkpoint depends on. Start from an older checkpoint with { from }, or accept in the options that its results may be lost.',
  },
  PARTITIONS_CHANGED: {
    remedy: 'fix',
    hint: 'Keys may now belong to another partition, but their state stays with the old one. Restore the former number of partitions, or stop the pipeline, rewrite the topic by key, and run the pipeline under a new name from its beginning.',
  },
  BROKER_AWAY: {
    remedy: 'retry',
    hint: 'No broker answered within the configured time. Nothing is lost: check that the broker is running, and run the pipeline again; it resumes from its last checkpoint.',
  },
  QUEUE_REFUSED: {
    remedy: 'fix',
    hint: 'The broker refused a request, for the reason in the message: check the address, the credentials and their permissions. Nothing is lost: unacknowledged messages stay in the queue.',
  },
  CONTENDED: {
    remedy: 'retry',
    hint: 'Other processes kept writing to this timeline. Nothing was written: try again, wait longer, or route its commands to one process.',
  },
  NOT_FOUND: { remedy: 'fix', hint: 'Check the name or the id that the message names.' },
  NOT_COMMITTED: {
    remedy: 'retry',
    hint: 'Await the start after its transaction has committed: inside the transaction, the call would wait for itself. After a rollback, nothing was started.',
  },
  OTHER_DATABASE: {
    remedy: 'fix',
    hint: 'Use a transaction in the database of the store, or write an outbox table in your database and read it with a job or sqlSource.',
  },
  REQUEST_REFUSED: {
    remedy: 'fix',
    hint: 'The request is kept with its reason. Correct the cause, and write another request.',
  },
  EXISTS: { remedy: 'fix', hint: 'Choose another id or name, or open the existing one.' },
  OUT_OF_RANGE: { remedy: 'fix', hint: 'Choose a sequence between the floor and the head of the timeline.' },
  NOT_ON_BRANCH: { remedy: 'fix', hint: 'The coordinate is on another branch of this timeline; the data names it.' },
  PINNED: {
    remedy: 'stop',
    hint: 'The data is still needed. Release the savepoint, move the cursor or remove the fork first.',
  },
  CHUNKS_ELSEWHERE: {
    remedy: 'fix',
    hint: 'Name the folder with the chunks of this store: blobs in the options of open(), --blobs on the command line.',
  },
  CHUNKS_GONE: {
    remedy: 'fix',
    hint: 'Restore the content of the folder: mount it, or copy it back. If it is lost, `reprise verify --repair --chunks-lost` accepts the folder as it is: it rebuilds states from history, and lists those that cannot be rebuilt.',
  },
  CHUNK_MISSING: {
    remedy: 'stop',
    hint: 'A chunk of a checkpoint is missing. Recovery falls back to an older checkpoint.',
  },
  CHUNK_DAMAGED: {
    remedy: 'stop',
    hint: 'A chunk does not match its digest. Recovery falls back to an older checkpoint.',
  },
  CHECKPOINT_DAMAGED: { remedy: 'stop', hint: 'The checkpoint cannot be used. Recovery falls back to an older one.' },
  HISTORY_DAMAGED: {
    remedy: 'stop',
    hint: 'History does not match its digest chain. Run verify, and restore from a savepoint or a backup.',
  },
  HEAD_LOST: {
    remedy: 'stop',
    hint: 'The status of this timeline was on a damaged page; its history is intact. A process that declares its definition rebuilds it, and so does verify --repair --module FILE.',
  },
  DATA_LOST: {
    remedy: 'stop',
    hint: 'A repair could not recover everything; `reprise changes` lists the losses. Restore a backup, or accept the loss: reprise give-up ID --by NAME --reason TEXT --yes (rp.acceptLoss).',
  },
  UNRECOVERABLE: {
    remedy: 'stop',
    hint: 'No checkpoint verifies, and history does not reach back to its origin. The data lists the missing parts.',
  },
  UPCAST_MISSING: { remedy: 'fix', hint: 'Add an upcaster from the version that the message names.' },
  MIGRATION_MISSING: {
    remedy: 'fix',
    hint: 'Add the migration that the message names to the definition, or run the code that wrote this state.',
  },
  FOLD_FAILED: {
    remedy: 'fix',
    hint: 'The apply function threw on a recorded entry. Nothing is lost: fix the function, and open the timeline again.',
  },
  INVALID_STATE: {
    remedy: 'fix',
    hint: 'The definition declares this state invalid. Nothing is lost: `reprise rollback --until-valid` finds the last valid state. Open with { evenInvalid: true } to correct the state with new entries.',
  },
  CHANGE_UNFINISHED: {
    remedy: 'fix',
    hint: 'A restore, an import or another long change of the store did not finish; `reprise changes` lists it. Resume it (`--resume`), or abandon it (`--abandon`). In a program: open with { evenUnfinished: true }, then call rp.resumeChange(id) or rp.abandonChange(id).',
  },
  STORE_UNREACHABLE: { remedy: 'retry', hint: 'Check that the database is running and that the URL is correct.' },
  STORE_DAMAGED: {
    remedy: 'stop',
    hint: 'The store file is damaged. Keep a copy, stop other programs, and run reprise verify --repair, or restore a backup.',
  },
  STORE_READ_ONLY: { remedy: 'fix', hint: 'Reads and export work. Make the file writable to write again.' },
  STORE_MOVED: {
    remedy: 'stop',
    hint: 'The file was moved, removed or replaced while it was open. The last writes may be in that file: their outcome is unknown. Put a moved file back, or restart the program that uses the new one; then open again: history shows which writes it contains.',
  },
  STORE_DENIED: {
    remedy: 'fix',
    hint: 'The object store refused the access keys, or none were found: check the keys, the region, the clock and the permissions of the bucket. Or the runtime refused a permission: start the program with the one that the message names, as in deno run --allow-net app.mjs.',
  },
  STORE_FULL: {
    remedy: 'retry',
    hint: 'Free some disk space. Nothing was lost. Workflows and jobs resume by themselves; repeat a rejected call: an append, a turn, a migration.',
  },
  STORE_BUSY: {
    remedy: 'retry',
    hint: 'Other processes held the write lock, or all connections of the server, for too long. Try again.',
  },
  STORE_IO: { remedy: 'retry', hint: 'The disk or the connection failed. Nothing was acknowledged.' },
  STORE_DURABILITY: {
    remedy: 'fix',
    hint: 'The store refused a setting that durability needs. The data names it.',
  },
  STORE_UNSUPPORTED: { remedy: 'fix', hint: 'Use a supported store or version. The message names it.' },
  DRIVER_MISSING: { remedy: 'fix', hint: 'Install the optional driver that the message names.' },
  INCOMPATIBLE_VERSION: {
    remedy: 'fix',
    hint: 'The data and this code have different versions, which the message names. If the data is newer, upgrade the code, or export the data with the newer code. If it is older, open it once for writing, as `reprise prune` does.',
  },
  SHARD_AWAY: {
    remedy: 'retry',
    hint: 'The database of this timeline did not answer; the outcome of the write is read when it answers again. Timelines on other shards continue. Check the server that the message names.',
  },
  SHARDS_GREW: {
    remedy: 'fix',
    hint: 'A shard was added after this process opened the set, and timelines have moved to it. Restart the process with the addresses of all shards (`reprise shards` lists them).',
  },
  SHARDS_DIFFER: {
    remedy: 'fix',
    hint: 'Pass all shards of one set, each once. To add a shard, run reprise shards add; after an interruption, include the new shard (docs/guides/shards.md).',
  },
  WORKER_RETIRED: {
    remedy: 'reload',
    hint: 'This worker stopped responding and was declared dead. It continues under a new identity.',
  },
  RIDER_FAILED: { remedy: 'fix', hint: 'The SQL inside the commit failed. Nothing of the commit was stored.' },
  SQL_REFUSED: {
    remedy: 'fix',
    hint: 'SQL inside a commit must be one statement per call, without transaction control or session settings. rp.sql only reads, and only your own tables.',
  },
  EFFECT_IN_DOUBT: {
    remedy: 'stop',
    hint: 'The effect was intended, and its outcome is unknown. Settle it by hand, or declare a probe for it.',
  },
  INHERITED: {
    remedy: 'fix',
    hint: "The original of this fork executed the effect, and only the original undoes it. Undo it there, or choose { undo: 'inherited' }.",
  },
  ALREADY_UNDONE: {
    remedy: 'stop',
    hint: 'The original or another fork of it has undone this effect, or is undoing it. Nothing was done.',
  },
  CONSUMED: {
    remedy: 'stop',
    hint: "Consumers have acted on the entries that the rollback would undo; the data names them. Correct their results first, or roll back with { consumed: 'force' }, which records them.",
  },
  RERUN_UNSOUND: {
    remedy: 'stop',
    hint: 'This step cannot be repeated alone, for the reason in the message, and nothing was done. Roll the run back to the step, or fork it there.',
  },
  OUTCOME_UNKNOWN: {
    remedy: 'reload',
    hint: 'The store did not answer, and the outcome could not be read in time. Open the timeline again: its history shows whether the write succeeded.',
  },
  ASYNC_CALLBACK: {
    remedy: 'fix',
    hint: 'Make the function synchronous, or move its asynchronous part to the verb that the message names.',
  },
  NON_DETERMINISTIC: {
    remedy: 'fix',
    hint: 'Move the call into a step, or record its value in the entry. Replayed code must do the same each time.',
  },
  DIVERGED: {
    remedy: 'stop',
    hint: 'Nothing was done. Guard the change with ctx.patch, fork the run from a step, or roll it back.',
  },
  CANCELLED: { remedy: 'stop', hint: 'The run was cancelled. Clean up, and rethrow this error.' },
  HELD: {
    remedy: 'stop',
    hint: 'A person must decide how the run continues: run.waitsFor() returns the open question; run.settle(step, outcome) or run.resume() answers it.',
  },
  HANDLER_FAILED: {
    remedy: 'fix',
    hint: 'A handler threw on the event that the message names. Nothing of that event was stored: fix the handler and call resume(), or set poison to quarantine.',
  },
  RUN_FAILED: { remedy: 'stop', hint: 'The run ended without a result. The cause contains the reason.' },
  REFUSED: {
    remedy: 'fix',
    hint: 'The aggregate refused the command, for the reason in the message. Nothing was written.',
  },
  SUPERSEDED: {
    remedy: 'fix',
    hint: 'This aggregate was rewritten. Send the command to its successor, which the data names.',
  },
  STREAM_REPLACED: {
    remedy: 'stop',
    hint: 'The client joined again on another stream, or was disconnected for so long that its stream was dropped. Join again if it is still needed.',
  },
  WITHDRAWN: {
    remedy: 'stop',
    hint: 'The version was withdrawn, and clients return to the last good one. Correct it, and set it again.',
  },
  RESCALING: {
    remedy: 'retry',
    hint: 'The state store is moving to another number of partitions. Try again soon. If the process that rescaled it died, call rescale again: it resumes.',
  },
  MIGRATION_DRIFT: {
    remedy: 'fix',
    hint: 'Nothing was done. Restore the step as it was applied, and add a new step for the change.',
  },
  CALLS_SUSPENDED: {
    remedy: 'retry',
    hint: 'The model or tool failed too often in a row. Resume the turn after the time in the data.',
  },
  UNSAFE_PATH: {
    remedy: 'stop',
    hint: 'A path in stored data would leave its directory, or two paths clash. Nothing was written. Do not trust the data.',
  },
  TREE_BLOCKED: {
    remedy: 'fix',
    hint: 'A file in the directory is in the way, and the message names it. Move it away, or stop the program that changes it, and try again.',
  },
  WAKE_UNANSWERED: {
    remedy: 'retry',
    hint: 'Check that the URL is the route of the working function, and that both have the same secret. Due work is kept; the request is repeated.',
  },
  UNAUTHENTICATED: {
    remedy: 'fix',
    hint: 'Send a token of the server as `Authorization: Bearer TOKEN`, or open the one-time link that the server printed.',
  },
  FORBIDDEN: {
    remedy: 'fix',
    hint: 'This token does not permit the request. Use a token with the role and the scope that the message names.',
  },
  OVERLOADED: {
    remedy: 'retry',
    hint: 'The server has reached its limit of concurrent requests. Nothing was done: try again after a moment.',
  },
  KEY_REUSED: {
    remedy: 'fix',
    hint: 'This Idempotency-Key was used for another request. Nothing was done: choose a new key for a new request.',
  },
  UPLOAD_GONE: {
    remedy: 'stop',
    hint: 'The upload was deleted, or was not finished in time. Start a new one.',
  },
  CHECKSUM_MISMATCH: {
    remedy: 'retry',
    hint: 'The received bytes do not match the checksum. None of them were kept: transfer them again.',
  },
  SHIP_FENCED: {
    remedy: 'stop',
    hint: 'Another shipper has written to this place meanwhile. Stop one of them, or use a separate place for each. All shipped records are intact.',
  },
  NOT_A_SAVEPOINT: { remedy: 'fix', hint: 'The file is not a complete Reprise export. Export it again.' },
} as const satisfies Record<string, ErrorKind>

export type ErrorCode = keyof typeof kinds

/**
 * Refusals that the engine handles itself, by another attempt or at a later time. A caller sees only the public code, and
 * only if every attempt failed.
 */
const signals = {
  BASE_GONE: {
    code: 'CONTENDED',
    hint: 'Retention dropped the base of this checkpoint. Nothing was published: try again.',
  },
  SWEPT: {
    code: 'CONTENDED',
    hint: 'Chunks were collected before they were published. Nothing was published: try again.',
  },
  MAIL_WAITING: {
    code: 'CONFLICT',
    hint: 'The timeline received mail meanwhile. Nothing was changed: try again later.',
  },
} as const satisfies Record<string, { readonly code: ErrorCode; readonly hint: string }>

export type Signal = keyof typeof signals

/** The registry returns the same symbol to every copy of this package. */
const mark: unique symbol = Symbol.for('reprise.error')

export class RepriseError extends Error {
  override readonly name: string = 'RepriseError'
  readonly code: ErrorCode
  readonly hint: string
  readonly remedy: Remedy
  readonly data: Readonly<Record<string, unknown>>

  /** @example throw new RepriseError('NOT_FOUND', 'no timeline counter/visits', { timeline: 'counter/visits' }) */
  constructor(
    code: ErrorCode,
    message: string,
    data: Readonly<Record<string, unknown>> = {},
    cause?: unknown,
    /** Replaces the hint of the code where that does not fit. Default: the hint of the code. */
    hint?: string,
  ) {
    super(`${message} [${code}]`, cause === undefined ? undefined : { cause })
    this.code = code
    this.hint = hint ?? kinds[code].hint
    this.remedy = kinds[code].remedy
    this.data = data
  }

  /**
   * A program may load two copies of this package, its own and that of the command line: each recognises the other's errors.
   * @internal
   */
  static override [Symbol.hasInstance](value: unknown): boolean {
    // biome-ignore lint/complexity/noThisInStatic: subclasses inherit it, and are distinguished by their prototypes
    if (this !== RepriseError) return super[Symbol.hasInstance](value)
    return typeof value === 'object' && value !== null && mark in value
  }

  /** @internal */
  get [mark](): true {
    return true
  }

  /** The section on this code in the installed package: `require.resolve` finds the page, the anchor follows the #. */
  get docs(): string {
    return `reprise/docs/errors.md#${this.code.toLowerCase()}`
  }
}

/** A refusal that another part of the engine waits for. Its public code is that of the table of signals. */
export class SignalError extends RepriseError {
  readonly #signal: Signal

  /** @example throw new SignalError('SWEPT', '2 of 9 chunks were collected', { missing: 2 }) */
  constructor(signal: Signal, message: string, data: Readonly<Record<string, unknown>>, cause?: unknown) {
    super(signals[signal].code, message, data, cause, signals[signal].hint)
    this.#signal = signal
  }

  static carries(error: unknown, expected: readonly Signal[]): boolean {
    return error instanceof SignalError && expected.includes(error.#signal)
  }
}

/** @example isSignal(error, 'BASE_GONE', 'SWEPT') */
export function isSignal(error: unknown, ...expected: readonly Signal[]): error is SignalError {
  return SignalError.carries(error, expected)
}

/** The codes of refused commits contain signals. */
export function isSignalCode(code: string): code is Signal {
  return Object.hasOwn(signals, code)
}

/** The advice for every timeline that is missing, whichever part of the engine looked for it. */
export const noTimelineHint = 'Check the id and the namespace; `reprise ls` and rp.list() list all timelines.'

/** @example throw noTimeline('counter/visits') */
export function noTimeline(timeline: string): RepriseError {
  return new RepriseError('NOT_FOUND', `there is no timeline ${timeline}`, { timeline }, undefined, noTimelineHint)
}

/** @example isReprise(error, 'FENCED') */
export function isReprise(error: unknown, ...codes: readonly ErrorCode[]): error is RepriseError {
  return error instanceof RepriseError && (codes.length === 0 || codes.includes(error.code))
}

/**
 * A handler of rejections: returns the value for errors of these codes, and rethrows others. Without codes: every RepriseError.
 * @example const head = await read().catch(orElse(null, 'NOT_FOUND'))
 */
export function orElse<T>(value: T, ...codes: readonly ErrorCode[]): (error: unknown) => T {
  return (error) => {
    if (isReprise(error, ...codes)) return value
    throw error
  }
}

/** The same without a value. @example await open.close().catch(ignoring('FENCED')) */
export function ignoring(...codes: readonly ErrorCode[]): (error: unknown) => void {
  return orElse(undefined, ...codes)
}

/** The store failed for now and may answer a retry: the request itself was valid. */
export function isPassingStoreFailure(error: unknown): boolean {
  return isReprise(
    error,
    ...([
      'STORE_UNREACHABLE',
      'STORE_IO',
      'STORE_BUSY',
      'STORE_FULL',
      'SHARD_AWAY',
      'TIMEOUT',
      'OUTCOME_UNKNOWN',
    ] as const),
  )
}

export function errorCodes(): readonly ErrorCode[] {
  return Object.keys(kinds) as ErrorCode[]
}

export function explain(code: ErrorCode): { readonly code: ErrorCode; readonly remedy: Remedy; readonly hint: string } {
  return { code, ...kinds[code] }
}
