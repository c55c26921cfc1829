// The adviser's questions and answers.

export type Truth = 'history' | 'state' | 'external'
export type Captures = 'progress' | 'state' | 'both' | 'execution'
export type Scope = 'one' | 'machine' | 'many'
export type About =
  | 'anything'
  | 'items'
  | 'changes'
  | 'entities'
  | 'records'
  | 'conversation'
  | 'stream'
  | 'results'
  | 'files'
  | 'desired'
  | 'settings'
  | 'program'

export interface Answers {
  readonly truth: Truth
  readonly captures: Captures
  readonly scope: Scope
  readonly about: About
  readonly budget: string
  /** The work that may be lost, as a duration, or any. */
  readonly loss: string
  /** How much checkpoints may cost: as little as the budgets allow, or more for a fast recovery. */
  readonly cost: 'least' | 'fast'
  /** How long history is kept: all, needed, or a duration. */
  readonly retention: string
  readonly effects: boolean
}

export interface Advice {
  /** B1 to B10 of the specification, with a number if there are several. */
  readonly id: string
  readonly title: string
  readonly when: Partial<Pick<Answers, 'truth' | 'captures' | 'scope' | 'about'>>
  readonly why: string
  readonly watch: readonly string[]
  /** A whole module; BUDGET is replaced with the recovery budget. */
  readonly code: string
}
