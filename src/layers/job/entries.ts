// What a job writes into its history, and nothing else does. One `done` entry carries all items that became durable in
// the same moment, together with the position of the source that they reach: state and position share one coordinate.

/** Where the source stands: its own position, and how many items lay before it (to compare positions of one pass). */
export interface Cursor {
  readonly position: unknown
  readonly ordinal: number
}

/** An error as history keeps it. */
export interface Failure {
  readonly name: string
  readonly message: string
  readonly code?: string
  readonly stack?: string
}

export interface StartedData {
  readonly round: number
  readonly shards: number
  readonly shard: number
  readonly input?: unknown
  /** Keys are only remembered until the cursor has passed them: they begin with its position. */
  readonly forgets?: boolean
  /** Of this life of its timeline (core/history/identity.ts), in every key. Missing in jobs that began without one. */
  readonly identity?: string
  /** The items are entries, and their keys hold what each entry is. Missing in consumers that began without it. */
  readonly entryKeys?: boolean
  /** Traceparents (W3C), where somebody traces: of the start of the round, and of this run in this process. */
  readonly trace?: string
  readonly span?: string
}

export interface DoneData {
  readonly keys: readonly string[]
  /** Beside the keys; '' for none. */
  readonly versions?: readonly string[]
  readonly results?: readonly unknown[]
  readonly cursor?: Cursor | null
}

export interface FailedData {
  readonly key: string
  readonly version?: string
  readonly attempts: number
  readonly error: Failure
  /** Database time; not tried again before. */
  readonly retryAt: number
}

export interface DeadData {
  readonly key: string
  readonly version?: string
  /** Undefined if it could not be stored; then a re-drive needs the source to give it again. */
  readonly item?: unknown
  readonly hasItem: boolean
  /** The item is as its source has stored it: it could not be read. */
  readonly unread?: true
  readonly attempts: number
  readonly error: Failure
  readonly cursor?: Cursor | null
}

export interface RedrivenData {
  readonly keys: readonly string[]
  /** In place of the stored one, by key. */
  readonly edits?: Readonly<Record<string, unknown>>
}

export interface FinishedData {
  readonly round: number
  readonly done: number
  readonly skipped: number
  readonly failed: number
  readonly cursor: Cursor | null
}

export interface EntryData {
  readonly started: StartedData
  readonly done: DoneData
  readonly moved: { readonly cursor: Cursor | null }
  /** Items about to be tried right after a crash, so that one which kills the process is found out. */
  readonly begun: { readonly keys: readonly string[] }
  readonly failed: FailedData
  readonly dead: DeadData
  readonly redriven: RedrivenData
  readonly discarded: { readonly keys: readonly string[] }
  /** Keys finished elsewhere: by text, or by fingerprint in hexadecimal where the text is gone. */
  readonly imported: { readonly keys?: readonly string[]; readonly prints?: readonly string[]; readonly from: string }
  readonly paused: { readonly because: string; readonly until: number }
  readonly resumed: { readonly because: string }
  readonly stopped: { readonly because: string }
  readonly finished: FinishedData
}

export type EntryType = keyof EntryData

export function entry<Type extends EntryType>(type: Type, data: EntryData[Type]) {
  return { type, data }
}

const textMax = 2000
const framesMax = 6

export function toFailure(error: unknown): Failure {
  if (!(error instanceof Error)) return { name: 'Error', message: cut(`a value was thrown: ${String(error)}`) }
  const { code } = error as { code?: unknown }
  const stack = error.stack
    ?.split('\n')
    .filter((line) => /^\s+at /.test(line) && !line.includes('node:internal'))
    .slice(0, framesMax)
    .join('\n')
  return {
    name: cut(error.name),
    message: cut(error.message),
    ...(typeof code === 'string' && { code }),
    ...(stack && { stack: cut(stack) }),
  }
}

function cut(text: string): string {
  const whole = text.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, '\ufffd')
  return whole.length > textMax ? `${whole.slice(0, textMax)}…` : whole
}
