// reprise/model: the descriptor of a model, for authors of models and of tools. Users of models do not need it.

export type { Reads } from './engine/branch/consumers.ts'
export type { CapturedMail } from './engine/branch/exchanges.ts'
export type { KeyedBy } from './engine/history/effects.ts'
export type { Folding } from './engine/host/host.ts'
export type { Entity, ExternalState, LayerHost, PagedFold, Process, Workable } from './engine/model/definition.ts'
export type {
  Enlistable,
  Enlistment,
  EnlistsAppend,
  EnlistsItems,
  EnlistsMail,
  RequestDraft,
  Sendable,
} from './engine/model/enlisting.ts'
export type { Exchanged, ExchangeReader, SentMail } from './engine/model/exchange-reader.ts'
export type { FlowCheckpoint, FlowMoment, FlowPart, FlowTask, FlowView } from './engine/model/flow-metrics.ts'
export type { EditedFork, ForkMark } from './engine/model/fork-edit.ts'
export type { JournalRow, RowPhase, RowSort, StatusLine } from './engine/model/journal-row.ts'
export type { Asker, Recallable, Recalling, SharedFrom } from './engine/model/memo-protocol.ts'
export type {
  Act,
  ActionReport,
  Actions,
  Described,
  ErasableEntries,
  ForkRequest,
  HeadAgain,
  Instead,
  Model,
  ModelEffect,
  ModelLetter,
  ModelLetters,
  Refusals,
  Surroundings,
  Target as ActionTarget,
  Transfer,
  Verb,
} from './engine/model/model.ts'
export type { IsNone, RunArguments, TakesInput } from './engine/model/run-arguments.ts'
