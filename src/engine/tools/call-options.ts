// The options of the calls that every engine has, by the name of the call: an unknown option is refused, as in definitions.

import type { Duration } from '../../core/duration.ts'
import {
  aBoolean,
  aCount,
  aFunction,
  aName,
  aNumber,
  anObject,
  aSignal,
  aText,
  checkGivenOptions,
  checkOptions,
  checkValues,
  forEach,
  namesOf,
  texts,
} from '../../core/options.ts'
import type { TimelineQuery } from '../../core/store/ports.ts'
import type { RollbackOptions } from '../branch/rollback.ts'
import type { SavepointOptions } from '../checkpoint/savepoint.ts'
import type { FollowOptions } from '../feed/replica.ts'
import { type OpenOptions, openOptions } from '../model/definition.ts'
import type { ForkOptions } from '../model/fork-edit.ts'
import type { AcceptLossOptions } from '../storage/losses.ts'
import type { AddShardOptions } from './add-shard.ts'
import type { BadCheckpoint } from './bad-checkpoint.ts'
import type { DrillOptions } from './drill/drill.ts'
import type { ReportFilter } from './drill/report-log.ts'
import type { EraseEntriesOptions } from './erase/plan.ts'
import type { MoveTiersOptions } from './housekeeping/blob-tiers.ts'
import type { CollectOptions } from './housekeeping/collect.ts'
import type { DeleteOptions } from './housekeeping/delete.ts'
import type { RekeyOptions } from './rekey.ts'
import type { GiveUpOptions } from './repair/give-up.ts'
import type { ShipOptions } from './shipping/ship.ts'
import type { BackupOptions, RestoreOptions } from './transfer/backup.ts'
import type { ResumeOptions } from './transfer/change-actions.ts'
import type { ExportOptions } from './transfer/export.ts'
import type { ImportOptions } from './transfer/import.ts'
import type { MoveBackOptions, MoveOptions } from './transfer/move.ts'
import type { VerifyOptions } from './verify/verify.ts'

const gone = namesOf<DeleteOptions>()('dryRun forks savepoints erase unfinished')
const found = namesOf<TimelineQuery>()('prefix status queue owner attributes parent after limit')

const known = {
  rollback: new Set([...openOptions, ...namesOf<Omit<RollbackOptions, keyof OpenOptions>>()('to undo consumed')]),
  fork: namesOf<ForkOptions>()('set unset input by key'),
  savepoint: namesOf<SavepointOptions>()('label id'),
  export: namesOf<ExportOptions>()('stateOnly onlyNew'),
  import: namesOf<ImportOptions>()('as orSame'),
  move: namesOf<MoveOptions>()('takeover wait signal'),
  moveBack: namesOf<MoveBackOptions>()('other'),
  follow: namesOf<FollowOptions>()('pollMs isPassive isWhole signal'),
  send: namesOf<{ readonly key?: string }>()('key'),
  close: namesOf<{ readonly grace?: Duration }>()('grace'),
  backup: namesOf<BackupOptions>()('onProgress signal onlyNew loseAtMost'),
  ship: namesOf<ShipOptions>()('every loseAtMost base keep take once signal onStatus'),
  addShard: namesOf<AddShardOptions>()('wait signal onProgress'),
  restore: namesOf<Omit<RestoreOptions, 'onlyNew'>>()('onProgress signal copy'),
  verify: namesOf<VerifyOptions>()('timelines repair from signal onProgress resume'),
  drill: namesOf<DrillOptions>()('timelines checkpoints timeout'),
  rekey: namesOf<RekeyOptions>()('signal onProgress'),
  collect: namesOf<CollectOptions>()('dryRun timelines graceMs chunksOnly'),
  tiers: namesOf<MoveTiersOptions>()('dryRun restMs signal'),
  delete: gone,
  erase: gone,
  resumeChange: namesOf<ResumeOptions>()('other'),
  acceptLoss: namesOf<AcceptLossOptions>()('by reason'),
  giveUp: namesOf<GiveUpOptions>()('by reason dryRun'),
  eraseEntries: namesOf<EraseEntriesOptions>()('entries where dryRun savepoints takeover reason'),
  markCheckpoint: namesOf<BadCheckpoint>()('why by'),
  log: namesOf<ReportFilter>()('timeline kind since limit'),
  list: found,
  each: found,
  feed: namesOf<{ readonly prefixes?: readonly string[]; readonly limit?: number }>()('prefixes limit'),
} satisfies Readonly<Record<string, ReadonlySet<string>>>

/** A name has the same type in all calls. The others (`from`, `since`, `to`, durations) are checked where they are read. */
const values = {
  ...forEach('dryRun forks savepoints erase unfinished chunksOnly stateOnly onlyNew orSame takeover', aBoolean),
  ...forEach('isPassive isWhole once copy repair resume shared evenInvalid mustExist take', aBoolean),
  ...forEach('label prefix status queue owner parent after timeline kind', aText),
  ...forEach('by reason why as id key', aName),
  ...forEach('graceMs restMs pollMs', aNumber),
  ...forEach('limit checkpoints', aCount),
  ...forEach('timelines prefixes unset', texts),
  ...forEach('onProgress onStatus', aFunction),
  ...forEach('set attributes', anObject),
  signal: [aSignal],
  undo: ['inherited'],
  consumed: ['force'],
}

/** @example checkCall('drill', options) */
export function checkCall(call: keyof typeof known, options: object | undefined): void {
  checkOptions(`${call}()`, options, known[call])
  checkValues(`${call}()`, options, values)
}

/** The same for options that must be given. @example checkGivenCall('giveUp', options) */
export function checkGivenCall(call: keyof typeof known, options: unknown): void {
  checkGivenOptions(`${call}()`, options, known[call])
  checkValues(`${call}()`, options as object, values)
}
