// The classic mistakes in definitions, for `reprise lint` and `reprise doctor`: definitions or measured facts in, warnings out.
// A rule warns only where the mistake is certain. docs/guides/lint.md lists the rules, and those that cannot be decided.

import type { CheckpointPolicy } from '../core/checkpoint/checkpoint-policy.ts'
import { resolveRetention } from '../core/checkpoint/retention.ts'
import { formatMs, toMs } from '../core/duration.ts'
import type { Fold } from '../engine/model/definition.ts'
import { type Model, modelsOf } from '../engine/model/model.ts'
import type { AgentSpec, Tool } from '../layers/agent/index.ts'
import type { JobDefinition } from '../layers/job/index.ts'
import { count } from './figures-as-text.ts'
import type { Check, TimelineFacts } from './health.ts'

/** The rules: why each is a mistake, and its cure. */
export const rules = {
  'job-item-key': {
    why: 'the key identifies an item after a crash, and an object has none: the run fails at its first item',
    cure: 'set `key: (item) => …` to a value that identifies the item',
  },
  'job-key-unstable': {
    why: 'a finished item is skipped by its key: with a new key each time, every run processes it again',
    cure: 'derive the key from the item alone, not from the clock, a counter or a random value',
  },
  'irreversible-retry': {
    why: 'after a crash the outcome of the call is unknown, and a second call may have its effect a second time, permanently',
    cure: "remove `inDoubt: 'retry'`, add a `probe`, or declare the tool as idempotent if the other system deduplicates by its key",
  },
  'checkpoint-without-trigger': {
    why: '`first` only delays the trigger `every`: without a trigger there is no automatic checkpoint',
    cure: 'add `every`, `each`, `recoverWithin`, `failureEvery` or `on` to the policy, or remove it for the default',
  },
  'retention-below-interval': {
    why: 'the two newest checkpoints and the history between them always stay, so a shorter retention has no effect',
    cure: 'checkpoint more often (`each`), or retain for longer than the interval',
  },
  'budget-out-of-reach': {
    why: 'no checkpoint interval can meet the budget: reading the state back alone takes longer',
    cure: 'raise `recoverWithin`, or divide the state: partitions of a table, ids of a timeline',
  },
  'schedule-too-slow': {
    why: 'a run that is still active when the next one is due delays it, skips it or is cancelled by it',
    cure: "lengthen the period, shorten the run, or allow runs at the same time with `overlap: 'allow'`",
  },
  'workflow-growth': {
    why: 'a run is checkpointed only between iterations of ctx.loop and at ctx.continueAsNew: each resume replays all entries',
    cure: 'wrap the repetition in ctx.loop, or start over with ctx.continueAsNew',
  },
} as const

export type RuleId = keyof typeof rules

export interface Mistake {
  readonly rule: RuleId
  /** The definition or the timeline. @example 'job papers' */
  readonly at: string
  readonly what: string
  readonly why: string
  readonly cure: string
}

/** The mistakes in one exported value that its definition alone shows. A value that is not a definition has no mistakes. */
export function mistakesIn(value: unknown): Mistake[] {
  if (typeof value !== 'object' || value === null) return []
  const { kind } = value as { readonly kind?: unknown }
  if (kind === 'job') return [...jobMistakes(value as JobDefinition<unknown>), ...policyMistakes(value)]
  if (kind === 'agent') return [...toolMistakes(value as AgentSpec<unknown>), ...policyMistakes(value)]
  return policyMistakes(value)
}

/** Only the items of an array can be read without effects: other sources call the user's code. */
function jobMistakes({ name, job }: JobDefinition<unknown>): Mistake[] {
  const { source, key } = job
  if (source.kind !== 'array') return []
  const at = `job ${name}`
  const reader = source.open(undefined, null as never)
  const first = 'next' in reader ? reader.next() : null
  const items = first !== null && 'items' in first ? first.items : []
  if (key === null) {
    const isKeyed = items.every((item) => typeof item === 'string' || typeof item === 'number')
    return isKeyed ? [] : [mistake('job-item-key', at, 'its items are neither text nor numbers, and it has no `key`')]
  }
  try {
    const unstable = items.map((item) => [key(item), key(item)] as const).find(([one, other]) => !Object.is(one, other))
    const what = `two calls of \`key\` with the same item return ${unstable?.join(' and ')}`
    return unstable ? [mistake('job-key-unstable', at, what)] : []
  } catch {
    // The run reports an item without a key by its place in the source.
    return []
  }
}

function toolMistakes({ name, options }: AgentSpec<unknown>): Mistake[] {
  const tools = Object.entries(options.tools ?? {}) as [string, Tool][]
  return tools
    .filter(([, { kind, inDoubt, probe }]) => kind === 'irreversible' && inDoubt === 'retry' && !probe)
    .map(([tool]) => {
      return mistake(
        'irreversible-retry',
        `agent ${name}`,
        `its tool ${tool} is irreversible, and has \`inDoubt: 'retry'\``,
      )
    })
}

function policyMistakes(value: object): Mistake[] {
  const described = modelsOf(value)
  // A timeline of the user's own describes no model, and has a fold.
  return (described.length > 0 ? described : [value as Partial<Model>]).flatMap(({ kind, name, fold }) => {
    if (!name || !fold) return []
    // The fold of a workflow lacks `on`: its run checks the names of steps itself.
    const own = kind === 'workflow' ? (value as { options?: { checkpoint?: CheckpointPolicy } }).options : undefined
    return [
      ...triggerMistakes(`${kind} ${name}`, own?.checkpoint ?? fold.checkpoint),
      ...retainMistakes(`${kind} ${name}`, fold),
    ]
  })
}

function triggerMistakes(at: string, policy: CheckpointPolicy | undefined): Mistake[] {
  const { first, ...triggers } = policy ?? {}
  if (first === undefined || Object.values(triggers).some((trigger) => trigger !== undefined)) return []
  return [mistake('checkpoint-without-trigger', at, `its checkpoint policy is only \`first: ${first}\``)]
}

/** Known only if time is the one trigger: any other may fire sooner. */
function retainMistakes(at: string, { checkpoint = {}, retain }: Fold<unknown>): Mistake[] {
  const { each, ...others } = checkpoint
  if (each === undefined || !retain || Object.values(others).some((trigger) => trigger !== undefined)) return []
  const { forMs, historyMs } = resolveRetention(retain)
  const short = { for: forMs, 'history.for': historyMs }
  return Object.entries(short)
    .filter(([, ms]) => ms > 0 && ms < toMs(each, 'each'))
    .map(([name, ms]) => {
      const what = `it retains \`${name}: ${formatMs(ms)}\`, and is checkpointed each ${formatMs(toMs(each, 'each'))}`
      return mistake('retention-below-interval', at, what)
    })
}

/** Fewer entries than this cause no warning: their replay takes less than a second. */
const entriesLeast = 10_000

/** The mistakes that the measured facts of a timeline show. */
export function measuredMistakes({
  timeline,
  kind,
  isEnded,
  policy,
  seq,
  start,
  checkpoints,
  restoreMs,
}: TimelineFacts): Mistake[] {
  const found: Mistake[] = []
  const entries = seq - start
  const least = Math.max(entriesLeast, policy?.every ?? 0, policy?.first ?? 0)
  if (kind === 'workflow' && !isEnded && checkpoints.length === 0 && entries > least) {
    found.push(mistake('workflow-growth', timeline, `${count(entries, 'entry', 'entries')}, and no checkpoint`))
  }
  const budgetMs = policy?.recoverWithin === undefined ? null : toMs(policy.recoverWithin, 'recoverWithin')
  if (budgetMs !== null && restoreMs !== null && restoreMs > budgetMs) {
    const what = `a restore takes ${formatMs(restoreMs)}, and its budget is ${formatMs(budgetMs)}`
    found.push(mistake('budget-out-of-reach', timeline, what))
  }
  return found
}

/** A run of a schedule. */
export interface PacedRun {
  /** From the time it was due until the next time. */
  readonly periodMs: number
  /** Until its end, or until now. */
  readonly tookMs: number
  /** It was cancelled after the next time: `overlap: 'cancel'`. */
  readonly isCut: boolean
  /** The next run began before its end: the schedule allows that. */
  readonly isOverlapped: boolean
}

export interface SchedulePace {
  readonly schedule: string
  readonly runs: readonly PacedRun[]
}

const runsLeast = 3

/** Most of the last runs, and at least three, took longer than their period. */
export function paceMistakes({ schedule, runs }: SchedulePace): Mistake[] {
  const slow = runs.filter(({ periodMs, tookMs, isCut, isOverlapped }) => isCut || (tookMs > periodMs && !isOverlapped))
  if (slow.length < runsLeast || slow.length * 2 <= runs.length) return []
  const { periodMs, tookMs } = slow.at(-1)!
  const what = `${slow.length} of its last ${runs.length} runs took longer than its period; the last of them ${formatMs(tookMs)}, with ${formatMs(periodMs)} until the next`
  return [mistake('schedule-too-slow', `schedule ${schedule}`, what)]
}

const shownMax = 5

/** One line of the doctor per rule. */
export function mistakesHealth(mistakes: readonly Mistake[]): Check[] {
  return [...new Set(mistakes.map(({ rule }) => rule))].map((rule) => {
    const found = mistakes.filter((each) => each.rule === rule)
    const words = found.slice(0, shownMax).map(({ at, what }) => `${at}: ${what}`)
    if (found.length > shownMax) words.push(`and ${found.length - shownMax} more`)
    const { why, cure } = rules[rule]
    return { name: rule, state: 'warning', what: `${words.join('; ')} (${why})`, cure }
  })
}

function mistake(rule: RuleId, at: string, what: string): Mistake {
  return { rule, at, what, ...rules[rule] }
}
