// Schedules: runs at calendar times or intervals. A schedule is a timeline with a wakeup: it starts the run under an id
// derived from the due time, then records it. After a crash in between it finds the same run, so no run is started
// twice.

import { Cron } from 'croner'
import { timelineId } from '../../../core/coordinate.ts'
import { type Duration, toMs } from '../../../core/duration.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import { checkGivenOptions, checkValues, namesOf } from '../../../core/options.ts'
import type { Head } from '../../../core/store/ports.ts'
import { refuseThenable } from '../../../core/synchronous.ts'
import type { Host } from '../../../engine/host/host.ts'
import { checkName, type Fold, type Workable, works } from '../../../engine/model/definition.ts'
import type { WorkflowCode } from '../context.ts'
import { hostOf } from '../host.ts'
import { workflowKind } from '../model.ts'
import { endings, scheduleAttribute } from '../names.ts'
import { makeDue } from './due.ts'
import { helperModel } from './helper-model.ts'

/** A cron line or an interval. */
export type ScheduleOptions<Input> = ScheduleSettings<Input> &
  (CronTimes | IntervalTimes) &
  (undefined extends Input
    ? { readonly input?: NoInfer<Input> | ((at: Date) => NoInfer<Input>) }
    : { readonly input: NoInfer<Input> | ((at: Date) => NoInfer<Input>) })

export interface CronTimes {
  /** Five or six fields, in cron syntax. */
  readonly cron: string
  /** The time zone of `cron`. Default: UTC. */
  readonly timezone?: string
  readonly every?: undefined
}

export interface IntervalTimes {
  readonly cron?: undefined
  readonly timezone?: undefined
  /** The interval, aligned to 1970. */
  readonly every: Duration
}

export interface ScheduleSettings<Input> {
  // biome-ignore lint/suspicious/noExplicitAny: the output is not used.
  readonly workflow: WorkflowCode<Input, any>
  /**
   * Policy while the last run has not ended: skip the new run, start it anyway, wait for the last one, or cancel the
   * last one. Default: 'skip'.
   */
  readonly overlap?: 'skip' | 'allow' | 'wait' | 'cancel'
  /**
   * Policy for times that passed while no process was running: start none of them, the last one, or all. Default:
   * 'last'.
   */
  readonly catchUp?: 'none' | 'last' | 'all'
}

export interface ScheduleDefinition extends Workable {
  readonly kind: 'schedule'
  readonly name: string
  readonly prefix: string
  // biome-ignore lint/suspicious/noExplicitAny: schedules of all inputs are kept together.
  readonly options: ScheduleOptions<any>
}

interface ScheduleState {
  /** The last due time that was processed. */
  readonly last: number
  readonly run: string | null
  readonly fired: number
  readonly skipped: number
}

export const scheduleFold: Fold<ScheduleState> = {
  version: 'workflow-schedule-1',
  initial: () => ({ last: 0, run: null, fired: 0, skipped: 0 }),
  apply(state, entry) {
    const data = entry.data as { at: number; run: string }
    switch (entry.type) {
      case 'opened':
        return { ...state, last: data.at }
      case 'fired':
        return { ...state, last: data.at, run: data.run, fired: state.fired + 1 }
      default:
        return { ...state, last: data.at, skipped: state.skipped + 1 }
    }
  },
  // Checkpoints early: a schedule fires rarely, and a few old entries among thousands keep an index page alive in
  // PostgreSQL.
  checkpoint: { every: 50 },
  retain: { checkpoints: 2, history: 'needed' },
}

// biome-ignore lint/suspicious/noExplicitAny: the input is not used.
type AnySchedule = ScheduleOptions<any>

const prefix = 'workflow-schedule/'
const lateMs = 60_000
export const scheduleKind = helperModel('schedule', prefix, scheduleFold as Fold<unknown>)
/** Bounds for the delay before checking again whether the last run has ended; the delay is a tenth of the run's age. */
const againMsMin = 100
const againMsMax = 10_000
const retryMs = 1000
const catchUpMax = 1000

const known = namesOf<ScheduleOptions<never>>()('workflow input cron timezone every overlap catchUp')

const values = { overlap: ['skip', 'allow', 'wait', 'cancel'], catchUp: ['none', 'last', 'all'] }

/** @example schedule('nightly', { workflow: report, cron: '0 3 * * *', timezone: 'Europe/Berlin' }) */
export function schedule<Input>(name: string, options: ScheduleOptions<Input>): ScheduleDefinition {
  checkName('schedule', name)
  checkGivenOptions(`schedule ${name}`, options, known)
  checkValues(`schedule ${name}`, options, values)
  if ((options.cron === undefined) === (options.every === undefined)) {
    throw new RepriseError('INVALID_ARGUMENT', `schedule ${name} must have either cron or every`, { name })
  }
  if (options.timezone !== undefined && options.cron === undefined) {
    throw new RepriseError('INVALID_ARGUMENT', `schedule ${name}: timezone requires cron`, { name })
  }
  nextAfter(options, Date.UTC(2026, 0, 1))
  return {
    kind: 'schedule',
    name,
    prefix,
    options,
    [works](engine: Host) {
      serveSchedule(engine, this)
    },
  }
}

/** The first due time after `after`; null if there is none. */
export function nextAfter(options: AnySchedule, after: number): number | null {
  if (options.every !== undefined) {
    const every = toMs(options.every, 'every')
    if (every === 0) throw new RepriseError('INVALID_ARGUMENT', 'every must be a duration above zero')
    return (Math.floor(after / every) + 1) * every
  }
  try {
    const cron = new Cron(options.cron!, { timezone: options.timezone ?? 'UTC', paused: true })
    return cron.nextRun(new Date(after))?.getTime() ?? null
  } catch (error) {
    throw new RepriseError(
      'INVALID_ARGUMENT',
      `the schedule ${options.cron} cannot be read`,
      { cron: options.cron },
      error,
    )
  }
}

function serveSchedule(engine: Host, definition: ScheduleDefinition): void {
  const id = timelineId(prefix + definition.name)
  engine.declare(scheduleKind)
  engine.declare(workflowKind)
  hostOf(engine).work(definition.options.workflow)
  engine.serve(id, (head) => fire(engine, definition, head), { concurrency: 1 })
  void begin(engine, definition).catch((error) => {
    if (!isReprise(error, 'CLOSED')) engine.events.emit('problem', { where: id, error })
  })
}

/** Creates the schedule, or makes the existing one due: its times may have changed with the code. */
async function begin(engine: Host, definition: ScheduleDefinition): Promise<void> {
  const id = timelineId(prefix + definition.name)
  await engine.worker.register()
  const now = engine.now(id)
  const wakeup = nextAfter(definition.options, now)
  const extras = { queue: id, wakeup, release: true, status: 'open' }
  const made = await engine.create(id, scheduleFold, [{ type: 'opened', data: { at: now }, time: now }], extras)
  if (made === null) {
    const head = await engine.head(id)
    if (head) await makeDue(engine, head)
  } else if (wakeup !== null) engine.dispatcher.expect(wakeup, id)
}

async function fire(engine: Host, definition: ScheduleDefinition, head: Head): Promise<void> {
  const open = await engine.adopt(head, scheduleFold)
  const { options } = definition
  const now = engine.now(head.timeline)
  // A run that could not be started is started later: the schedule stays due.
  let wakeup: number | null = now + retryMs
  try {
    for (const at of dueTimes(options, open.state.last, now)) {
      const verdict = at.isMissed ? 'skip' : await overlaps(engine, options, open.state.run)
      if (typeof verdict === 'number') {
        wakeup = now + verdict
        return
      }
      const run = `${definition.name}.${new Date(at.time).toISOString()}`
      if (verdict === 'start') {
        const input = typeof options.input === 'function' ? options.input(new Date(at.time)) : options.input
        refuseThenable(input, `input of schedule ${definition.name}`, 'wait in a step of the workflow')
        const attributes = { [scheduleAttribute]: definition.name }
        await hostOf(engine).start(options.workflow, run, input, { attributes }, null)
      }
      await open.write([{ type: verdict === 'start' ? 'fired' : 'skipped', data: { at: at.time, run } }])
    }
    wakeup = nextAfter(options, Math.max(now, open.state.last))
  } catch (error) {
    // This process ends: the next one starts the run at once.
    if (isReprise(error, 'CLOSED')) wakeup = now
    throw error
  } finally {
    await open.shut({ wakeup })
    if (wakeup !== null) engine.dispatcher.expect(wakeup, head.timeline)
  }
}

function dueTimes(options: AnySchedule, last: number, now: number): { time: number; isMissed: boolean }[] {
  const times: number[] = []
  for (let at = nextAfter(options, last); at !== null && at <= now; at = nextAfter(options, at)) {
    times.push(at)
    if (times.length > catchUpMax) times.shift()
  }
  const { catchUp = 'last' } = options
  return times.map((time, i) => ({
    time,
    isMissed:
      catchUp === 'all'
        ? false
        : catchUp === 'last'
          ? i < times.length - 1
          : i < times.length - 1 || now - time > lateMs,
  }))
}

/** A number: the last run has not ended; check again after this many milliseconds. */
async function overlaps(engine: Host, options: AnySchedule, last: string | null): Promise<'start' | 'skip' | number> {
  const { overlap = 'skip', workflow } = options
  if (last === null || overlap === 'allow') return 'start'
  const head = await engine.head(workflow.prefix + last)
  if (!head || endings.has(head.status)) return 'start'
  if (overlap === 'cancel') {
    await hostOf(engine).send(
      head.timeline,
      'cancel',
      { reason: 'the next run of its schedule is due' },
      'cancel:schedule',
    )
    return 'start'
  }
  if (overlap === 'skip') return 'skip'
  return Math.min(Math.max(againMsMin, (engine.now(head.timeline) - head.createdAt) / 10), againMsMax)
}
