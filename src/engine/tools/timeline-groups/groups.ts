// Groups of timelines, of any models: captured at one moment, and restored together. See docs/guides/groups.md.

import type { Coordinate } from '../../../core/coordinate.ts'
import { type Duration, toMs } from '../../../core/duration.ts'
import { ignoring, isReprise, RepriseError } from '../../../core/errors.ts'
import { idBelow } from '../../../core/history/scope.ts'
import { checkOptions, namesOf } from '../../../core/options.ts'
import { recover } from '../../history/recover.ts'
import type { Host } from '../../host/host.ts'
import { checkName } from '../../model/definition.ts'
import { captureCut, giveUp, itsProcessEnded } from './cut.ts'
import {
  type CutSchedule,
  type CutScheduleOptions,
  CutScheduler,
  cutSchedules,
  endSchedule,
  releaseCut,
} from './cut-schedule.ts'
import { cutOf, planGroup } from './plan.ts'
import {
  type CutState,
  cutFold,
  cutScope,
  type GroupPlan,
  type GroupTarget,
  type RestoreState,
  type RolledMember,
  restoreFold,
  restoreScope,
} from './records.ts'
import {
  abandonRestore,
  endUnbegun,
  type GroupRestored,
  type GroupRestoreOptions,
  restoreGroup,
  resumeRestore,
} from './restore.ts'

export interface CaptureOptions {
  /** The time until every member must be saved; the cut is abandoned after that. Default: 30s. */
  readonly timeout?: Duration
  /** An abort also abandons the cut. */
  readonly signal?: AbortSignal
}

const captureOptions = namesOf<CaptureOptions>()('timeout signal')
const scheduleOptions = namesOf<CutScheduleOptions>()('each keep timeout')
const restoreOptions = namesOf<GroupRestoreOptions>()('takeover wait signal consumed')

export interface GroupCut {
  readonly name: string
  readonly status: CutState['status']
  readonly members: readonly string[]
  readonly places: readonly Coordinate[]
  /** The number of messages in flight. */
  readonly inFlight: number
  readonly beganAt: number
  /** The reason it was abandoned, and the missing members. */
  readonly because: string | null
  readonly missing: readonly string[]
}

export interface GroupRestore {
  readonly id: string
  readonly status: RestoreState['status']
  readonly target: GroupTarget | null
  readonly members: readonly string[]
  readonly plan: GroupPlan | null
  readonly wentBack: readonly RolledMember[]
  readonly because: string | null
}

export class Groups {
  readonly #engine: Host
  readonly #schedulers = new Map<string, CutScheduler>()

  /** @internal */
  constructor(engine: Host) {
    this.#engine = engine
  }

  /** Captures all members at one moment, with their mail. @example await rp.groups.capture('before-release', [a, b, c]) */
  async capture(name: string, members: readonly string[], options: CaptureOptions = {}): Promise<GroupCut> {
    checkName('cut', name)
    checkOptions('groups.capture()', options, captureOptions)
    const timeoutMs = toMs(options.timeout ?? '30s', 'timeout')
    return shown(name, await captureCut(this.#engine, name, members, timeoutMs, options.signal))
  }

  async cut(name: string): Promise<GroupCut> {
    await this.#expireIfWritable()
    return shown(name, await cutOf(this.#engine.kernel, name))
  }

  async cuts(): Promise<GroupCut[]> {
    await this.#expireIfWritable()
    const found: GroupCut[] = []
    for await (const head of this.#engine.each({ prefix: cutScope })) {
      const { state } = await recover(this.#engine.kernel, head, cutFold)
      // A record of an earlier version whose process ended before it began: its name is free.
      if (state.value.status === 'new') continue
      found.push(shown(idBelow(cutScope, head.timeline)!, state.value))
    }
    return found
  }

  /** Turns its savepoints into ordinary checkpoints, and frees its name. */
  async release(name: string): Promise<void> {
    await releaseCut(this.#engine, name)
  }

  /**
   * Captures the members at intervals: this process offers to take the cuts until the engine or the returned schedule is
   * closed. One process takes each cut; `reprise doctor` reports a schedule without a complete cut for two intervals.
   * @example const hourly = await rp.groups.schedule('hourly', [a, b, c], { each: '1h', keep: 24 })
   */
  async schedule(
    name: string,
    members: readonly string[],
    options: CutScheduleOptions,
  ): Promise<{ close(): Promise<void> }> {
    checkName('schedule', name)
    checkOptions('groups.schedule()', options, scheduleOptions)
    await this.#schedulers.get(name)?.close()
    const scheduler = await CutScheduler.start(this.#engine, name, members, options)
    this.#schedulers.set(name, scheduler)
    return scheduler
  }

  async schedules(): Promise<CutSchedule[]> {
    return await cutSchedules(this.#engine)
  }

  /** Ends a schedule in every process. Its cuts are kept until they are released. */
  async endSchedule(name: string): Promise<void> {
    await this.#schedulers.get(name)?.close()
    await endSchedule(this.#engine, name)
  }

  /** The effects of a restore, without a change. */
  async plan(target: GroupTarget): Promise<GroupPlan> {
    return await planGroup(this.#engine, target)
  }

  /** Restores all members together: to a cut, or to the recovery line of their own checkpoints. */
  async restore(target: GroupTarget, options: GroupRestoreOptions = {}): Promise<GroupRestored> {
    checkOptions('groups.restore()', options, restoreOptions)
    return await restoreGroup(this.#engine, target, options)
  }

  /** Resumes an interrupted restore. */
  async resume(id: string, options: GroupRestoreOptions = {}): Promise<GroupRestored> {
    checkOptions('groups.resume()', options, restoreOptions)
    return await resumeRestore(this.#engine, id, options)
  }

  /** Abandons a restore that cannot continue. The members continue as they are; returns those that were rolled back. */
  async abandon(id: string, because = 'abandoned'): Promise<readonly RolledMember[]> {
    return await abandonRestore(this.#engine, id, because)
  }

  async restores(): Promise<GroupRestore[]> {
    await this.#expireIfWritable()
    const found: GroupRestore[] = []
    for await (const head of this.#engine.each({ prefix: restoreScope })) {
      const { state } = await recover(this.#engine.kernel, head, restoreFold)
      const { status, target, members, plan, rolled, because } = state.value
      const id = idBelow(restoreScope, head.timeline)!
      found.push({ id, status, target, members, plan, wentBack: Object.values(rolled), because })
    }
    return found
  }

  /** A read-only process reports the stored state. */
  async #expireIfWritable(): Promise<void> {
    await this.expire().catch(ignoring('STORE_READ_ONLY'))
  }

  /** Ends expired cuts whose process died before they were complete, and restores that never began. */
  async expire(): Promise<number> {
    const { kernel } = this.#engine
    let ended = await endUnbegun(this.#engine)
    for (const head of await this.#engine.list({ prefix: cutScope, status: 'capturing' })) {
      const { state } = await recover(kernel, head, cutFold)
      if (kernel.worker.now(head.timeline) < state.value.beganAt + state.value.limitMs) continue
      try {
        const record = await this.#engine.openTimeline(head.timeline, cutFold)
        try {
          if (record.state.status !== 'capturing') continue
          await giveUp(this.#engine, record, idBelow(cutScope, head.timeline)!, itsProcessEnded)
          ended += 1
        } finally {
          await record.close()
        }
      } catch (error) {
        // Another process is working on it.
        if (!isReprise(error, 'OWNED', 'FENCED')) throw error
      }
    }
    return ended
  }
}

function shown(name: string, { status, members, places, mail, beganAt, because, missing }: CutState): GroupCut {
  if (status === 'new') throw new RepriseError('NOT_FOUND', `there is no cut ${name}`, { name })
  return { name, status, members, places, inFlight: mail.length, beganAt, because, missing }
}
