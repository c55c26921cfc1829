// Work with an end: executes due work until there is none, or until the time is nearly over, then releases everything so
// that the next process continues at once. For functions that a platform starts, freezes and ends.

import { type TimelineId, timelineId } from '../../core/coordinate.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { checkGivenOptions, namesOf } from '../../core/options.ts'
import { sleep, within } from '../../lib/waiting.ts'
import type { HandedOver, Host, Leaving } from '../host/host.ts'
import { type Workable, works } from '../model/definition.ts'

export interface WorkUntilOptions {
  /** The total time, including the release: '50s' for a function that may take a minute. */
  readonly budget: Duration
  /** Return once there was nothing to do for this long. Default: one second. */
  readonly idle?: Duration
}

export interface WorkReport {
  /** How many timelines were executed until they ended or waited: claimed ones, and runs that requests or other runs started. */
  readonly done: number
  /** The timelines that were released with work left; their calls in flight were cut off, and are named. */
  readonly handedOver: readonly HandedOver[]
  /**
   * When there is work again, as the milliseconds of a Date: now if work was handed over, or if the store did not answer in time.
   * The end of its lease for unfinished work of a live process, which may be killed. A few seconds from now for a request of an
   * application that could not be carried out yet. Null: not before a new message, run or event.
   */
  readonly nextDueAt: number | null
}

const known = namesOf<WorkUntilOptions>()('budget idle')
const idleMsDefault = 1000
const pollMs = 20
/** The part of the budget that is reserved for the end, and its bounds. Half of it is for calls in flight. */
const reservedPart = 0.1
const reservedMs = { min: 100, max: 5000 }

export async function workUntil(
  root: Host,
  definitions: readonly Workable[],
  options: WorkUntilOptions,
): Promise<WorkReport> {
  checkGivenOptions('workUntil()', options, known)
  const { clock } = root
  const budgetMs = toMs(options.budget, 'budget')
  const idleMs = toMs(options.idle ?? idleMsDefault, 'idle')
  if (budgetMs < 2 * reservedMs.min) {
    const what = `the budget of workUntil() must be at least ${2 * reservedMs.min} ms (got ${budgetMs})`
    throw new RepriseError('INVALID_ARGUMENT', what, { budgetMs })
  }
  const endsAt = clock.elapsed() + budgetMs
  const reserved = Math.min(Math.max(budgetMs * reservedPart, reservedMs.min), reservedMs.max)
  const inTime = <T>(work: Promise<T>) => within(clock, Math.max(1, endsAt - clock.elapsed()), work)
  await inTime(root.dispatcher.pause())
  const session = root.session()
  try {
    for (const definition of definitions) definition[works](session)
    const isIdle = await untilIdle(session, endsAt - reserved, idleMs)
    const failure = failureOf(session)
    const unreleased = { done: session.dispatcher.executed, left: inHandOf(root, session, isIdle) }
    const ended = await inTime(end(root, session, reserved / 2))
    if (failure !== null) throw failure
    // The store is slow: the caller's time is over nevertheless, and the release continues.
    const { done, left } = ended === 'late' ? unreleased : ended
    const handedOver = left.filter((each) => !each.isIdle).map(({ timeline, inFlight }) => ({ timeline, inFlight }))
    if (!isIdle || handedOver.length > 0) return { done, handedOver, nextDueAt: root.now() }
    const except = left.map(({ timeline }) => timelineId(timeline))
    const next = await inTime(nextDue(root, session, except))
    return { done, handedOver, nextDueAt: next === 'late' ? root.now() : next }
  } finally {
    void session.close(0)
  }
}

/** The error that kept this call from its work. An outage is not reported if work could be claimed before it. */
function failureOf({ claimFailure, dispatcher }: Host): unknown {
  return dispatcher.hasSucceeded && !isFinal(claimFailure) ? null : claimFailure
}

/** The same claim fails again until a person acts. */
function isFinal(error: unknown): boolean {
  return isReprise(error) && (error.remedy === 'stop' || error.remedy === 'fix')
}

/** True: there was nothing to do for `idleMs`, or at all. False: the time is over, or work cannot be claimed. */
async function untilIdle(session: Host, endsAt: number, idleMs: number): Promise<boolean> {
  const { clock } = session
  let lastAt = clock.elapsed()
  let hasWorked = false
  const off = session.events.on('committed', () => {
    lastAt = clock.elapsed()
    hasWorked = true
  })
  try {
    for (;;) {
      const { claimFailure } = session
      const now = clock.elapsed()
      const isBusy = session.isBusy() || claimFailure !== null
      if (isBusy) lastAt = now
      if (now - lastAt >= idleMs) return true
      if (now >= endsAt || isFinal(claimFailure)) return !isBusy && !hasWorked
      await sleep(clock, Math.min(pollMs, Math.max(1, endsAt - now)))
    }
  } finally {
    off()
  }
}

interface Ended {
  readonly done: number
  readonly left: readonly Leaving[]
}

/** Runs that `run` started here are executed by the engine itself; they leave with the session. */
async function end(root: Host, session: Host, graceMs: number): Promise<Ended> {
  const { dispatcher } = session
  await Promise.all([dispatcher.pause(), session.requests.stop()])
  const { executed, inHand } = dispatcher
  const left = (await Promise.all([session.handOver(graceMs), root.handOver(graceMs)])).flat()
  await session.close(graceMs)
  const isLeft = new Set(left.map(({ timeline }) => timeline))
  return { done: executed + inHand.filter((timeline) => !isLeft.has(timeline)).length, left }
}

/** The timelines with calls in flight, and, unless nothing was to do, all that were claimed or started here. */
function inHandOf(root: Host, session: Host, isIdle: boolean): Leaving[] {
  const calls = root.worker.inHand()
  const claimed = isIdle ? [] : [...session.dispatcher.inHand, ...root.dispatcher.inHand]
  const timelines = new Set([...calls.map(({ timeline }) => timeline), ...claimed])
  return [...timelines].map((timeline) => {
    return { timeline, inFlight: calls.filter((call) => call.timeline === timeline).map(({ what }) => what) }
  })
}

/** Never before now: mail is due at time 0. */
async function nextDue(root: Host, session: Host, except: readonly TimelineId[]): Promise<number | null> {
  const queues = [...new Set([...root.dispatcher.queues, ...session.dispatcher.queues])]
  const found = await Promise.all([root.kernel.store.nextDue({ queues, except }), session.requests.nextDue()])
  const times = found.filter((at) => at !== null)
  return times.length === 0 ? null : Math.max(Math.min(...times), root.now())
}
