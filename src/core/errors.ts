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
    hint: 'Make the value smaller, split it, or raise the limit in the options of open().',
  },
  CLOSED: { remedy: 'stop', hint: 'The engine or the handle was closed. Open it again.' },
  ABORTED: { remedy: 'stop', hint: 'The AbortSignal that was passed fired before the operation finished.' },
  TIMEOUT: {
    remedy: 'retry',
    hint: 'The operation did not finish in the time it was given. Try again, or allow more.',
  },
  UNSERIALIZABLE: { remedy: 'fix', hint: 'Store plain data, or register a codec for the class by name.' },
  MALFORMED: { remedy: 'stop', hint: 'The bytes are not Reprise data of a known version. Run verify.' },
  UNKNOWN_CODEC: { remedy: 'fix', hint: 'Register the codec that the message names before reading this data.' },
  KEY_MISSING: { remedy: 'fix', hint: 'Pass the encryption key with this id in the options of open().' },
  DECRYPT_FAILED: { remedy: 'stop', hint: 'The record was changed, moved, or sealed with another key of the same id.' },
  FENCED: { remedy: 'reload', hint: 'Another owner took this timeline over. Open it again to go on from its head.' },
  OWNED: { remedy: 'retry', hint: 'A live worker owns this timeline. Wait for it, or open with { takeover: true }.' },
  CONFLICT: {
    remedy: 'reload',
    hint: 'It does not stand as the caller expected: the message says how it stands. Reload, and decide again.',
  },
  ENDED: {
    remedy: 'stop',
    hint: 'Nothing was done: the run had ended before, as the message says. Retry one that failed, fork or roll back to go on from an earlier step, or start another run.',
  },
  POSITION_GONE: {
    remedy: 'reload',
    hint: 'The store went back to an older copy and no longer has what was read up to this position. Drop what was derived from it, and go on from what the store has.',
  },
  REVISION_GONE: {
    remedy: 'reload',
    hint: 'History after this revision was trimmed, or is of another copy of the store. List again, and watch from the revision of the list.',
  },
  TRANSACTION_EXPIRED: {
    remedy: 'fix',
    hint: 'A broker gave up a transaction that a checkpoint counts on. Go back to an older checkpoint with { from }, or say that its results may be lost.',
  },
  PARTITIONS_CHANGED: {
    remedy: 'fix',
    hint: 'Keys may lie in another partition than before, and their state stays with the old one. Give the topic its former number of partitions, or stop the pipeline and run it under a new name from the beginning of a topic that was written anew by key.',
  },
  BROKER_AWAY: {
    remedy: 'retry',
    hint: 'No broker answered for as long as the options allow. Nothing is lost: check that it runs, and run the pipeline again; it goes on from its last checkpoint.',
  },
  CONTENDED: {
    remedy: 'retry',
    hint: 'Other processes kept writing to this timeline. Nothing was written: try again, wait longer, or route its commands to one process.',
  },
  NOT_FOUND: { remedy: 'fix', hint: 'Check the id and the namespace; list() shows what exists.' },
  EXISTS: { remedy: 'fix', hint: 'Choose another id or name, or open what is there.' },
  OUT_OF_RANGE: { remedy: 'fix', hint: 'Choose a sequence between the floor and the head of the timeline.' },
  NOT_ON_BRANCH: { remedy: 'fix', hint: 'The coordinate lies on another branch of this timeline; the data names it.' },
  PINNED: {
    remedy: 'stop',
    hint: 'Something still needs this. Release the savepoint, move the cursor or remove the fork first.',
  },
  BASE_GONE: {
    remedy: 'retry',
    hint: 'The checkpoint that this one builds on was dropped. A full checkpoint follows.',
  },
  SWEPT: {
    remedy: 'retry',
    hint: 'A collector may have taken chunks of this checkpoint before it was published. They are written again, and then it is published.',
  },
  CHUNKS_ELSEWHERE: {
    remedy: 'fix',
    hint: 'Name the folder that holds the chunks of this store: blobs in the options of open(), --blobs on the command line.',
  },
  CHUNKS_GONE: {
    remedy: 'fix',
    hint: 'Put back what lay in the folder: mount it, or restore it from a copy. If it is lost for good, `reprise verify --repair --chunks-lost` takes the folder as it is: states are then made anew from history, and it names those that cannot be.',
  },
  CHUNK_MISSING: {
    remedy: 'stop',
    hint: 'A chunk that a checkpoint needs is gone. Recovery falls back to an older checkpoint.',
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
    hint: 'A damaged page took the status of this timeline; its history is sound. A process that declares its definition makes it again, and so does verify --repair --module FILE.',
  },
  DATA_LOST: {
    remedy: 'stop',
    hint: 'A repair could not have everything; `reprise changes` lists what is lost. Restore a backup, or give the loss up: reprise give-up ID --by NAME --reason TEXT --yes (rp.acceptLoss).',
  },
  UNRECOVERABLE: {
    remedy: 'stop',
    hint: 'No checkpoint verifies, and history does not reach the origin. The data lists what is missing.',
  },
  UPCAST_MISSING: { remedy: 'fix', hint: 'Add an upcaster from the version that the message names.' },
  MIGRATION_MISSING: {
    remedy: 'fix',
    hint: 'Add the migration that the message names to the definition, or run the code that wrote this state.',
  },
  FOLD_FAILED: {
    remedy: 'fix',
    hint: 'The apply function threw on a recorded entry. Nothing is lost: fix it and open again.',
  },
  INVALID_STATE: {
    remedy: 'fix',
    hint: 'The application calls this state invalid. Nothing is lost: `reprise rollback --until-valid` finds where it went wrong. Open with { evenInvalid: true } to mend it with new entries.',
  },
  CHANGE_UNFINISHED: {
    remedy: 'fix',
    hint: 'A restore, an import or another long change of the store began and did not finish; `reprise changes` lists it. Resume it (`--resume`), or abandon it (`--abandon`). In a program: open with { evenUnfinished: true }, then rp.resumeChange(id) or rp.abandonChange(id).',
  },
  STORE_UNREACHABLE: { remedy: 'retry', hint: 'Check that the database runs and that the URL is right.' },
  STORE_DAMAGED: {
    remedy: 'stop',
    hint: 'The store file is damaged. Keep a copy, stop other programs, and run reprise verify --repair, or restore a backup.',
  },
  STORE_READ_ONLY: { remedy: 'fix', hint: 'Reads and export work. Make the file writable to write again.' },
  STORE_MOVED: {
    remedy: 'stop',
    hint: 'The file was moved, removed or replaced while it was open. What was just written may be stored in that file: its outcome is unknown. Put the file back if it was moved, or restart whatever uses it; then open again: history tells what happened.',
  },
  STORE_DENIED: {
    remedy: 'fix',
    hint: 'The object store refused these keys, or has none to use. Check the keys, the region, the clock and what the bucket allows.',
  },
  STORE_FULL: { remedy: 'retry', hint: 'Free some disk space. Nothing was lost, and writing resumes by itself.' },
  STORE_BUSY: {
    remedy: 'retry',
    hint: 'Others have held the write lock, or all connections of the server, for too long. Try again.',
  },
  STORE_IO: { remedy: 'retry', hint: 'The disk or the connection failed. Nothing was acknowledged.' },
  STORE_DURABILITY: {
    remedy: 'fix',
    hint: 'The store refused a setting that durability needs. The data names it.',
  },
  STORE_UNSUPPORTED: { remedy: 'fix', hint: 'Use a supported store or version. The message says which.' },
  DRIVER_MISSING: { remedy: 'fix', hint: 'Install the optional driver that the message names.' },
  INCOMPATIBLE_VERSION: {
    remedy: 'fix',
    hint: 'The data and this code have different versions, which the message names. If the data is newer, upgrade the code, or export the data with the newer code. If it is older, open it once for writing, as `reprise prune` does.',
  },
  SHARD_AWAY: {
    remedy: 'retry',
    hint: 'The database that this timeline lives on did not answer; what became of the write is asked for again. Timelines on other shards go on. Check the server that the message names.',
  },
  SHARDS_GREW: {
    remedy: 'fix',
    hint: 'A shard was added since this process opened the set, and timelines have moved there. Start the process again with the addresses of all shards (reprise shards lists them).',
  },
  SHARDS_DIFFER: {
    remedy: 'fix',
    hint: 'Give all the shards of one set, each once. To add a shard, run reprise shards add; if that was interrupted, with the new one among them (docs/guides/shards.md).',
  },
  MAIL_WAITING: {
    remedy: 'reload',
    hint: 'Mail came before the end of the run was written. The run reads it first, and goes on by itself.',
  },
  WORKER_RETIRED: {
    remedy: 'reload',
    hint: 'This worker was declared dead while it did not answer. It starts again under a new identity.',
  },
  RIDER_FAILED: { remedy: 'fix', hint: 'The SQL inside the commit failed. Nothing of the commit was kept.' },
  SQL_REFUSED: {
    remedy: 'fix',
    hint: 'SQL inside a commit must be one statement per call, without transaction control or session settings. rp.sql only reads, and only your own tables.',
  },
  EFFECT_IN_DOUBT: {
    remedy: 'stop',
    hint: 'The effect was intended, and its outcome is unknown. Settle it by hand, or give it a probe.',
  },
  INHERITED: {
    remedy: 'fix',
    hint: "The original of this fork did it, and only the original undoes it. Undo it there, or choose { undo: 'inherited' }.",
  },
  ALREADY_UNDONE: {
    remedy: 'stop',
    hint: 'The original, or another fork of it, has undone this effect or is undoing it. Nothing was done.',
  },
  CONSUMED: {
    remedy: 'stop',
    hint: "Others have acted on the entries that the rollback would undo; the data names them. Correct them first, or roll back with { consumed: 'force' }, which records them.",
  },
  OUTCOME_UNKNOWN: {
    remedy: 'reload',
    hint: 'The store did not answer and could not be asked again in time. Open again: history tells what happened.',
  },
  ASYNC_CALLBACK: {
    remedy: 'fix',
    hint: 'Make the function synchronous, or move the part that waits to the verb that the message names.',
  },
  NON_DETERMINISTIC: {
    remedy: 'fix',
    hint: 'Move the call into a step, or record its value in the entry. Code that is replayed must do the same each time.',
  },
  DIVERGED: {
    remedy: 'stop',
    hint: 'Nothing was done. Guard the change with ctx.patch, fork the run from a step, or roll it back.',
  },
  CANCELLED: { remedy: 'stop', hint: 'The run was cancelled. Clean up, and let this error pass.' },
  HELD: {
    remedy: 'stop',
    hint: 'A person must decide how the run goes on: run.waitsFor() says what it waits for; run.settle(step, outcome) or run.resume() answers.',
  },
  RUN_FAILED: { remedy: 'stop', hint: 'The run ended without a result. The cause says why.' },
  REFUSED: { remedy: 'fix', hint: 'The aggregate refused the command, and the message says why. Nothing was written.' },
  SUPERSEDED: {
    remedy: 'fix',
    hint: 'This aggregate was rewritten. Send the command to the one that took its place, which the data names.',
  },
  STREAM_REPLACED: {
    remedy: 'stop',
    hint: 'The client joined again on another stream, or was away for so long that it was forgotten. Join again if it is still wanted.',
  },
  WITHDRAWN: {
    remedy: 'stop',
    hint: 'The version was withdrawn, and clients go back to the last good one. Correct it, and set it again.',
  },
  RESCALING: {
    remedy: 'retry',
    hint: 'The state store is moving to another number of partitions. Try again soon. If the process that rescaled it died, call rescale again: it goes on.',
  },
  MIGRATION_DRIFT: {
    remedy: 'fix',
    hint: 'Nothing was done. Put the step back as it was applied, and add a new step for the change.',
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
    hint: 'Something in the directory is in the way, and the message names it. Move it away, or stop whatever changes it, and try again.',
  },
  UNAUTHENTICATED: {
    remedy: 'fix',
    hint: 'Send a token of the server as `Authorization: Bearer TOKEN`, or open the one-time link that it printed.',
  },
  FORBIDDEN: {
    remedy: 'fix',
    hint: 'This token may not do this here. Use one with the role and the scope that the message names.',
  },
  OVERLOADED: {
    remedy: 'retry',
    hint: 'The server is at its limit of requests at once. Nothing was done: try again after a moment.',
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
    hint: 'The bytes that arrived are not those of the checksum. None of them were kept: transfer them again.',
  },
  SHIP_FENCED: {
    remedy: 'stop',
    hint: 'Another shipper has written to this place since. Only one may: stop one of them, or give each a place of its own. Nothing that was shipped is lost.',
  },
  NOT_A_SAVEPOINT: { remedy: 'fix', hint: 'The file is not a complete Reprise export. Export it again.' },
} as const satisfies Record<string, ErrorKind>

export type ErrorCode = keyof typeof kinds

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

/** @example isReprise(error, 'FENCED') */
export function isReprise(error: unknown, ...codes: readonly ErrorCode[]): error is RepriseError {
  return error instanceof RepriseError && (codes.length === 0 || codes.includes(error.code))
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
