// Entries in the history of a program: starts, captures and ends. The files themselves are in checkpoints, each at its
// `captured` entry.

export interface ExecEntries {
  /** A process was started. */
  readonly started: {
    readonly run: number
    /** Number of starts since the last requested one; the first is 1. */
    readonly attempt: number
    readonly command: readonly string[]
    readonly directory: string
    /** The folder as configured, and its real path. */
    readonly state: string
    readonly stateAt: string
    readonly host: string
    /** Identity of the first process: namespace, pid and start time, so that a reused pid is not mistaken for it. */
    readonly process: string
    /** The sequence of the restored capture; null: the folder was left unchanged. */
    readonly restored: number | null
    readonly settings: Settings
  }
  readonly captured: {
    readonly run: number
    readonly trigger: Trigger
    readonly files: number
    readonly bytes: number
    readonly tookMs: number
  }
  readonly ended: {
    readonly run: number
    /** Null: it died from a signal, or its end was not observed. */
    readonly exitCode: number | null
    readonly signal: string | null
    readonly why: EndReason
    /** Time worked since the last capture, lost by this end. */
    readonly lostMs: number
    /** `lostMs` is an upper bound: the end was not observed. */
    readonly isAtMost: boolean
  }
}

/** The sequence of the last `started`, stored in the head. */
export const startedAttribute = '$started'

/** The folders of its last starts, stored in the head: a list in JSON, newest first. */
export const foldersAttribute = '$folders'

/** The settings that a later start without a command line takes over. */
export interface Settings {
  readonly when: CaptureWhen
  readonly quietMs: number
  readonly everyMs: number | null
  /** Missing in older entries. */
  readonly loseAtMostMs?: number | null
  readonly marker: string | null
  readonly ignore: readonly string[]
  readonly graceMs: number
  readonly keep: number
  readonly retries: number
}

/** The condition under which the files form a complete set: no change, a rename, a marker file, or a word from the program. */
export type CaptureWhen = 'quiet' | 'rename' | 'marker' | 'word'

export type Trigger = 'begin' | CaptureWhen | 'every' | 'end' | 'asked'

/**
 * `exit`: by itself. `stopped`: on request. `killed`: it did not stop on request. `lost`: its supervisor died. `fenced`:
 * another process took over the timeline.
 */
export type EndReason = 'exit' | 'stopped' | 'killed' | 'lost' | 'fenced'

export function entry<Type extends keyof ExecEntries>(type: Type, data: ExecEntries[Type]) {
  return { type, data }
}
