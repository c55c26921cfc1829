// One run of migrations: applies the pending steps one by one, records each, and stops at the first failure. The next run
// resumes with that step.

import { type TimelineId, timelineId, toHex } from '../../core/coordinate.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import { callOnce, decideRetry, type RetryPolicy, resolveRetry } from '../../core/retry/retry.ts'
import type { Attribute, Sql } from '../../core/store/ports.ts'
import { checkFunction } from '../../core/synchronous.ts'
import { unlessAborted } from '../../engine/base/abortable-wait.ts'
import { PendingStart } from '../../engine/base/pending-start.ts'
import { stayAlive, whileAwaited } from '../../engine/base/stay-alive.ts'
import { checkStop, type StopOptions } from '../../engine/base/stop-options.ts'
import type { Host } from '../../engine/host/host.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import { sleep, within } from '../../lib/waiting.ts'
import { warnOnReject } from '../../lib/warn-on-reject.ts'
import { splitSql } from './split.ts'
import { type MigrateState, migrateFold } from './state.ts'
import { type CheckedStep, numberOf } from './steps.ts'

export interface MigrateOptions {
  /** Reports the pending steps and changes nothing. */
  readonly dryRun?: boolean
  /** How long to wait for another process that migrates. Default: 1 minute. */
  readonly wait?: Duration
  /** Passed to the steps; once aborted, no further step begins. */
  readonly signal?: AbortSignal
  /** Searchable attributes of the migrations' timeline. */
  readonly attributes?: Readonly<Record<string, Attribute>>
}

export const migrateOptions = namesOf<MigrateOptions>()('dryRun wait signal attributes')

export interface MigrateReport {
  /** 'stopped': stopped on request, with steps left. 'planned': a dry run. */
  readonly status: 'completed' | 'stopped' | 'planned'
  /** Steps applied by this run. */
  readonly applied: readonly { readonly id: string; readonly ms: number }[]
  /** Remaining steps: with dryRun those that would be applied, after a stop those that did not begin. */
  readonly pending: readonly { readonly id: string; readonly sql: readonly string[] | null }[]
  readonly before: number
  /** The step that an earlier run did not finish. */
  readonly resumedAt: string | null
  readonly elapsedMs: number
}

export interface MigrateStatus {
  readonly status: 'starting' | 'running' | 'stopping' | 'failed' | MigrateReport['status']
  /** The current step, or the last one. Null before the first. */
  readonly step: string | null
  /** The number of steps that this run has applied. */
  readonly applied: number
}

export interface MigrateEvent {
  readonly step: string
  /** 'retry': the step failed, and is retried after a pause. */
  readonly state: 'began' | 'applied' | 'retry' | 'failed'
}

const knownResult = namesOf<{ readonly signal?: AbortSignal }>()('signal')
/** The same grace time as for items of jobs. */
const defaultGraceMs = 30_000
/** Time for a step to end after its signal was aborted. */
const heedMs = 500

export class MigrateRun {
  readonly name: string
  /** Migrations run once at a time, under their name. */
  readonly id: string
  readonly timeline: TimelineId
  readonly #engine: Host
  readonly #steps: readonly CheckedStep[]
  readonly #options: MigrateOptions
  readonly #retry: RetryPolicy | undefined
  readonly #result: Promise<MigrateReport>
  readonly #watchers = new Set<(event: MigrateEvent) => void>()

  readonly #beginning = new PendingStart()
  readonly #waiting = new AbortController()
  readonly #calls = new AbortController()
  #isStopping = false
  #step: string | null = null
  #applied = 0
  #ended: MigrateStatus['status'] | null = null

  /** @internal */
  constructor(
    engine: Host,
    name: string,
    steps: readonly CheckedStep[],
    options: MigrateOptions,
    retry: RetryPolicy | undefined,
  ) {
    this.name = name
    this.id = name
    this.timeline = timelineId(`migrate/${name}`)
    this.#engine = engine
    this.#steps = steps
    this.#options = options
    this.#retry = retry
    this.#result = options.dryRun ? this.#plan() : this.#run()
    this.#result.then(
      ({ status }) => {
        this.#ended = status
      },
      () => {
        this.#ended = 'failed'
      },
    )
  }

  /** Resolves when no other process migrates and this run begins; rejects if it failed before. */
  async started(options: { readonly signal?: AbortSignal } = {}): Promise<this> {
    checkOptions('started', options, knownResult)
    await this.#beginning.wait(this.#result, options.signal, this.timeline)
    return this
  }

  /** The state of the run and its current step. */
  status(): MigrateStatus {
    const under = this.#isStopping ? 'stopping' : this.#step ? 'running' : 'starting'
    return { status: this.#ended ?? under, step: this.#step, applied: this.#applied }
  }

  /**
   * Finishes the step in progress and begins no other; resolves with the report. After `timeout` (default: 30 seconds) the step's
   * signal is aborted, with the reason; a step that ignores it runs to its end. The next run resumes from there.
   */
  async stop(options: StopOptions = {}): Promise<MigrateReport> {
    checkStop(options)
    const { reason, timeout = defaultGraceMs, signal } = options
    const graceMs = toMs(timeout, 'timeout')
    this.#isStopping = true
    this.#waiting.abort()
    const cancel = this.#engine.clock.after(graceMs, () => {
      this.#calls.abort(reason === undefined ? undefined : new RepriseError('ABORTED', reason))
    })
    this.#result.then(cancel, cancel)
    return await unlessAborted(whileAwaited(this.#result), signal, `waiting for migrations ${this.name} to stop`)
  }

  /** `signal` ends the wait, not the run. */
  async result(options: { readonly signal?: AbortSignal } = {}): Promise<MigrateReport> {
    checkOptions('result', options, knownResult)
    return await unlessAborted(this.#result, options.signal, `waiting for migrations ${this.name}`)
  }

  watch(listener: (event: MigrateEvent) => void): () => void {
    checkFunction(listener, 'watch()')
    this.#watchers.add(listener)
    return () => this.#watchers.delete(listener)
  }

  async #plan(): Promise<MigrateReport> {
    const startedAt = this.#engine.clock.elapsed()
    const head = await this.#engine.head(this.timeline)
    const state = head ? (await this.#engine.recover(head, migrateFold)).state.value : migrateFold.initial()
    const pending = planMigration(this.name, this.#steps, state)
    return {
      status: 'planned',
      applied: [],
      pending: pending.map(pendingStep),
      before: state.applied.length,
      resumedAt: state.current?.id ?? null,
      elapsedMs: this.#engine.clock.elapsed() - startedAt,
    }
  }

  async #run(): Promise<MigrateReport> {
    const startedAt = this.#engine.clock.elapsed()
    const { signal } = this.#options
    const abort = () => {
      this.#waiting.abort(signal?.reason)
      this.#calls.abort(signal?.reason)
    }
    signal?.addEventListener('abort', abort, { once: true })
    if (signal?.aborted) abort()
    const offClose = this.#engine.onClose((graceMs) => this.#stopWithin(graceMs ?? defaultGraceMs))
    try {
      return await this.#apply(startedAt)
    } catch (error) {
      // Stopped while another process migrates: nothing was done, and the report reflects that.
      if (!this.#isStopping || !isReprise(error, 'ABORTED')) throw error
      return { ...(await this.#plan()), status: 'stopped' }
    } finally {
      signal?.removeEventListener('abort', abort)
      offClose()
    }
  }

  /** The engine closes: a step that ignores its signal is left running; its later writes are refused. */
  async #stopWithin(graceMs: number): Promise<void> {
    const { clock } = this.#engine
    const stopped = this.stop({ timeout: graceMs }).catch(() => undefined)
    await within(clock, graceMs + heedMs, stopped)
  }

  async #apply(startedAt: number): Promise<MigrateReport> {
    const { clock } = this.#engine
    const { signal, attributes = {} } = this.#options
    const options = { wait: this.#options.wait ?? '1m', signal: this.#waiting.signal }
    const open = await whileAwaited(this.#engine.openTimeline(this.timeline, migrateFold, options))
    this.#beginning.begun()
    let status = open.state.current ? 'failed' : 'completed'
    try {
      const before = open.state.applied.length
      const resumedAt = open.state.current?.id ?? null
      const applied: { id: string; ms: number }[] = []
      const pending = planMigration(this.name, this.#steps, open.state)
      if (pending.length > 0) await open.write([], { status: 'running', attributes })
      while (pending.length > 0 && !this.#isStopping) {
        const step = pending[0]!
        status = 'stopped'
        if (signal?.aborted) throw new RepriseError('ABORTED', `migrations ${this.name}: aborted before ${step.id}`, {})
        status = 'failed'
        const ms = await this.#applyStep(open, step)
        if (ms === null) {
          status = 'stopped'
          continue
        }
        applied.push({ id: step.id, ms })
        pending.shift()
      }
      status = pending.length > 0 ? 'stopped' : 'completed'
      return {
        status: status === 'stopped' ? 'stopped' : 'completed',
        applied,
        pending: pending.map(pendingStep),
        before,
        resumedAt,
        elapsedMs: clock.elapsed() - startedAt,
      }
    } finally {
      await open.close({ attributes: { migrations: this.name, applied: open.state.applied.length }, status })
    }
  }

  /** Null: stopped before the next attempt. */
  async #applyStep(open: OpenTimeline<MigrateState>, step: CheckedStep): Promise<number | null> {
    for (;;) {
      if (!(await this.#untilDue(open, step))) return null
      const ms = await this.#attempt(open, step)
      if (ms !== null) return ms
    }
  }

  /** Waits for the pause before the next attempt, of this run or of one that died in it. */
  async #untilDue(open: OpenTimeline<MigrateState>, { id }: CheckedStep): Promise<boolean> {
    const { clock, worker } = this.#engine
    const { current } = open.state
    const delayMs = (current?.id === id ? (current.retryAt ?? 0) : 0) - worker.now(open.id)
    const { signal } = this.#waiting
    if (delayMs > 0) await sleep(clock, delayMs, { signal })
    return !signal.aborted
  }

  /** Null: the attempt failed, and is retried at the recorded time. */
  async #attempt(open: OpenTimeline<MigrateState>, step: CheckedStep): Promise<number | null> {
    const { clock, random, worker } = this.#engine
    const startedAt = clock.elapsed()
    this.#report(step.id, 'began')
    const letEnd = stayAlive()
    const underWay = { timeline: this.timeline, what: `step ${step.id}`, since: startedAt }
    const offWatch = this.#engine.worker.watch(() => [underWay])
    try {
      const userSqls = step.sql === undefined ? await this.#code(open, step) : [sqlOf(step.sql)]
      const ms = Math.round(clock.elapsed() - startedAt)
      const entry = { type: 'applied', data: { id: step.id, checksum: step.checksum, ms } }
      const userSql = async (sql: Sql) => {
        for (const each of userSqls) await each(sql)
      }
      await open.write([entry], userSqls.length > 0 ? { userSql } : {})
      this.#report(step.id, 'applied')
      return ms
    } catch (error) {
      const cause = error instanceof RepriseError && error.code === 'RIDER_FAILED' ? (error.cause ?? error) : error
      const message = cause instanceof Error ? cause.message : String(cause)
      const data = { id: step.id, error: message.slice(0, 2000) }
      const failures = open.state.current?.id === step.id ? (open.state.current.failures ?? 0) : 0
      const policy = resolveRetry(step.retry ?? this.#retry, step.sql === undefined ? {} : callOnce)
      const given = { chance: () => random.number(), now: worker.now() }
      const { again, delayMs, counts } = decideRetry(policy, failures + 1, cause, given)
      if (again && !open.broken && !this.#calls.signal.aborted) {
        const n = counts ? failures + 1 : failures
        await open.write([{ type: 'retry', data: { ...data, n, at: worker.now(open.id) + delayMs } }])
        this.#report(step.id, 'retry')
        return null
      }
      this.#report(step.id, 'failed')
      if (!open.broken) await open.write([{ type: 'failed', data }])
      throw new RepriseError(
        'RUN_FAILED',
        `migrations ${this.name}: step ${step.id} failed: ${message}`,
        { step: step.id },
        cause,
      )
    } finally {
      letEnd()
      offWatch()
    }
  }

  /** Code may have external effects, so its begin is recorded first; its SQL commits together with the record of its end. */
  async #code(
    open: OpenTimeline<MigrateState>,
    step: CheckedStep,
  ): Promise<((sql: Sql) => Promise<unknown> | unknown)[]> {
    await open.write([{ type: 'began', data: { id: step.id } }])
    const userSqls: ((sql: Sql) => Promise<unknown> | unknown)[] = []
    const current = open.state.current!
    await step.run!({
      key: toHex(this.#engine.hash(new TextEncoder().encode(`${this.timeline}\n${step.id}`))).slice(0, 32),
      attempt: current.attempts,
      signal: this.#calls.signal,
      saved: current.saved,
      save: async (value) => void (await open.write([{ type: 'saved', data: { id: step.id, value } }])),
      commit: (userSql) => void userSqls.push(userSql),
    })
    return userSqls
  }

  #report(step: string, state: MigrateEvent['state']): void {
    this.#step = step
    if (state === 'applied') this.#applied += 1
    for (const listener of this.#watchers) warnOnReject(listener({ step, state }), 'watch()')
  }
}

function sqlOf(text: string) {
  return async (sql: Sql) => {
    for (const statement of splitSql(text)) await sql.run(statement)
  }
}

function pendingStep({ id, sql }: CheckedStep): MigrateReport['pending'][number] {
  return { id, sql: sql === undefined ? null : splitSql(sql) }
}

// The pending steps, and whether the applied ones still match the steps.

/** The steps not applied yet, in order. Throws MIGRATION_DRIFT if an applied step changed, is missing, or was overtaken. */
function planMigration(name: string, steps: readonly CheckedStep[], state: MigrateState): CheckedStep[] {
  const byId = new Map(steps.map((step) => [step.id, step]))
  for (const { id, checksum } of state.applied) {
    const step = byId.get(id)
    if (!step) throw drift(`step ${id} was applied and no longer exists`, id)
    if (checksum !== '' && step.checksum !== '' && checksum !== step.checksum) {
      throw drift(`step ${id} was applied with different content`, id)
    }
  }
  const applied = new Set(state.applied.map((step) => step.id))
  const last = Math.max(-1, ...state.applied.map((step) => numberOf(step.id)))
  const pending = steps.filter((step) => !applied.has(step.id))
  const late = pending.find((step) => numberOf(step.id) < last)
  if (late) throw drift(`step ${late.id} is new, and a later step was already applied: choose a higher number`, late.id)
  return pending

  function drift(what: string, step: string): RepriseError {
    return new RepriseError('MIGRATION_DRIFT', `migrations ${name}: ${what}`, { name, step })
  }
}
