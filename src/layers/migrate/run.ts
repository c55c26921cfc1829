// One run of migrations: applies what is pending, step by step, each recorded when it is done, and stops at the first
// that fails. The next run goes on with that step.

import { type TimelineId, timelineId, toHex } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Sql } from '../../core/ports.ts'
import { recover } from '../../engine/recover.ts'
import type { Reprise } from '../../engine/reprise.ts'
import { stayAlive, whileAwaited } from '../../engine/stay-alive.ts'
import type { OpenTimeline } from '../../engine/timeline.ts'
import { planMigration } from './plan.ts'
import { splitSql } from './split.ts'
import { type MigrateState, migrateFold } from './state.ts'
import type { CheckedStep } from './steps.ts'

export interface MigrateOptions {
  /** Say what would be done; change nothing. */
  readonly dryRun?: boolean
  /** How long to wait for another process that migrates; 1 minute if left out. */
  readonly wait?: number | string
  readonly signal?: AbortSignal
}

export interface MigrateReport {
  readonly status: 'finished' | 'dry run'
  /** Applied by this run. */
  readonly applied: readonly { readonly id: string; readonly ms: number }[]
  /** With dryRun: what would be applied. */
  readonly pending: readonly { readonly id: string; readonly sql: readonly string[] | null }[]
  readonly before: number
  /** The step that an earlier run did not get through. */
  readonly resumedAt: string | null
  readonly elapsedMs: number
}

export class MigrateRun {
  readonly name: string
  readonly timeline: TimelineId
  readonly #engine: Reprise
  readonly #steps: readonly CheckedStep[]
  readonly #options: MigrateOptions
  readonly #result: Promise<MigrateReport>
  readonly #watchers = new Set<
    (event: { readonly step: string; readonly state: 'began' | 'applied' | 'failed' }) => void
  >()

  constructor(engine: Reprise, name: string, steps: readonly CheckedStep[], options: MigrateOptions) {
    this.name = name
    this.timeline = timelineId(`migrate/${name}`)
    this.#engine = engine
    this.#steps = steps
    this.#options = options
    this.#result = options.dryRun ? this.#plan() : this.#apply()
    this.#result.catch(() => undefined)
  }

  result(): Promise<MigrateReport> {
    return this.#result
  }

  watch(
    listener: (event: { readonly step: string; readonly state: 'began' | 'applied' | 'failed' }) => void,
  ): () => void {
    this.#watchers.add(listener)
    return () => this.#watchers.delete(listener)
  }

  async #plan(): Promise<MigrateReport> {
    const startedAt = this.#engine.kernel.clock.elapsed()
    const head = await this.#engine.head(this.timeline)
    const state = head ? (await recover(this.#engine.kernel, head, migrateFold)).state.value : migrateFold.initial()
    const pending = planMigration(this.name, this.#steps, state)
    return {
      status: 'dry run',
      applied: [],
      pending: pending.map(({ id, sql }) => ({ id, sql: sql === undefined ? null : splitSql(sql) })),
      before: state.applied.length,
      resumedAt: state.current?.id ?? null,
      elapsedMs: this.#engine.kernel.clock.elapsed() - startedAt,
    }
  }

  async #apply(): Promise<MigrateReport> {
    const { clock } = this.#engine.kernel
    const startedAt = clock.elapsed()
    const { signal } = this.#options
    const options = { wait: this.#options.wait ?? '1m', ...(signal && { signal }) }
    const open = await whileAwaited(this.#engine.openTimeline(this.timeline, migrateFold, options))
    try {
      const before = open.state.applied.length
      const resumedAt = open.state.current?.id ?? null
      const applied: { id: string; ms: number }[] = []
      for (const step of planMigration(this.name, this.#steps, open.state)) {
        if (signal?.aborted) throw new RepriseError('ABORTED', `migrations ${this.name}: aborted before ${step.id}`, {})
        applied.push({ id: step.id, ms: await this.#step(open, step) })
      }
      return { status: 'finished', applied, pending: [], before, resumedAt, elapsedMs: clock.elapsed() - startedAt }
    } finally {
      await open.close({
        attributes: { migrations: this.name, applied: open.state.applied.length },
        status: statusOf(open.state),
      })
    }
  }

  async #step(open: OpenTimeline<MigrateState>, step: CheckedStep): Promise<number> {
    const { clock } = this.#engine.kernel
    const startedAt = clock.elapsed()
    this.#tell(step.id, 'began')
    const letEnd = stayAlive()
    try {
      const rides = step.sql === undefined ? await this.#code(open, step) : [sqlRide(step.sql)]
      const ms = Math.round(clock.elapsed() - startedAt)
      const entry = { type: 'applied', data: { id: step.id, checksum: step.checksum, ms } }
      const ride = async (sql: Sql) => {
        for (const each of rides) await each(sql)
      }
      await open.write([entry], rides.length > 0 ? { ride } : {})
      this.#tell(step.id, 'applied')
      return ms
    } catch (error) {
      this.#tell(step.id, 'failed')
      const cause = error instanceof RepriseError && error.code === 'RIDER_FAILED' ? (error.cause ?? error) : error
      const message = cause instanceof Error ? cause.message : String(cause)
      if (!open.broken) await open.write([{ type: 'failed', data: { id: step.id, error: message.slice(0, 2000) } }])
      throw new RepriseError(
        'RUN_FAILED',
        `migrations ${this.name}: step ${step.id} failed: ${message}`,
        { step: step.id },
        cause,
      )
    } finally {
      letEnd()
    }
  }

  /** Code may do anything outside, so it is recorded before it begins; what it commits rides with the record of it. */
  async #code(
    open: OpenTimeline<MigrateState>,
    step: CheckedStep,
  ): Promise<((sql: Sql) => Promise<unknown> | unknown)[]> {
    await open.write([{ type: 'began', data: { id: step.id } }])
    const rides: ((sql: Sql) => Promise<unknown> | unknown)[] = []
    const current = open.state.current!
    await step.run!({
      key: toHex(this.#engine.kernel.hash(new TextEncoder().encode(`${this.timeline}\n${step.id}`))).slice(0, 32),
      attempt: current.attempts,
      signal: this.#options.signal ?? new AbortController().signal,
      saved: current.saved,
      save: async (value) => void (await open.write([{ type: 'saved', data: { id: step.id, value } }])),
      commit: (ride) => void rides.push(ride),
    })
    return rides
  }

  #tell(step: string, state: 'began' | 'applied' | 'failed'): void {
    for (const listener of this.#watchers) listener({ step, state })
  }
}

function sqlRide(text: string) {
  return async (sql: Sql) => {
    for (const statement of splitSql(text)) await sql.run(statement)
  }
}

function statusOf(state: MigrateState): string {
  return state.current ? 'failed' : 'finished'
}
