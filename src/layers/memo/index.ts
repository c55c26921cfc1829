// reprise/memo: caches results of functions and commands, keyed by their inputs, and explains every hit and miss.

export { type CacheLevel, type LevelAccess, type LevelEntry, LevelError } from '../../engine/tools/cache/level.ts'
export type { CacheKeep, Forgotten } from '../../engine/tools/cache/retention.ts'
export type { CommandCheck } from './check.ts'
export {
  type CommandDefinition,
  type CommandHandle,
  type CommandResult,
  type CommandRunOptions,
  command,
} from './command.ts'
export type { CommandOptions } from './command-options.ts'
export type { MemoOutcome, Origin, Provenance } from './entry.ts'
export type { OutputPiece } from './execute.ts'
export type { Explanation } from './explain.ts'
export type { KeyChange, KeyParts } from './key.ts'
export type { RemoteCache, RemoteLevel } from './levels.ts'
export {
  type MemoDefinition,
  type MemoHandle,
  type MemoOptions,
  type MemoResult,
  type MemoSettings,
  memo,
  type Recalled,
  type RecallOptions,
} from './memo.ts'
export type { Remembrance } from './memo-entries.ts'
