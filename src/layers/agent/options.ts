// What is given to a session's methods, and what they give back.

import { namesOf } from '../../core/options.ts'
import type { Message, Model, Settings, Usage } from './message.ts'
import type { SessionRollbackPlan } from './rollback.ts'
import { messagesOfTurn, place, type SessionState, type Waiting } from './state.ts'
import type { WorkspaceOptions } from './workspace-ignore.ts'

export interface TurnOptions<Data> {
  /** The same key is the same turn: sent again after a disconnect, it gives what there is. */
  readonly key?: string
  readonly model?: Model<Data>
  /** Captured when the turn ends; a rollback to it brings it back if it is given the same. */
  readonly workspace?: WorkspaceOptions
  readonly signal?: AbortSignal
}

export const turnOptions = namesOf<TurnOptions<unknown>>({ key: true, model: true, workspace: true, signal: true })

export interface TurnResult {
  readonly turn: number
  readonly status: 'done' | 'waiting'
  readonly content: unknown
  readonly usage: Usage
  readonly waiting: Waiting | null
}

export interface RollbackOptions {
  /** Go on with these. */
  readonly settings?: Settings
  readonly because?: string
  /** Ask the turn after that one again. */
  readonly again?: boolean
  /** Made what it was at that point. */
  readonly workspace?: WorkspaceOptions
  /** Of a fork: also undoes what its original did. Refused with ALREADY_UNDONE where somebody has. */
  readonly undo?: 'inherited'
  /** Goes back although others have acted on what is undone; history names them. Default: refused with CONSUMED. */
  readonly consumed?: 'force'
}

export const rollbackOptions = namesOf<RollbackOptions>({
  settings: true,
  because: true,
  again: true,
  workspace: true,
  undo: true,
  consumed: true,
})

export interface SessionRollback {
  readonly plan: SessionRollbackPlan
  readonly archive: string
}

/** What became of a turn, as far as it has come. */
export function resultOf(state: Readonly<SessionState<unknown>>, turn: number): TurnResult {
  const record = state.turns.get(place(turn))
  const answers = messagesOfTurn(state, turn).filter((message: Message) => message.role === 'assistant')
  const isDone = record?.endedSeq != null
  return {
    turn,
    status: isDone ? 'done' : 'waiting',
    content: answers.at(-1)?.content ?? null,
    usage: record?.usage ?? state.usage,
    waiting: isDone ? null : state.waiting,
  }
}
