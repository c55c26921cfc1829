// One process at a time does the work of an informer or a controller: the owner of its timeline. Other processes wait and
// take over when the owner ends or dies. A process that loses ownership stops and waits like the others; its remaining writes
// are refused.

import { type TimelineId, timelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { growingPause } from '../../core/retry/pause.ts'
import { pollEvery } from '../../engine/feed/wake-up.ts'
import type { Host } from '../../engine/host/host.ts'
import type { OpenOptions } from '../../engine/model/definition.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import { Latch, sleep } from '../../lib/waiting.ts'
import { type FollowerState, followerFold } from './follower-state.ts'
import { applyMail } from './letters.ts'

/** The work, while this process owns it. */
export interface Session {
  /** True when all changes up to these revisions (one per kind) were handled or given up. */
  hasDone(revisions: readonly number[]): boolean
  /** Dead letters with these keys are handled again. */
  redriven(keys: readonly string[]): void
  stop(): Promise<void>
}

const mailMs = 500
const longestPauseMs = 1000

export class Leading {
  readonly timeline: TimelineId
  readonly #engine: Host
  readonly #begin: (open: OpenTimeline<FollowerState>, lost: (error: unknown) => void) => Promise<Session>
  readonly #stopping = new AbortController()
  readonly #takeover: boolean
  readonly #loop: Promise<void>
  readonly #unclose: () => void
  #open: OpenTimeline<FollowerState> | null = null
  #session: Session | null = null
  #waiters = new Set<() => void>()

  constructor(
    engine: Host,
    timeline: string,
    begin: (open: OpenTimeline<FollowerState>, lost: (error: unknown) => void) => Promise<Session>,
    options: OpenOptions,
  ) {
    this.timeline = timelineId(timeline)
    this.#engine = engine
    this.#begin = begin
    this.#takeover = options.takeover ?? false
    this.#unclose = engine.onClose(() => this.stop())
    this.#loop = this.#run()
  }

  /** The timeline, while this process does the work. */
  get open(): OpenTimeline<FollowerState> | null {
    return this.#open && !this.#open.broken && !this.#open.closing ? this.#open : null
  }

  get session(): Session | null {
    return this.open ? this.#session : null
  }

  /** Resolves once this process does the work. */
  async led(signal?: AbortSignal): Promise<void> {
    while (!this.open) {
      if (this.#stopping.signal.aborted) throw new RepriseError('CLOSED', `${this.timeline} was closed`)
      if (signal?.aborted) throw new RepriseError('ABORTED', `${this.timeline}: aborted`, {}, signal.reason)
      await new Promise<void>((resolve) => {
        const done = () => {
          signal?.removeEventListener('abort', done)
          this.#waiters.delete(done)
          resolve()
        }
        this.#waiters.add(done)
        signal?.addEventListener('abort', done, { once: true })
      })
    }
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#notify()
    this.#unclose()
    await this.#loop
  }

  async #run(): Promise<void> {
    const { clock, events } = this.#engine
    for (let failures = 0; !this.#stopping.signal.aborted; ) {
      try {
        const options = { wait: 1000, takeover: this.#takeover && failures === 0, signal: this.#stopping.signal }
        const open = await this.#engine.openTimeline(this.timeline, followerFold, options)
        try {
          failures = 0
          await this.#lead(open)
        } finally {
          this.#open = null
          await open.close().catch(() => undefined)
        }
        // Ownership was lost: pause, so that the new owner goes first.
        failures = 1
      } catch (error) {
        if (this.#stopping.signal.aborted || isReprise(error, 'CLOSED')) return
        failures += 1
        void this.#engine.failures.failed(this.timeline, error)
        if (!isReprise(error, 'OWNED', 'FENCED')) events.emit('problem', { where: this.timeline, error })
      }
      if (this.#stopping.signal.aborted) return
      await sleep(clock, growingPause(Math.max(1, failures), 20, longestPauseMs), {
        signal: this.#stopping.signal,
        isAwaited: false,
      })
    }
  }

  async #lead(open: OpenTimeline<FollowerState>): Promise<void> {
    const { clock } = this.#engine
    const over = new Latch<unknown>()
    const lose = (error: unknown) => over.set(error)
    // The follower may have been stopped while the timeline was being opened.
    if (this.#stopping.signal.aborted) return
    const stop = () => lose(null)
    this.#stopping.signal.addEventListener('abort', stop, { once: true })
    await applyMail(this.#engine, open)
    const session = await this.#begin(open, lose)
    this.#open = open
    this.#session = session
    this.#notify()
    // A redrive may already be applied by its sender in this process: the entries of the history count, not the mail.
    const unwatch = open.watch((entries) => {
      for (const { type, data } of entries) if (type === 'redriven') session.redriven((data as { keys: string[] }).keys)
    })
    const look = async () => {
      if (open.broken) lose(open.broken)
      else await applyMail(this.#engine, open)
    }
    const stops = [unwatch, pollEvery(clock, mailMs, look, (error) => isLoss(error) && lose(error))]
    try {
      await over.wait()
    } finally {
      for (const each of stops) each()
      this.#stopping.signal.removeEventListener('abort', stop)
      await session.stop()
    }
  }

  #notify(): void {
    for (const resolve of [...this.#waiters]) resolve()
    this.#waiters.clear()
  }
}

/** True if the error means that another process does the work. */
export function isLoss(error: unknown): boolean {
  return isReprise(error, 'FENCED', 'CLOSED', 'WORKER_RETIRED')
}
