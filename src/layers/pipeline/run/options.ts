// Options of a run, validated at the call.

import type { CheckpointPolicy } from '../../../core/checkpoint/checkpoint-policy.ts'
import type { Duration } from '../../../core/duration.ts'
import { toMs } from '../../../core/duration.ts'
import { RepriseError } from '../../../core/errors.ts'
import { keyGroupsDefault, keyGroupsMax } from '../../../core/key-groups.ts'
import { checkCount, checkOptions, namesOf } from '../../../core/options.ts'
import type { Attribute } from '../../../core/store/ports.ts'

/** When checkpoints are made. Results become visible with a checkpoint, so this also bounds their delay. */
export interface PipelineCheckpointPolicy extends Omit<CheckpointPolicy, 'every' | 'first' | 'on'> {
  /** After this many records (a number), or this much time ('1s'). */
  readonly every?: Duration
}

/** How a checkpoint maps to changed code. */
export interface PipelineChanges {
  /** Old name to new name, for sources, operators and sinks. */
  readonly rename?: Readonly<Record<string, string>>
  /** Parts that the checkpoint has and the code no longer has: their state is discarded. */
  readonly drop?: readonly string[]
  /** Parts that the code has and the checkpoint does not: they start empty. */
  readonly add?: readonly string[]
}

export interface PipelineOptions {
  /** Identifies one of several runs of a definition, each with its own state. Default: a single run. */
  readonly id?: string
  /**
   * The number of instances of operators with keys, each with a range of key groups. Default: that of the checkpoint, at least
   * `threads`, or 1. A change redistributes the state. All instances share one thread unless `threads` is set.
   */
  readonly parallelism?: number
  /**
   * The number of worker threads for operators behind `keyBy` or `rebalance`. Their instances are divided evenly; sources, sinks
   * and other operators stay in the main thread. Requires `module`. Default: all operators share the main thread.
   */
  readonly threads?: number
  /**
   * The URL of the module that exports the pipeline (`import.meta.url`): each thread loads it, since functions cannot be sent to
   * threads. The module must not run the pipeline when it is loaded.
   */
  readonly module?: string
  /** The number of key groups, which is fixed permanently: the maximum of `parallelism`. Default: 128. */
  readonly keyGroups?: number
  /** Default: every second. */
  readonly checkpoint?: PipelineCheckpointPolicy
  /** A checkpoint that takes longer is aborted and retried. Default: 10 minutes. */
  readonly checkpointTimeout?: Duration
  /** How long to wait until a live owner releases the timeline: for standby processes. */
  readonly wait?: Duration
  /** Takes the pipeline over from a live owner, whose further writes are refused. */
  readonly takeover?: boolean
  /**
   * Begins from this checkpoint or savepoint instead of the newest, or from the newest one made at `time` or before. Records
   * after it are read again, and sinks get them again.
   */
  readonly from?: string | { readonly time: number | Date }
  readonly changes?: PipelineChanges
  /** More dead letters than this end the run. Default: 1,000. */
  readonly deadLettersMax?: number
  /** Searchable attributes of the pipeline's timeline. */
  readonly attributes?: Readonly<Record<string, Attribute>>
  /** An abort calls stop(). */
  readonly signal?: AbortSignal
}

export interface ResolvedPipelineOptions extends PipelineOptions {
  readonly policy: CheckpointPolicy
  readonly timeoutMs: number
  readonly lettersMax: number
  /** The traceparent (W3C) of the caller that requested this run, if tracing is on. */
  readonly callerTrace?: string | undefined
  /** Attributes to write with each checkpoint of this run. */
  readonly noted?: Readonly<Record<string, Attribute | null>>
}

/** Options of this process for a shared pipeline: `rp.work([totals], { changes: { drop: ['old'] } })`. */
export interface PipelineWorkOptions extends Pick<PipelineOptions, 'changes'> {
  /**
   * Each task begins once from its newest checkpoint made at `time` or before. Records after it are read again, and sinks get
   * them again. A process that takes the task over afterwards resumes from there.
   */
  readonly from?: { readonly time: number | Date }
}

const knownWork = new Set(['changes', 'from'])

export function checkWorkOptions(name: string, options: PipelineWorkOptions): void {
  checkOptions(`work on the pipeline ${name}`, options, knownWork)
  if (typeof options.from === 'string') {
    const what = `tasks of ${name} have checkpoints of their own: from must be { time } for rp.work`
    throw new RepriseError('INVALID_ARGUMENT', what)
  }
}

const known = namesOf<PipelineOptions>()(
  'id parallelism threads module keyGroups checkpoint checkpointTimeout wait takeover from changes deadLettersMax attributes signal',
)
export const renamedOptions = { timeout: 'checkpointTimeout', deadLetters: 'deadLettersMax' }
const knownChanges = new Set(['rename', 'drop', 'add'])
const knownPolicy = new Set(['every', 'each', 'recoverWithin', 'failureEvery', 'loseAtMost'])
const usualLettersMax = 1000
const threadsMax = 64

export function resolvePipelineOptions(name: string, options: PipelineOptions): ResolvedPipelineOptions {
  checkOptions(`pipeline ${name}`, options, known, renamedOptions)
  checkOptions(`pipeline ${name}, changes`, options.changes, knownChanges)
  for (const list of ['drop', 'add'] as const) checkNames(list, options.changes?.[list])
  const rename: unknown = options.changes?.rename
  checkNames('rename', typeof rename === 'object' && rename !== null ? Object.values(rename) : rename)
  checkOptions(`pipeline ${name}, checkpoint`, options.checkpoint, knownPolicy)
  const { every, ...rest } = options.checkpoint ?? { every: '1s' }
  if (typeof every === 'string') toMs(every, 'checkpoint.every')
  else if (every !== undefined && !(Number.isSafeInteger(every) && every >= 1)) {
    const what = `checkpoint.every must be a number of records or a duration such as '1s' (got ${String(every)})`
    throw new RepriseError('INVALID_ARGUMENT', what)
  }
  const { deadLettersMax: lettersMax = usualLettersMax, takeover } = options
  if (takeover !== undefined && typeof takeover !== 'boolean') {
    throw new RepriseError('INVALID_ARGUMENT', `takeover must be true or false (got ${String(takeover)})`)
  }
  const timeoutMs = toMs(options.checkpointTimeout ?? '10m', 'checkpointTimeout')
  if (timeoutMs <= 0) throw new RepriseError('INVALID_ARGUMENT', 'checkpointTimeout must be at least 1 ms (got 0)')
  checkCount('deadLettersMax', lettersMax, 0)
  const { from } = options
  if (from !== undefined && typeof from !== 'string' && !isTime(from?.time)) {
    const what = 'from must be the id of a checkpoint, or { time } in milliseconds since 1970 or as a Date'
    throw new RepriseError('INVALID_ARGUMENT', what)
  }
  const { parallelism = 1, keyGroups = 1 } = options
  checkCount('parallelism', parallelism, 1, keyGroupsMax)
  checkCount('keyGroups', keyGroups, 1, keyGroupsMax)
  checkThreads(name, options)
  return {
    ...options,
    policy: { ...rest, ...(typeof every === 'string' ? { each: every } : every !== undefined && { every }) },
    timeoutMs,
    lettersMax,
  }
}

function checkThreads(name: string, { threads, module }: PipelineOptions): void {
  if (module !== undefined && !(typeof module === 'string' && module.startsWith('file:') && URL.canParse(module))) {
    const what = `module must be the URL of the module that exports the pipeline ${name}, as import.meta.url (got ${String(module)})`
    throw new RepriseError('INVALID_ARGUMENT', what)
  }
  if (threads === undefined) return
  checkCount('threads', threads, 1, threadsMax)
  if (module !== undefined) return
  const what = `the threads of ${name} must load its module: set { module: import.meta.url } in the options of pipeline(), and export it`
  throw new RepriseError('INVALID_ARGUMENT', what)
}

/** Null and text would otherwise be read as times from 1970. */
function isTime(time: unknown): boolean {
  return (typeof time === 'number' || time instanceof Date) && Number.isFinite(Number(time))
}

function checkNames(where: string, names: unknown): void {
  if (names === undefined || (Array.isArray(names) && names.every((name) => typeof name === 'string'))) return
  const form = where === 'rename' ? "an object, as { old: 'new' }" : "a list of names, as ['name']"
  throw new RepriseError('INVALID_ARGUMENT', `changes.${where} must be ${form}`)
}

/** The parallelism and key groups of this run, checked against the checkpoint. */
export function scaleOf(
  { parallelism, threads, keyGroups }: PipelineOptions,
  stored: { readonly parallelism: number; readonly keyGroups: number } | null,
): { readonly parallelism: number; readonly keyGroups: number } {
  if (stored && keyGroups !== undefined && keyGroups !== stored.keyGroups) {
    const what = `the keys of this pipeline are divided into ${stored.keyGroups} groups permanently (keyGroups was ${keyGroups}): omit it, or run it under another id`
    throw new RepriseError('INVALID_ARGUMENT', what, { keyGroups, stored: stored.keyGroups })
  }
  const groups = stored?.keyGroups ?? keyGroups ?? keyGroupsDefault
  // An instance is in one thread, so more threads than instances would be idle.
  const usual = Math.max(stored?.parallelism ?? 1, Math.min(threads ?? 1, groups))
  const scale = { parallelism: parallelism ?? usual, keyGroups: groups }
  if (scale.parallelism <= groups) return scale
  const what = `parallelism must be at most ${groups}, the number of key groups (got ${scale.parallelism})`
  throw new RepriseError('INVALID_ARGUMENT', what, scale)
}
