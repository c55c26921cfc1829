// What the history of a program holds: starts, captures and ends. The files themselves lie in the checkpoints, each of which
// stands at its entry `captured`.

export interface ExecEntries {
  /** A process was started. */
  readonly started: {
    readonly run: number
    /** Starts since the last one that was asked for; the first is 1. */
    readonly attempt: number
    readonly command: readonly string[]
    readonly directory: string
    /** As it was given, and where it led. */
    readonly state: string
    readonly stateAt: string
    readonly host: string
    /** Of the first process: namespace, pid and start, so that a reused pid is not taken for it. */
    readonly process: string
    /** The sequence of the capture that was put back; null: the folder was left as it was. */
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
    /** Null: it died of a signal, or nobody saw how it ended. */
    readonly exitCode: number | null
    readonly signal: string | null
    readonly why: EndReason
    /** How long it had worked since the last capture: what this end cost. */
    readonly lostMs: number
    /** `lostMs` is a bound: nobody saw the end. */
    readonly isAtMost: boolean
  }
}

/** The sequence of the last `started`, in the head. */
export const startedAttribute = '$started'

/** The folders that its last starts used, in the head: a list in JSON, the newest first. */
export const foldersAttribute = '$folders'

/** What a later start without a command line takes over. */
export interface Settings {
  readonly when: When
  readonly quietMs: number
  readonly everyMs: number | null
  readonly marker: string | null
  readonly ignore: readonly string[]
  readonly graceMs: number
  readonly keep: number
  readonly retries: number
}

/** What says that the files belong together: nothing changes, a file gets its name, a marker file, the program itself. */
export type When = 'quiet' | 'rename' | 'marker' | 'word'

export type Trigger = 'begin' | When | 'every' | 'end' | 'asked'

/**
 * `exit`: by itself. `stopped`: it was asked to. `killed`: it was asked to and did not. `lost`: whoever watched it died.
 * `fenced`: another process took the timeline over.
 */
export type EndReason = 'exit' | 'stopped' | 'killed' | 'lost' | 'fenced'

export function entry<Type extends keyof ExecEntries>(type: Type, data: ExecEntries[Type]) {
  return { type, data }
}
