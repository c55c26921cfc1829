// A run as its users hold it: a name for it, from any process. It owns nothing; it asks the store, or the instance if the
// run happens to be in memory here.

import { timelineId } from '../../core/coordinate.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Head } from '../../core/ports.ts'
import { recover } from '../../engine/recover.ts'
import type { AnyWorkflow } from './definition.ts'
import type { End } from './entries.ts'
import { fromFailure } from './failure.ts'
import type { Host } from './host.ts'
import { type RunState, workflowFold } from './state.ts'

export interface RunStatus {
  readonly id: string
  readonly workflow: string
  /** waiting, running, held, compensating, compensation-stuck, diverged, quarantined; completed, failed, cancelled, terminated. */
  readonly status: string
  readonly isEnded: boolean
  readonly wakeup: number | null
  readonly attributes: Head['attributes']
  readonly createdAt: number
  readonly updatedAt: number
}

export const endings: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled', 'terminated'])
const halted: ReadonlySet<string> = new Set(['diverged', 'quarantined'])

const pollMs = 250

export class WorkflowRun<Output = unknown> {
  readonly id: string
  readonly timeline: string
  readonly #host: Host
  readonly #definition: AnyWorkflow

  constructor(host: Host, definition: AnyWorkflow, id: string) {
    this.#host = host
    this.#definition = definition
    this.id = id
    this.timeline = definition.prefix + id
  }

  /** The result, or what the run threw. Waits for the end, wherever the run executes. */
  async result(options: { readonly timeout?: Duration; readonly signal?: AbortSignal } = {}): Promise<Output> {
    const end = await this.#ended(options)
    switch (end.kind) {
      case 'completed':
        return end.result as Output
      case 'terminated':
        throw new RepriseError('RUN_FAILED', `${this.timeline} was terminated: ${end.reason}`, { run: this.id })
      default:
        throw fromFailure(end.error)
    }
  }

  async status(): Promise<RunStatus> {
    const head = await this.#head()
    const { status, wakeup, attributes, createdAt, updatedAt } = head
    const isRunning = status === 'waiting' && head.owner !== null && head.isOwnerAlive
    return {
      id: this.id,
      workflow: this.#definition.name,
      status: isRunning ? 'running' : status,
      isEnded: endings.has(status),
      wakeup,
      attributes,
      createdAt,
      updatedAt,
    }
  }

  /** Delivered once, also before the run waits for it. The same `key` counts once. */
  async signal(name: string, value?: unknown, options: { readonly key?: string } = {}): Promise<void> {
    await this.#mail('signal', value === undefined ? { name } : { name, value }, options.key)
  }

  async cancel(reason = 'cancelled'): Promise<void> {
    await this.#mail('cancel', { reason })
  }

  async #mail(kind: string, data: unknown, key?: string): Promise<string> {
    const head = await this.#host.engine.head(this.timeline)
    if (head && endings.has(head.status)) {
      throw new RepriseError('CONFLICT', `${this.timeline} has ended (${head.status})`, {
        run: this.id,
        status: head.status,
      })
    }
    return await this.#host.send(this.timeline, kind, data, key)
  }

  /** Starts an ended run over, under the same id. */
  async restart(input: unknown): Promise<void> {
    const head = await this.#head()
    if (!endings.has(head.status)) return
    const open = await this.#host.take(this.timeline)
    try {
      if (open.state.end) await open.write([{ type: 'continued', data: { input, keep: [] } }])
    } finally {
      await open.close(this.#due())
    }
    this.#host.engine.dispatcher.wake()
  }

  #due() {
    return { wakeup: this.#host.kernel.worker.now(), queue: `workflow/${this.#definition.name}`, status: 'waiting' }
  }

  /** State as history has it now, without taking the run from anybody. */
  async state(): Promise<RunState> {
    const live = this.#host.instance(this.timeline)
    if (live) return live.state
    return (await recover(this.#host.kernel, await this.#head(), workflowFold)).state.value
  }

  async #head(): Promise<Head> {
    const head = await this.#host.engine.head(this.timeline)
    if (!head) throw new RepriseError('NOT_FOUND', `there is no run ${this.timeline}`, { run: this.id })
    return head
  }

  async #ended(options: { readonly timeout?: Duration; readonly signal?: AbortSignal }): Promise<End> {
    const { clock } = this.#host.kernel
    const until =
      options.timeout === undefined ? Number.POSITIVE_INFINITY : clock.elapsed() + toMs(options.timeout, 'timeout')
    for (;;) {
      if (options.signal?.aborted)
        throw new RepriseError('ABORTED', 'aborted while waiting for a result', {}, options.signal.reason)
      const live = this.#host.instance(this.timeline)
      const changed = this.#changed(
        live ? until - clock.elapsed() : Math.min(pollMs, until - clock.elapsed()),
        options.signal,
      )
      if (live) {
        await changed
        if (live.state.end) return live.state.end
      }
      const [head] = await this.#host.kernel.store.head([timelineId(this.timeline)])
      if (!head) throw new RepriseError('NOT_FOUND', `there is no run ${this.timeline}`, { run: this.id })
      if (endings.has(head.status)) {
        const { end } = await this.state()
        if (end) return end
      }
      if (halted.has(head.status)) throw haltedError(head)
      if (clock.elapsed() >= until)
        throw new RepriseError('TIMEOUT', `${this.timeline} has not ended yet`, { run: this.id })
      if (!live) await changed
    }
  }

  /** Something may have happened: it left memory here, or a while has passed. */
  #changed(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        unwatch()
        cancel?.()
        signal?.removeEventListener('abort', done)
        resolve()
      }
      const unwatch = this.#host.watch(this.timeline, done)
      const cancel = Number.isFinite(ms) ? this.#host.kernel.clock.after(Math.max(0, ms), done) : undefined
      signal?.addEventListener('abort', done, { once: true })
    })
  }
}

function haltedError(head: Head): RepriseError {
  const code = head.status === 'diverged' ? 'DIVERGED' : 'UNRECOVERABLE'
  const problem = String(head.attributes['problem'] ?? head.status).replace(/ \[[A-Z_]+\]$/, '')
  return new RepriseError(code, problem, { timeline: head.timeline, status: head.status })
}
