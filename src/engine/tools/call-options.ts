// The options of the calls that every engine has, by the name of the call: an unknown option is refused, as in definitions.

import type { Duration } from '../../core/duration.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import type { TimelineQuery } from '../../core/store/ports.ts'
import type { RollbackOptions } from '../branch/rollback.ts'
import type { SavepointOptions } from '../checkpoint/savepoint.ts'
import type { FollowOptions } from '../feed/follow.ts'
import { type OpenOptions, openOptions } from '../model/definition.ts'
import type { ForkOptions } from '../model/fork-edit.ts'
import type { AcceptLossOptions } from '../storage/losses.ts'
import type { AddShardOptions } from './add-shard.ts'
import type { DrillOptions } from './drill/drill.ts'
import type { ReportFilter } from './drill/report-log.ts'
import type { EraseEntriesOptions } from './erase/plan.ts'
import type { MoveTiersOptions } from './housekeeping/blob-tiers.ts'
import type { CollectOptions } from './housekeeping/collect.ts'
import type { DeleteOptions } from './housekeeping/delete.ts'
import type { BadCheckpoint } from './mark.ts'
import type { RekeyOptions } from './rekey.ts'
import type { GiveUpOptions } from './repair/give-up.ts'
import type { ShipOptions } from './ship/ship.ts'
import type { BackupOptions, RestoreOptions } from './transfer/backup.ts'
import type { ResumeOptions } from './transfer/change-actions.ts'
import type { ImportOptions } from './transfer/import.ts'
import type { MoveOptions } from './transfer/move.ts'
import type { ExportOptions } from './transfer/transfer.ts'
import type { VerifyOptions } from './verify/verify.ts'

const gone = namesOf<DeleteOptions>({ dryRun: true, forks: true, savepoints: true, erase: true, unfinished: true })
const found = namesOf<TimelineQuery>({
  prefix: true,
  status: true,
  queue: true,
  owner: true,
  attributes: true,
  parent: true,
  after: true,
  limit: true,
})

const known = {
  rollback: new Set([
    ...openOptions,
    ...namesOf<Omit<RollbackOptions, keyof OpenOptions>>({ undo: true, consumed: true }),
  ]),
  fork: namesOf<ForkOptions>({ set: true, unset: true, input: true, by: true, key: true }),
  savepoint: namesOf<SavepointOptions>({ label: true, id: true }),
  export: namesOf<ExportOptions>({ stateOnly: true, onlyNew: true }),
  import: namesOf<ImportOptions>({ as: true, orSame: true }),
  move: namesOf<MoveOptions>({ takeover: true, wait: true, signal: true }),
  follow: namesOf<FollowOptions>({ pollMs: true, isPassive: true, isWhole: true, signal: true }),
  send: namesOf<{ readonly key?: string }>({ key: true }),
  close: namesOf<{ readonly grace?: Duration }>({ grace: true }),
  backup: namesOf<BackupOptions>({ onProgress: true, signal: true, onlyNew: true }),
  ship: namesOf<ShipOptions>({
    every: true,
    base: true,
    keep: true,
    take: true,
    once: true,
    signal: true,
    onStatus: true,
  }),
  addShard: namesOf<AddShardOptions>({ wait: true, signal: true, onProgress: true }),
  restore: namesOf<Omit<RestoreOptions, 'onlyNew'>>({ onProgress: true, signal: true, copy: true }),
  verify: namesOf<VerifyOptions>({
    timelines: true,
    repair: true,
    from: true,
    signal: true,
    onProgress: true,
    resume: true,
  }),
  drill: namesOf<DrillOptions>({ timelines: true, checkpoints: true }),
  rekey: namesOf<RekeyOptions>({ signal: true, onProgress: true }),
  collect: namesOf<CollectOptions>({ dryRun: true, timelines: true, graceMs: true, chunksOnly: true }),
  tiers: namesOf<MoveTiersOptions>({ dryRun: true, restMs: true, signal: true }),
  delete: gone,
  erase: gone,
  resumeChange: namesOf<ResumeOptions>({ other: true }),
  acceptLoss: namesOf<AcceptLossOptions>({ by: true, reason: true }),
  giveUp: namesOf<GiveUpOptions>({ by: true, reason: true, dryRun: true }),
  eraseEntries: namesOf<EraseEntriesOptions>({
    entries: true,
    where: true,
    dryRun: true,
    savepoints: true,
    takeover: true,
    reason: true,
  }),
  markCheckpoint: namesOf<BadCheckpoint>({ why: true, by: true }),
  log: namesOf<ReportFilter>({ timeline: true, kind: true, since: true, limit: true }),
  list: found,
  each: found,
  feed: namesOf<{ readonly prefixes?: readonly string[]; readonly limit?: number }>({ prefixes: true, limit: true }),
} satisfies Readonly<Record<string, ReadonlySet<string>>>

/** @example checkCall('drill', options) */
export function checkCall(call: keyof typeof known, options: object | undefined): void {
  checkOptions(`${call}()`, options, known[call])
}
