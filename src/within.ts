// reprise/within: starts, signals, messages and cancellations in the application's own database transaction.

export {
  type CancelOption,
  Enlisted,
  type KeyOption,
  type StartedOptions,
  Within,
  within,
} from './engine/api/within.ts'
export type { TransactionClient } from './engine/api/within-client.ts'
export type { Carried, SignalDefinition } from './engine/model/enlisting.ts'
