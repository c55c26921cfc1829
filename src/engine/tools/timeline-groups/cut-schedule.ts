// Periodic cuts of a group. Every process that offers to take them has a timer; the timeline of the schedule elects one
// process at a time, names the cut before it is taken, and keeps the outcome. A process that dies in the middle leaves that
// name: the next one records how that cut ended before it takes another. Old cuts are released after a new one is complete.
//
//   group/schedule/NAME   declared { members, eachMs, keep, at } · began { cut, at } · captured { cut, at } ·
//                         failed { cut, because, at } · released { cut } · ended { at }

import { type TimelineId, timelineId } from '../../../core/coordinate.ts'
import { type Duration, toMs } from '../../../core/duration.ts'
import { isReprise, orElse, RepriseError } from '../../../core/errors.ts'
import { existing } from '../../history/locate.ts'
import { recover } from '../../history/recover.ts'
import type { Host } from '../../host/host.ts'
import type { Fold } from '../../model/definition.ts'
import type { Model } from '../../model/model.ts'
import type { NewEntry, OpenTimeline } from '../../writing/timeline.ts'
import { captureCut, checkMembers, giveUp, itsProcessEnded, releaseAll } from './cut.ts'
import { type CutState, cutFold, cutScope } from './records.ts'

export const scheduleScope = 'group/schedule/'

export interface ScheduleState {
  readonly status: 'new' | 'running' | 'stopped'
  readonly members: readonly string[]
  readonly eachMs: number
  readonly keep: number
  readonly since: number
  /** The cut that was begun and whose outcome is not recorded yet. */
  readonly pending: string | null
  /** Complete cuts that are kept, oldest first. */
  readonly cuts: readonly { readonly cut: string; readonly at: number }[]
  readonly lastAt: number | null
  /** Failures since the last complete cut, and the reason of the last one. */
  readonly failures: number
  readonly because: string | null
}

const newSchedule: ScheduleState = {
  status: 'new',
  members: [],
  eachMs: 0,
  keep: 0,
  since: 0,
  pending: null,
  cuts: [],
  lastAt: null,
  failures: 0,
  because: null,
}

// biome-ignore lint/suspicious/noExplicitAny: the fields of each entry are those that the head of this file lists.
type Data = any

export const scheduleFold: Fold<ScheduleState> = {
  version: 'schedule-1',
  initial: () => newSchedule,
  apply(state, { type, data: given }): ScheduleState {
    const data = given as Data
    switch (type) {
      case 'declared': {
        const { members, eachMs, keep, at } = data
        const since = state.status === 'running' ? state.since : at
        return { ...state, status: 'running', members, eachMs, keep, since }
      }
      case 'began':
        return { ...state, pending: data.cut }
      case 'captured': {
        const cuts = [...state.cuts, { cut: data.cut, at: data.at }]
        return { ...state, pending: null, cuts, lastAt: data.at, failures: 0, because: null }
      }
      case 'failed':
        return { ...state, pending: null, failures: state.failures + 1, because: data.because }
      case 'released':
        return { ...state, cuts: state.cuts.filter(({ cut }) => cut !== data.cut) }
      case 'ended':
        return { ...state, status: 'stopped' }
      default:
        return state
    }
  },
  checkpoint: { every: 50 },
  retain: { checkpoints: 2, history: 'needed' },
}

const instead = 'it is the schedule of a group: see `reprise group`'

export const scheduleKind: Model = {
  kind: 'cut-schedule',
  name: null,
  scope: scheduleScope,
  fold: scheduleFold as Fold<unknown>,
  policy: 'fixed',
  headOf: (state) => ({ status: (state as ScheduleState).status }),
  summarize: (state) => {
    const { members, eachMs, keep, cuts, lastAt, failures, because } = state as ScheduleState
    return {
      members,
      eachMs,
      keep,
      cuts: cuts.map(({ cut }) => cut),
      lastAt,
      ...(because !== null && { failures, because }),
    }
  },
  actions: { rollback: { instead }, fork: { instead } },
}

export interface CutScheduleOptions {
  /** The time between two cuts. */
  readonly each: Duration
  /** The number of complete cuts to keep; older ones are released. Default: 24. */
  readonly keep?: number
  /** The time until every member must be saved. Default: 30s. */
  readonly timeout?: Duration
}

export interface CutSchedule {
  readonly name: string
  readonly status: 'running' | 'stopped'
  readonly members: readonly string[]
  readonly eachMs: number
  readonly keep: number
  /** The complete cuts that are kept, oldest first. */
  readonly cuts: readonly string[]
  readonly since: number
  readonly lastAt: number | null
  readonly failures: number
  /** The reason of the last failure since the last complete cut. */
  readonly because: string | null
  /** No cut was completed for longer than two intervals. */
  readonly isLate: boolean
}

const keepMax = 1000
const firstRetryMs = 1000

/** Stored schedules, by name. @example await cutSchedules(engine) */
export async function cutSchedules(engine: Host): Promise<CutSchedule[]> {
  const found: CutSchedule[] = []
  for await (const head of engine.each({ prefix: scheduleScope })) {
    const { state } = await recover(engine.kernel, head, scheduleFold)
    if (state.value.status === 'new') continue
    found.push(shown(head.timeline.slice(scheduleScope.length), state.value, engine.worker.now(head.timeline)))
  }
  return found
}

function shown(name: string, state: ScheduleState, now: number): CutSchedule {
  const { status, members, eachMs, keep, cuts, since, lastAt, failures, because } = state
  const isLate = status === 'running' && now - Math.max(since, lastAt ?? 0) > 2 * eachMs
  const names = cuts.map(({ cut }) => cut)
  return {
    name,
    status: status as 'running',
    members,
    eachMs,
    keep,
    cuts: names,
    since,
    lastAt,
    failures,
    because,
    isLate,
  }
}

/** Offers to take the cuts in this process, until `close`. */
export class CutScheduler {
  readonly #engine: Host
  readonly #name: string
  readonly #eachMs: number
  readonly #timeoutMs: number
  readonly #ended = new AbortController()
  #cancel: () => void = () => undefined
  #round: Promise<unknown> = Promise.resolve()

  private constructor(engine: Host, name: string, eachMs: number, timeoutMs: number) {
    this.#engine = engine
    this.#name = name
    this.#eachMs = eachMs
    this.#timeoutMs = timeoutMs
  }

  /** @example await CutScheduler.start(engine, 'hourly', members, { each: '1h', keep: 24 }) */
  static async start(
    engine: Host,
    name: string,
    members: readonly string[],
    { each, keep = 24, timeout = '30s' }: CutScheduleOptions,
  ): Promise<CutScheduler> {
    const eachMs = toMs(each, 'each')
    if (!(eachMs > 0)) throw new RepriseError('INVALID_ARGUMENT', `each must be longer than 0 (got ${String(each)})`)
    if (!Number.isInteger(keep) || keep < 1 || keep > keepMax)
      throw new RepriseError(
        'INVALID_ARGUMENT',
        `keep must be a whole number from 1 to ${keepMax} (got ${String(keep)})`,
      )
    const timeoutMs = toMs(timeout, 'timeout')
    const ids = await checkMembers(engine, members, { evenHeld: true })
    const id = timelineId(scheduleScope + name)
    await declare(engine, id, { members: ids, eachMs, keep, at: engine.worker.now(id) })
    const scheduler = new CutScheduler(engine, name, eachMs, timeoutMs)
    const end = engine.onClose(() => scheduler.#stop())
    scheduler.#ended.signal.addEventListener('abort', end, { once: true })
    scheduler.#plan(0)
    return scheduler
  }

  /** Ends the offer of this process; the schedule continues in others. */
  async close(): Promise<void> {
    await this.#stop()
  }

  async #stop(): Promise<void> {
    this.#ended.abort()
    this.#cancel()
    await this.#round
  }

  #plan(ms: number): void {
    if (this.#ended.signal.aborted) return
    const { clock, events } = this.#engine
    this.#cancel = clock.after(ms, () => {
      this.#round = this.#next()
        .catch((error: unknown) => {
          // Another process ended the schedule or redeclared it.
          if (!isReprise(error, 'FENCED', 'CLOSED'))
            events.emit('problem', { where: scheduleScope + this.#name, error: error as Error })
          return Math.min(firstRetryMs, this.#eachMs)
        })
        .then((nextMs) => nextMs !== null && this.#plan(nextMs))
    })
  }

  /**
   * One round, if it is due here and no other process is running it. Returns the time until the next; null: the schedule ended.
   */
  async #next(): Promise<number | null> {
    const engine = this.#engine
    const id = timelineId(scheduleScope + this.#name)
    const record = await engine.openTimeline(id, scheduleFold).catch(orElse(null, 'OWNED', 'FENCED'))
    if (!record) return Math.min(this.#eachMs, this.#timeoutMs)
    try {
      if (record.state.status !== 'running') return null
      await settlePending(engine, record)
      const { lastAt, failures } = record.state
      const now = engine.worker.now(id)
      const dueMs = lastAt === null ? 0 : lastAt + record.state.eachMs - now
      if (dueMs > 0) return dueMs
      const isDone = await this.#capture(record, now)
      await releaseOld(engine, record)
      return isDone ? record.state.eachMs : Math.min(record.state.eachMs, firstRetryMs * 2 ** Math.min(failures, 10))
    } finally {
      await record.close()
    }
  }

  async #capture(record: OpenTimeline<ScheduleState>, now: number): Promise<boolean> {
    const cut = `${this.#name}-${new Date(now).toISOString().replace(/[-:.]/g, '')}`
    await record.write([{ type: 'began', data: { cut, at: now } }])
    const at = () => this.#engine.worker.now(record.id)
    try {
      await captureCut(this.#engine, cut, record.state.members, this.#timeoutMs, this.#ended.signal)
    } catch (error) {
      if (!isReprise(error)) throw error
      await record.write([{ type: 'failed', data: { cut, because: error.message, at: at() } }])
      void this.#engine.kernel.failures.failed(record.id, error)
      return false
    }
    await record.write([{ type: 'captured', data: { cut, at: at() } }])
    this.#engine.kernel.failures.succeeded(record.id)
    return true
  }
}

/** Creates the schedule, or redeclares it if the declaration changed or the schedule had ended. */
async function declare(
  engine: Host,
  id: TimelineId,
  declared: Pick<ScheduleState, 'members' | 'eachMs' | 'keep'> & { readonly at: number },
): Promise<void> {
  const entry = [{ type: 'declared', data: declared }]
  const created = await engine.create(id, scheduleFold, entry, { status: 'running' })
  if (created !== null) return created === 'released' ? undefined : await created.close()
  const { status, members, eachMs, keep } = (
    await recover(engine.kernel, await existing(engine.kernel, id), scheduleFold)
  ).state.value
  const isSame = eachMs === declared.eachMs && keep === declared.keep && members.join() === declared.members.join()
  if (status !== 'running' || !isSame) await change(engine, id, entry, 'running')
}

/** Takes the schedule from the process that takes a cut now; that cut is used only if it is complete. */
async function change(engine: Host, id: TimelineId, entries: readonly NewEntry[], status: string): Promise<void> {
  const record = await engine.openTimeline(id, scheduleFold, { mustExist: true, takeover: true })
  try {
    await settlePending(engine, record)
    await record.write(entries, { status })
    await releaseOld(engine, record)
  } finally {
    await record.close()
  }
}

/** Records how the cut of a process that died ended. A cut that is still open is abandoned: its process may only be suspended. */
async function settlePending(engine: Host, record: OpenTimeline<ScheduleState>): Promise<void> {
  const cut = record.state.pending
  if (cut === null) return
  const ended = await endedCut(engine, cut)
  const at = engine.worker.now(record.id)
  if (ended?.status === 'completed') await record.write([{ type: 'captured', data: { cut, at: ended.beganAt } }])
  else await record.write([{ type: 'failed', data: { cut, because: ended?.because ?? itsProcessEnded, at } }])
}

/** Null: the process died before the cut began. */
async function endedCut(engine: Host, cut: string): Promise<CutState | null> {
  const record = await engine
    .openTimeline(timelineId(cutScope + cut), cutFold, { mustExist: true, takeover: true })
    .catch(orElse(null, 'NOT_FOUND'))
  if (!record) return null
  try {
    if (record.state.status === 'capturing') await giveUp(engine, record, cut, itsProcessEnded)
    return record.state
  } finally {
    await record.close()
  }
}

async function releaseOld(engine: Host, record: OpenTimeline<ScheduleState>): Promise<void> {
  while (record.state.cuts.length > record.state.keep) {
    const { cut } = record.state.cuts[0]!
    await releaseCut(engine, cut, true)
    await record.write([{ type: 'released', data: { cut } }])
  }
}

/** Turns the savepoints of a cut into ordinary checkpoints, and frees its name. */
export async function releaseCut(engine: Host, name: string, takeover = false): Promise<void> {
  const record = await engine.openTimeline(timelineId(cutScope + name), cutFold, { mustExist: true, takeover })
  try {
    await releaseAll(engine.kernel, record.state, name)
    if (record.state.status === 'completed')
      await record.write([{ type: 'released', data: {} }], { status: 'released' })
  } finally {
    await record.close()
  }
}

/** Ends a schedule in every process. Its complete cuts are kept until they are released. */
export async function endSchedule(engine: Host, name: string): Promise<void> {
  const id = timelineId(scheduleScope + name)
  await change(engine, id, [{ type: 'ended', data: { at: engine.worker.now(id) } }], 'stopped')
}
