// Options and results of a session's methods.

import { type Allowed, namesOf } from '../../core/options.ts'
import type { LanguageModel, Message, Settings, Usage } from './message.ts'
import type { SessionRollbackPlan } from './rollback.ts'
import { type AwaitedDecision, messagesOfTurn, place, type SessionState } from './state.ts'
import type { WorkspaceOptions } from './workspace-ignore.ts'

export interface TurnOptions<Data> {
  /** A call with the same key is the same turn: repeated after a disconnect, it returns the existing turn. */
  readonly key?: string
  readonly model?: LanguageModel<Data>
  /** Captured when the turn ends. A rollback restores it if it is called with the same workspace. */
  readonly workspace?: WorkspaceOptions
  readonly signal?: AbortSignal
}

export const turnOptions = namesOf<TurnOptions<unknown>>()('key model workspace signal')

export interface TurnResult {
  readonly turn: number
  readonly status: 'completed' | 'waiting'
  readonly content: unknown
  readonly usage: Usage
  readonly waiting: AwaitedDecision | null
}

export interface SessionRollbackOptions {
  /** The turn after which the session continues, or a sequence of its history. */
  readonly to: number | { readonly seq: number }
  /** The session continues with these. */
  readonly settings?: Settings
  /** Recorded with the rollback. */
  readonly reason?: string
  /** Repeat the turn after that one. */
  readonly again?: boolean
  /** The workspace to restore to that point. */
  readonly workspace?: WorkspaceOptions
  /** For a fork: also undo the inherited calls. Rejects with ALREADY_UNDONE if another session has undone one. */
  readonly undo?: 'inherited'
  /**
   * Roll back even if other timelines have acted on the undone entries; history names them. Default: reject with
   * CONSUMED.
   */
  readonly consumed?: 'force'
}

export const planOptions = namesOf<Pick<SessionRollbackOptions, 'to' | 'undo'>>()('to undo')
export const aTurn: Allowed = ['a turn', Number.isSafeInteger]
export const aSequence: Allowed = ['{ seq }', (to) => Number.isSafeInteger((to as { seq?: unknown } | null)?.seq)]
export const rollbackOptions = namesOf<SessionRollbackOptions>()('to settings reason again workspace undo consumed')

export interface SessionRollback {
  readonly plan: SessionRollbackPlan
  readonly archive: string
}

/** The current result of a turn. */
export function resultOf(state: Readonly<SessionState<unknown>>, turn: number): TurnResult {
  const record = state.turns.get(place(turn))
  const answers = messagesOfTurn(state, turn).filter((message: Message) => message.role === 'assistant')
  const isDone = record?.endedSeq != null
  return {
    turn,
    status: isDone ? 'completed' : 'waiting',
    content: answers.at(-1)?.content ?? null,
    usage: record?.usage ?? state.usage,
    waiting: isDone ? null : state.waiting,
  }
}
