// The invocations of one process: the engine is opened by the first and kept for the next ones, and invocations that overlap
// work one after another, each within its own remaining time.

import { type Duration, toMs } from '../../core/duration.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import type { WorkReport } from '../../engine/api/work-until.ts'
import { hostOf } from '../../engine/host/host.ts'
import type { Workable } from '../../engine/model/definition.ts'
import { Mutex, realTime, within } from '../../lib/waiting.ts'
import { checkTarget, sendWake, type WakeTarget } from './wakes.ts'

export interface ServerlessOptions {
  /** Opens the engine, once per process: `() => open(process.env.DATABASE_URL)`. */
  readonly open: () => Promise<Reprise>
  /** The definitions that an invocation works on. */
  readonly work: readonly Workable[]
  /** The time of one invocation. Default: 50 seconds; on AWS Lambda, the time that is left, less half a second. */
  readonly budget?: Duration
  /** Return once there was nothing to do for this long. Default: one second. */
  readonly idle?: Duration
  /** Where to send a wake-up request when the time was over before the work. Default: the scheduler's next tick continues. */
  readonly next?: WakeTarget
}

const budgetMsDefault = 50_000
/** With less time than this, an invocation leaves its work to the next one. */
const leastMs = 200

/** With a budget that is too small, no invocation would ever work. Throws INVALID_ARGUMENT. */
export function checkDurations(where: string, { budget, idle }: ServerlessOptions): void {
  if (idle !== undefined) toMs(idle, 'idle')
  if (budget === undefined) return
  const budgetMs = toMs(budget, 'budget')
  if (budgetMs >= leastMs) return
  throw new RepriseError('INVALID_ARGUMENT', `${where}: budget must be at least ${leastMs} ms (got ${budgetMs})`, {})
}

/** The part of the budget for the request to the next invocation. */
function nextMs(budgetMs: number): number {
  return Math.min(2000, Math.floor(budgetMs / 10))
}

export class Invocations {
  readonly #options: ServerlessOptions
  #engine: Promise<Reprise> | null = null
  readonly #mutex = new Mutex()

  constructor(options: ServerlessOptions) {
    this.#options = options
  }

  /** `leftMs`: the time that the platform allows. Default: as much as the budget. */
  invoke(leftMs = Number.POSITIVE_INFINITY): Promise<WorkReport> {
    const { budget } = this.#options
    const ownMs =
      budget === undefined && leftMs < Number.POSITIVE_INFINITY ? leftMs : toMs(budget ?? budgetMsDefault, 'budget')
    const endsAt = performance.now() + Math.min(ownMs, leftMs)
    return this.#mutex.run(() => this.#work(endsAt - performance.now()))
  }

  /** The engine of this process. An engine that could not be opened is tried again by the next invocation. */
  engine(): Promise<Reprise> {
    this.#engine ??= this.#open().catch((error) => {
      this.#engine = null
      throw error
    })
    return this.#engine
  }

  async #open(): Promise<Reprise> {
    const rp = await this.#options.open()
    // Throws INVALID_ARGUMENT if `open` returned no engine.
    hostOf(rp)
    return rp
  }

  async close(): Promise<void> {
    const engine = this.#engine
    this.#engine = null
    await (await engine)?.close()
  }

  /** A store that cannot be opened in time is an error. Otherwise every invocation would report that there was nothing to do. */
  async #engineWithin(leftMs: number): Promise<Reprise> {
    const engine = await within(realTime, Math.max(1, leftMs), this.engine())
    if (engine !== 'late') return engine
    const what = `the store could not be opened within the budget of this invocation (${Math.round(leftMs)} ms)`
    throw new RepriseError('TIMEOUT', what, { budgetMs: Math.round(leftMs) })
  }

  async #work(leftMs: number): Promise<WorkReport> {
    const begunAt = performance.now()
    // Checked by the invocation: builds load the module without the variables of its environment.
    if (this.#options.next) checkTarget('next', this.#options.next)
    const rp = await this.#engineWithin(leftMs)
    const { next } = this.#options
    const budget = Math.floor(leftMs - (performance.now() - begunAt))
    const workMs = budget - (next ? nextMs(budget) : 0)
    if (workMs < leastMs) return { done: 0, handedOver: [], nextDueAt: Date.now() }
    const report = await this.#workUntil(rp, workMs)
    // Work that only waits, as for a retry, is left to the scheduler: it would keep waking itself forever.
    const isCut = report.handedOver.length > 0 && performance.now() - begunAt > leftMs / 2
    const failure = next && isCut ? await sendWake(next, AbortSignal.timeout(nextMs(budget))) : null
    if (failure) rp.events.emit('problem', { where: next!.url, error: failure })
    return report
  }

  /** An engine that cannot work again (it was closed, its store has moved) is replaced by the next invocation. */
  async #workUntil(rp: Reprise, budget: number): Promise<WorkReport> {
    const { work, idle } = this.#options
    try {
      return await rp.workUntil(work, { budget, ...(idle !== undefined && { idle }) })
    } catch (error) {
      if (isReprise(error) && error.remedy === 'stop') {
        this.#engine = null
        void rp.close().catch(() => undefined)
      }
      throw error
    }
  }
}
