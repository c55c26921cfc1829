// One run in memory: it replays its code against history, executes the code's commands, records their outcomes, and
// leaves memory as soon as it only waits. A problem with its ownership ends the instance, not the run. It connects the
// parts of a run; each part declares which others it needs (docs/decisions/workflow-house.md).

import type { TimelineId } from '../../../core/coordinate.ts'
import type { RepriseError } from '../../../core/errors.ts'
import type { Host } from '../../../engine/host/host.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import type { ChildHost } from '../commands/children.ts'
import { type ResultsTable, recoverSqlResults, SqlResults } from '../commands/transaction.ts'
import type { AnyWorkflow } from '../context.ts'
import type { ClaimHost } from '../history/inherited.ts'
import type { RunState } from '../history/state.ts'
import { Alarms } from './alarms.ts'
import { type CallingRun, Calls } from './calls.ts'
import { Code, type CodedRun } from './code.ts'
import { Mail, type MailedRun } from './mail.ts'
import type { WatchedRun } from './mail-watch.ts'
import { type RecordedRun, Recorder } from './recorder.ts'
import { Residency, type ResidentRun } from './residency.ts'
import type { RunTimeline } from './run-timeline.ts'
import { type Left, type OwnedRun, Tenure } from './tenure.ts'
import type { Working } from './work-count.ts'

/** The parts of the process's workflow host that runs in memory use. */
export interface InstanceHost extends ChildHost, ClaimHost {
  readonly engine: Host
  readonly kernel: Kernel
  /** The error for writes through a released handle. */
  readonly released: RepriseError
  /** Counts the calls to the outside. */
  callsStarted: number
  readonly results: ResultsTable
  /** Whether the run has mail now. */
  hasMail(timeline: TimelineId): Promise<boolean>
  /** Reports that a run may have mail. */
  poke(timeline: string): void
  /** Notifies the watchers of a run. */
  notify(timeline: string): void
  /** Called by an instance that has left memory. */
  left(instance: Instance, left: Left): void
}

/** The interfaces of all parts of a run. */
type Parts = CallingRun & CodedRun & MailedRun & OwnedRun & RecordedRun & ResidentRun & WatchedRun

export class Instance implements Parts {
  readonly id: string
  readonly host: InstanceHost
  readonly kernel: Kernel
  readonly definition: AnyWorkflow
  readonly open: RunTimeline
  readonly isDry: boolean
  readonly tenure: Tenure
  readonly residency: Residency
  readonly calls: Calls
  readonly alarms: Alarms
  readonly mail: Mail
  readonly recorder: Recorder
  readonly sqlResults: SqlResults
  readonly code: Code

  constructor(host: InstanceHost, definition: AnyWorkflow, open: RunTimeline, isDry = false) {
    this.host = host
    this.kernel = host.kernel
    this.definition = definition
    this.open = open
    this.isDry = isDry
    this.id = open.id.slice(definition.prefix.length)
    this.tenure = new Tenure(this, (left) => {
      if (!isDry) host.left(this, left)
    })
    this.residency = new Residency(this)
    this.calls = new Calls(this)
    this.alarms = new Alarms(
      this.kernel.clock,
      () => this.now(),
      () => this.mail.alarmed(),
    )
    this.mail = new Mail(this)
    this.recorder = new Recorder(this)
    this.sqlResults = new SqlResults(open)
    this.code = new Code(this)
  }

  get state(): RunState {
    return this.open.state
  }

  /** The code waits, and no work is in progress for it. */
  get isAsleep(): boolean {
    const { execution } = this.code
    return execution?.isQuiet === true && !execution.isOver && this.residency.work.isIdle && !this.calls.isCalling
  }

  /** Time of the database that stores this run. */
  now(): number {
    return this.kernel.worker.now(this.open.id)
  }

  spawn(work: () => Working): void {
    this.residency.spawn(work)
  }

  /** Loads the data that a replay needs beside history, then begins. */
  load(): void {
    const sqlResults = recoverSqlResults(this)
    if (sqlResults === null) this.#begin()
    else
      sqlResults.then(
        () => this.#begin(),
        (error) => this.tenure.leave({ because: 'broken', error }),
      )
  }

  #begin(): void {
    this.code.loaded()
    try {
      if (this.state.isAdmitted) this.code.begin()
      else this.spawn(() => this.#waitForTurn())
    } catch (error) {
      this.tenure.leave({ because: 'broken', error })
    }
  }

  /** The queue has not admitted the run yet: its mail is recorded, and the run is released again. */
  async #waitForTurn(): Promise<void> {
    await this.mail.read()
    if (this.code.execution || this.tenure.isLeaving) return
    await this.tenure.release('waiting', [], { wakeup: null, status: 'queued' })
  }
}
