// How a model reads to people: one entry as part of a row of a journal, and where a timeline stands as one line. Tools show
// these; they know no entry type of any layer.

/**
 * What kind of row it is: `step` was executed, `wait` let time pass, `message` came from outside, `undo` took a step back,
 * `note` is worth a line, `start` and `end` frame the whole.
 */
export type RowSort = 'start' | 'step' | 'wait' | 'child' | 'message' | 'undo' | 'note' | 'end'

/** What happened to the row: it began, gave a sign of life, failed and is tried again, waits for a person, or is over. */
export type RowPhase = 'begins' | 'beats' | 'retries' | 'waits' | 'ends' | 'fails' | 'is'

export interface Told {
  /** Entries about the same thing are one row. */
  readonly about: string
  readonly title: string
  readonly sort: RowSort
  readonly phase: RowPhase
  /** What it failed with. */
  readonly error?: string
  /** When it is tried again, or goes on by itself. */
  readonly at?: number
  /** Which attempt that was. */
  readonly attempt?: number
  /** A few words beside the title. */
  readonly note?: string
}

/** Where a timeline stands. @example { text: 'retries charge after 3 failures: 503', at: 1767225600000 } */
export interface StatusLine {
  readonly text: string
  /** When it goes on by itself. */
  readonly at?: number
  /** Only a person can say how it goes on. */
  readonly needsPerson?: boolean
}

/** @example told('charge', 'step', 'ends', { title: 'charge' }) */
export function told(
  about: string,
  sort: RowSort,
  phase: RowPhase,
  more: Partial<Omit<Told, 'about' | 'sort' | 'phase'>> = {},
): Told {
  return { about, title: about, sort, phase, ...more }
}
