// Responses of the API, as far as the page reads them. The server's OpenAPI document has the rest.

export type Role = 'read' | 'operate' | 'write'

export interface About {
  readonly name: string
  readonly role: Role
  readonly scopes: readonly string[] | null
  readonly readOnly: boolean
  readonly kinds: readonly string[]
  /** The kinds whose timelines start and end. */
  readonly runs: readonly string[]
  /** The namespaces that the token names; empty: the server's own. */
  readonly namespaces: readonly string[]
  readonly version: string
}

export interface StatusLine {
  readonly text: string
  readonly at?: number
  readonly needsPerson?: boolean
}

export interface TimelineRow {
  readonly timeline: string
  readonly kind: string | null
  readonly status: string
  readonly isRun: boolean
  readonly isUnfinished: boolean
  readonly needsPerson: boolean
  readonly seq: number
  readonly epoch: number
  readonly digest: string
  readonly owner: string | null
  readonly isOwnerAlive: boolean
  readonly floor: number
  readonly base: { readonly timeline: string; readonly seq: number } | null
  readonly queue: string | null
  readonly wakeup: number | null
  readonly mail: number
  readonly attributes: Readonly<Record<string, unknown>>
  readonly createdAt: number
  readonly updatedAt: number
  readonly statusLine: StatusLine | null
}

export interface Timeline extends TimelineRow {
  readonly checkpoints: number
  readonly lineage: readonly string[]
  readonly forks: readonly string[]
  readonly verbs: readonly string[]
  /** Verbs it refuses in its current state, with reasons. */
  readonly refuses: Readonly<Record<string, string>>
  /** The kind of item that a fork may edit (a step, a row), and whether the input is editable; null: no edits. */
  readonly edits: { readonly names: string; readonly input: boolean } | null
  /** The edits made by its fork. */
  readonly edited: { readonly names: readonly string[]; readonly count: number; readonly by: string } | null
  /** True if its state can be read, because the server knows its fold. */
  readonly hasFold: boolean
  /** True if records flow through it. */
  readonly hasFlow: boolean
  readonly summary: Readonly<Record<string, unknown>> | null
  /** How often it was made under its id, and how often it was rolled back. */
  readonly identity: { readonly life: number; readonly branch: number }
}

/** Equal errors of several timelines. */
export interface Cause {
  readonly error: string
  readonly count: number
  readonly firstAt: number
  readonly lastAt: number
  /** Counts in equal spans of time. */
  readonly times: readonly number[]
  readonly timeline: string
}

export interface SearchAnswer {
  readonly timelines: readonly TimelineRow[]
  readonly total: number
  readonly statuses: Readonly<Record<string, number>>
  readonly kinds: Readonly<Record<string, number>>
  readonly attention: number
  readonly causes: readonly Cause[]
  readonly isPartial: boolean
  readonly now: number
  readonly next: string | null
}

export type RowSort = 'start' | 'step' | 'wait' | 'child' | 'message' | 'undo' | 'note' | 'end'
export type RowPhase = 'begins' | 'beats' | 'retries' | 'waits' | 'ends' | 'fails' | 'is'

export interface Told {
  readonly about: string
  readonly title: string
  readonly sort: RowSort
  readonly phase: RowPhase
  readonly error?: string
  readonly at?: number
  readonly ms?: number
  readonly attempt?: number
  readonly note?: string
  readonly cuts?: true
  readonly letsGo?: true
}

export interface JournalEntry {
  readonly seq: number
  readonly epoch: number
  readonly type: string
  readonly time: number
  readonly told: Told | null
}

export interface Entry {
  readonly seq: number
  readonly epoch: number
  readonly type: string
  readonly version: number
  readonly time: number
  readonly key?: string
  readonly data?: unknown
}

export interface Coordinate {
  readonly timeline: string
  readonly seq: number
  readonly epoch: number
  readonly digest: string
}

export interface HistoryPage<Shown> {
  readonly entries: readonly Shown[]
  readonly next: string | null
  readonly coordinate: Coordinate
}

export interface Checkpoint {
  readonly id: string
  readonly seq: number
  readonly epoch: number
  readonly digest: string
  readonly createdAt: number
  readonly trigger: string
  readonly consistency: 'crash' | 'application' | 'distributed'
  readonly label: string | null
  readonly isPinned: boolean
  readonly totalBytes: number
  readonly addedBytes: number
  readonly verifiedAt: number | null
  readonly invalid: string | null
  readonly drilledAt: number | null
  readonly drill: string | null
}

export interface Worker {
  readonly id: string
  readonly name: string
  readonly host: string
  readonly process: string
  readonly startedAt: number
  readonly beatAt: number
  readonly progressAt: number
  readonly progress: number
  readonly isAlive: boolean
  readonly isStuck: boolean
  readonly stuck: readonly string[]
  readonly owns: number
  readonly info: Readonly<Record<string, unknown>>
  readonly underWay: readonly { readonly timeline: string; readonly what: string; readonly since: number }[]
  readonly failing: readonly { readonly timeline: string; readonly failures: number; readonly reason: string }[]
}

export interface FlowPart {
  readonly name: string
  readonly kind: 'source' | 'operator' | 'sink'
  readonly to: readonly string[]
  readonly records: number
  readonly perSecond: number
  /** Shares that add up to 1. */
  readonly busy: number
  readonly backpressured: number
  readonly idle: number
  readonly watermark: number | null
  readonly lagMs: number | null
  readonly keys: number
  readonly inFlight: number
  readonly isEnded: boolean
}

/** One stage of a pipeline in one thread. */
export interface FlowTask {
  readonly name: string
  readonly parts: readonly string[]
  readonly why: string
  readonly records: number
  readonly perSecond: number
  /** Shares that add up to 1. */
  readonly busy: number
  readonly backpressured: number
  readonly idle: number
  readonly aligning: number
  readonly waitingChannels: number
  readonly channels: number
  readonly watermark: number | null
}

export interface FlowView {
  readonly from: 'process' | 'checkpoint'
  readonly at: number
  readonly spanMs: number
  readonly lateRecords: number
  readonly parts: readonly FlowPart[]
  /** Absent: all parts are in one thread. */
  readonly stages?: readonly FlowTask[]
  readonly checkpoint: {
    readonly checkpoint: number
    readonly at: number
    readonly ms: number | null
    readonly bytes: number
    readonly addedBytes: number
  } | null
  readonly failures: number
  readonly lastFailure: string | null
  readonly tasks: readonly string[]
}

export interface Letter {
  readonly key: string
  readonly timeline: string
  readonly item: unknown
  readonly attempts: number
  readonly at: number
  readonly error: { readonly name: string; readonly message: string }
}

export interface Difference {
  readonly path: string
  readonly kind: 'added' | 'removed' | 'changed'
  readonly before?: unknown
  readonly after?: unknown
}

export interface Report {
  readonly kind: string
  readonly what: string
  readonly at?: number
  readonly time?: number
  readonly timeline?: string | null
}
