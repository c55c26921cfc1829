// reprise/memo: results of functions, remembered by what they were computed from, with the reason for every hit and miss.

export {
  type CommandDefinition,
  CommandHandle,
  type CommandOptions,
  type CommandResult,
  type CommandRunOptions,
  command,
  type Said,
} from './command.ts'
export type { Outcome, Provenance } from './entry.ts'
export type { Explanation } from './explain.ts'
export type { Change, KeyParts } from './key.ts'
export {
  type CallOptions,
  type MemoDefinition,
  MemoHandle,
  type MemoOptions,
  type MemoResult,
  memo,
  type Recalled,
} from './memo.ts'
export type { Forgotten, MemoKeep } from './retention.ts'
