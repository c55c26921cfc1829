// The doctor's verdicts on workers and checkpoints: facts in, verdicts out. Reads no clock and no store.

import type { CheckpointInterval, CheckpointPolicy } from '../core/checkpoint/checkpoint-policy.ts'
import { formatMs, toMs } from '../core/duration.ts'
import type { WorkerRow } from '../core/store/ports.ts'
import type { WorkerReport } from '../engine/base/worker.ts'
import { type LossBudget, lossText } from '../engine/tools/drill/loss-budget.ts'
import type { HousekeepingState } from '../engine/tools/housekeeping/housekeeping.ts'
import type { CutSchedule } from '../engine/tools/timeline-groups/cut-schedule.ts'
import { count, relative } from './figures-as-text.ts'
import type { QueueRow } from './queues.ts'
import { stuckOn } from './workers.ts'

export interface Check {
  readonly name: string
  readonly state: 'ok' | 'warning' | 'bad'
  readonly what: string
  readonly cure?: string
  /** The same for programs, if there is more than text. */
  readonly data?: Readonly<Record<string, unknown>>
}

export const drillEveryMs = 30 * 86_400_000
const shownMax = 5
/** How the outcome of a failed drill begins. */
const drillFailed = 'failed: '
/** Fewer entries than this without a checkpoint cause no warning. */
const entriesBehindLeast = 10_000
/** Checkpoints may be this many times later than their policy before a warning. */
const patience = 10

export interface WorkerFacts extends Pick<WorkerRow, 'id' | 'isAlive'>, WorkerReport {
  readonly ownsSomething: boolean
}

export function workersHealth(workers: readonly WorkerFacts[], now: number): Check[] {
  const stale = workers.filter((worker) => worker.ownsSomething && !worker.isAlive)
  const alive = workers.filter((worker) => worker.isAlive)
  const stuck = alive.flatMap((worker) => stuckOn(worker, now).map((words) => `${words} (${worker.id})`))
  const checks: Check[] = []
  if (stale.length > 0)
    checks.push({
      name: 'workers',
      state: 'warning',
      what: `died without releasing their work: ${stale.map((worker) => worker.id).join(', ')}`,
      cure: 'run the work again: the new worker takes it over immediately',
    })
  if (stuck.length > 0)
    checks.push({
      name: 'workers',
      state: 'warning',
      what: `stuck: ${stuck.join('; ')}`,
      cure: 'add a timeout or heartbeats to the call; or stop the worker, so that another one takes over its work',
    })
  if (checks.length > 0) return checks
  return [{ name: 'workers', state: 'ok', what: `${count(alive.length, 'worker')} alive` }]
}

/** Due work of a queue that has been waiting this long is reported. */
export const dueMs = 60_000
/** After this long it fails the check: a scheduler that starts a process for due work has had its turn. */
const neglectedMs = 3_600_000

/** Due work that no worker takes: since when, and the command that executes it. */
export function dueHealth(queues: readonly QueueRow[], now: number): Check[] {
  const late = queues.filter(({ oldestAt }) => oldestAt !== null && now - oldestAt > dueMs)
  if (late.length === 0) return []
  const words = late.map(({ queue, due, oldestAt }) => {
    return `${queue}: ${count(due, 'timeline')} due, the first ${relative(oldestAt!, now)}`
  })
  return [
    {
      name: 'due work',
      state: late.some(({ oldestAt }) => now - oldestAt! > neglectedMs) ? 'bad' : 'warning',
      what: `no worker executes it: ${words.join('; ')}`,
      cure: 'start a worker that has the definitions: reprise work FILE',
      data: { queues: late.map(({ queue, due, oldestAt }) => ({ queue, due, since: oldestAt })) },
    },
  ]
}

/** Schedules of cuts without a complete cut for two intervals: there is no recent common moment to restore the group to. */
export function cutsHealth(schedules: readonly CutSchedule[], now: number): Check[] {
  return schedules
    .filter(({ isLate }) => isLate)
    .map(({ name, lastAt, since, because }) => {
      const last = lastAt === null ? `none since ${relative(since, now)}` : `the last was ${relative(lastAt, now)}`
      const what = `the schedule ${name} captures no cut of its group: ${last}${because === null ? '' : `: ${because}`}`
      const cure =
        because === null ? 'start a process that captures them: reprise group schedule' : 'fix the reported cause'
      return { name: 'cuts', state: 'bad', what, cure: `${cure}; reprise group end ${name} ends the schedule` }
    })
}

/** Failing checkpoints, as reported by live workers. */
export function failingHealth(workers: readonly WorkerFacts[], now: number): Check[] {
  const failing = workers.filter((worker) => worker.isAlive).flatMap((worker) => worker.failing)
  if (failing.length === 0) return []
  const words = failing.map(({ timeline, failures, reason, since }) => {
    return `${timeline}: ${count(failures, 'checkpoint')} failed in a row since ${relative(since, now)}: ${reason}`
  })
  const cure =
    'nothing is lost and checkpoints are retried, but recovery takes longer every minute: fix the reported cause'
  return [{ name: 'checkpoints', state: 'bad', what: words.join('; '), cure }]
}

export interface TimelineFacts {
  readonly timeline: string
  /** The kind of its model. Null: unknown here. */
  readonly kind: string | null
  /** A run that has ended is never recovered. */
  readonly isEnded: boolean
  readonly seq: number
  /** The start of its own history: its base, or its floor. */
  readonly start: number
  readonly createdAt: number
  readonly updatedAt: number
  /** Its own policy, if its definition is known. */
  readonly policy: CheckpointPolicy | null
  /** The interval that results from its policy and its stored costs; null: none. */
  readonly interval: Pick<CheckpointInterval, 'entries' | 'ms'> | null
  /** Its loss budget; null: no budget is declared. */
  readonly loss?: LossBudget | null
  /** The measured time of a restore; null: not measured. */
  readonly restoreMs: number | null
  /** Newest first. */
  readonly checkpoints: readonly {
    readonly seq: number
    readonly createdAt: number
    readonly drilledAt: number | null
    /** The outcome of its last drill: 'ok: …' or 'failed: …'. */
    readonly drill?: string | null
    readonly invalid: string | null
  }[]
}

/** Loss budgets that are not kept: the work since the last checkpoint is older than stated, or will be. */
export function lossHealth(timelines: readonly Pick<TimelineFacts, 'timeline' | 'loss'>[]): Check[] {
  const budgets = timelines.flatMap(({ timeline, loss }) => (loss ? [{ timeline, loss }] : []))
  if (budgets.length === 0) return []
  const name = 'loss budgets'
  const over = budgets.filter(({ loss }) => !loss.isKept)
  if (over.length === 0) return [{ name, state: 'ok', what: `${count(budgets.length, 'timeline')} within loseAtMost` }]
  const words = over.slice(0, shownMax).map(({ timeline, loss }) => `${timeline}: ${lossText(loss)}`)
  if (over.length > shownMax) words.push(`and ${over.length - shownMax} more`)
  const cure = 'save more often (autosave of a save, --every of exec), divide the state, or state a longer loseAtMost'
  return [{ name, state: 'bad', what: words.join('; '), cure }]
}

/** For a server that reports whether its pages have checksums: without them a damaged page may read as "not there". */
export function pagesHealth(durability: Readonly<Record<string, unknown>>): Check[] {
  const { data_checksums: checksums } = durability
  if (checksums === undefined || checksums === 'on') return []
  return [
    {
      name: 'pages',
      state: 'warning',
      what: 'the server keeps no checksums of its pages: a damaged index may hide rows, which only reprise verify finds',
      cure: 'stop the server and run pg_checksums --enable, or create the next one with initdb --data-checksums',
    },
  ]
}

export function checkpointsHealth(timelines: readonly TimelineFacts[], now: number): Check[] {
  const known = timelines.filter((each) => each.checkpoints.length > 0)
  const damaged = known.filter(({ checkpoints }) => checkpoints[0]!.invalid !== null)
  const behind = timelines.flatMap((each) => {
    const why = whyBehind(each, now)
    return why === null ? [] : [`${each.timeline}: ${why}`]
  })
  const undrilled = known.filter(({ checkpoints: [newest] }) => {
    return now - (newest!.drilledAt ?? newest!.createdAt) > drillEveryMs
  })
  const checks: Check[] = []
  if (damaged.length > 0)
    checks.push({
      name: 'checkpoints',
      state: 'bad',
      what: `the newest is damaged: ${damaged.map((each) => `${each.timeline} (${each.checkpoints[0]!.invalid})`).join(', ')}`,
      cure: 'reprise verify shows the details, and reprise drill shows whether another checkpoint can replace it',
    })
  if (behind.length > 0)
    checks.push({
      name: 'checkpoints',
      state: 'warning',
      what: `no longer advance: ${behind.join('; ')}`,
      cure: 'search for checkpoint-failed events; treat a recovery point that does not advance as an incident',
    })
  if (checks.length === 0)
    checks.push({ name: 'checkpoints', state: 'ok', what: `${count(timelines.length, 'timeline')} checked` })
  const failed = known.flatMap(({ timeline, checkpoints }) => {
    const [last] = checkpoints.filter((each) => each.drilledAt !== null).sort((a, b) => b.drilledAt! - a.drilledAt!)
    if (!last?.drill?.startsWith(drillFailed) || last.invalid !== null) return []
    return [`${timeline}: ${last.drill.slice(drillFailed.length)}`]
  })
  if (failed.length > 0) {
    const cure = 'reprise drill repeats them; reprise verify shows damage'
    return [...checks, { name: 'drills', state: 'bad', what: `the last drill failed: ${failed.join('; ')}`, cure }]
  }
  checks.push(
    undrilled.length > 0
      ? {
          name: 'drills',
          state: 'warning',
          what: `${count(undrilled.length, 'timeline')} not drilled for 30 days`,
          cure: 'reprise drill',
        }
      : { name: 'drills', state: 'ok', what: 'none overdue' },
  )
  return checks
}

/**
 * The reason why its recovery point is too old by its own policy: far more entries or time since the newest intact checkpoint
 * than the policy requires, or than its budget allows at the measured costs. Without either, by the default bound. Null: it is
 * fine.
 */
function whyBehind(
  { isEnded, seq, start, createdAt, updatedAt, policy, interval, checkpoints }: TimelineFacts,
  now: number,
): string | null {
  if (isEnded) return null
  const sound = checkpoints.filter((each) => each.invalid === null)
  const [newest, before] = sound
  const entries = seq - (newest?.seq ?? start)
  if (entries <= 0) return null
  const since = newest ? `since ${relative(newest.createdAt, now)}` : 'and there is no intact checkpoint'
  const behind = `${count(entries, 'entry', 'entries')} ${since}`
  const first = newest ? 0 : (policy?.first ?? 0)
  if (policy?.every !== undefined && entries > Math.max(policy.every, first) * patience) {
    return `${behind}, but its policy is one every ${policy.every}`
  }
  const each = policy?.each
  // Only while the timeline is written: without new entries a checkpoint would save nothing.
  const busyMs = updatedAt - (newest?.createdAt ?? createdAt)
  if (each !== undefined && busyMs > toMs(each, 'each') * patience)
    return `${behind}, but its policy is one each ${each}`
  if (policy?.every !== undefined || each !== undefined) return null
  const { entries: budgetEntries = null, ms: budgetMs = null } = interval ?? {}
  if (budgetEntries !== null && entries > Math.max(budgetEntries, first) * patience) {
    return `${behind}, but its budget requires one every ${budgetEntries}`
  }
  if (budgetMs !== null && busyMs > budgetMs * patience)
    return `${behind}, but its budget requires one each ${formatMs(budgetMs)}`
  if (budgetEntries !== null || budgetMs !== null) return null
  const usual = newest && before ? newest.seq - before.seq : 0
  if (usual > 0 && entries > Math.max(entriesBehindLeast, usual * patience)) return `${behind}, but usually ${usual}`
  if (newest || entries <= entriesBehindLeast) return null
  const isByHand = policy !== null && Object.keys(policy).length === 0 && checkpoints.length === 0
  if (isByHand) return null
  return policy === null ? `${behind}, nor a policy for one: every recovery replays all entries` : behind
}

export function housekeepingHealth(state: HousekeepingState | null, now: number): Check {
  const name = 'housekeeping'
  if (!state || state.lastAt === null) {
    return { name, state: 'ok', what: 'not yet: a process that stays open for a few minutes runs it' }
  }
  const at = relative(state.lastAt, now)
  if (state.problem !== null) {
    return {
      name,
      state: 'warning',
      what: `failed ${at}: ${state.problem}`,
      cure: 'it is retried; fix the reported cause',
    }
  }
  const { swept, drilled, drillsFailed, expired, kept } = state.last!
  if (drillsFailed.length > 0) {
    return { name, state: 'bad', what: `drills failed ${at}: ${drillsFailed.join('; ')}`, cure: 'reprise verify' }
  }
  const did = [
    count(drilled, 'drill'),
    `${count(swept, 'chunk')} swept`,
    `${count(expired.length, 'timeline')} expired`,
  ]
  if (kept.length > 0) did.push(`${kept.length} kept though due (${kept[0]})`)
  return { name, state: 'ok', what: `last ${at}: ${did.join(', ')}` }
}
