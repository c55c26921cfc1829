// A run as its users hold it: a name for it, from any process. It owns nothing; it asks the store, or the instance if the
// run happens to be in memory here.

import { timelineId } from '../../core/coordinate.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Head } from '../../core/ports.ts'
import type { Along } from '../../engine/commit/writer.ts'
import { newId } from '../../engine/kernel.ts'
import { recover } from '../../engine/recovery/recover.ts'
import { whileAwaited } from '../../engine/stay-alive.ts'
import { refuseMoved } from '../../engine/tools/moved.ts'
import type { AnyWorkflow } from './definition.ts'
import type { End, Item } from './entries.ts'
import { fromFailure } from './failure.ts'
import type { Host } from './host.ts'
import { itemsOf } from './journal.ts'
import {
  type Carried,
  messageName,
  type QueryDefinition,
  type SignalDefinition,
  type UpdateDefinition,
} from './messages.ts'
import { leaveMessages } from './queue.ts'
import { replayAside } from './replay.ts'
import type { RunRollbackOptions } from './rollback-options.ts'
import { commandName, leaveScope, readableId } from './scope.ts'
import { checkSettleable } from './settle.ts'
import { type RunState, workflowFold } from './state.ts'
import { notedWaits, summarizeWorkflow, type Wait, waitsOf } from './summary.ts'

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

/** Only a person can end these waits. */
const held: ReadonlySet<string> = new Set(['held', 'compensation-stuck'])

const pollMs = 250
/** An update without an answer for this long: is there anybody who could give one? */
const doubtMs = 1000

export interface ResultOptions {
  readonly timeout?: Duration
  readonly signal?: AbortSignal
  /** If the run is held, or stuck in a compensation: reject with HELD (default), or go on waiting for a person. */
  readonly whenHeld?: 'reject' | 'wait'
}

export class WorkflowRun<Output = unknown> {
  readonly id: string
  readonly timeline: string
  readonly #host: Host
  readonly definition: AnyWorkflow

  constructor(host: Host, definition: AnyWorkflow, id: string) {
    this.#host = host
    this.definition = definition
    this.id = id
    this.timeline = definition.prefix + id
  }

  /** The result, or what the run threw. Waits for the end, wherever the run executes. */
  async result(options: ResultOptions = {}): Promise<Output> {
    const end = await whileAwaited(this.#ended(options), this.#host.kernel.clock)
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
    const isAsleep = status === 'running' && this.#host.isAsleep(this.timeline)
    return {
      id: this.id,
      workflow: this.definition.name,
      status: isRunning ? 'running' : isAsleep ? 'waiting' : status,
      isEnded: endings.has(status),
      wakeup,
      attributes,
      createdAt,
      updatedAt,
    }
  }

  /** What it waits for: signals, timers, children, steps to be tried again or held, and until when. */
  async waitsFor(): Promise<readonly Wait[]> {
    const live = this.#host.instance(this.timeline)
    if (!live) return summarizeWorkflow(await this.state()).waits
    await Promise.race([live.replayed, live.left])
    return live.state.end ? [] : waitsOf(live.state, live.execution ? notedWaits(live.execution.open) : [])
  }

  /** Delivered once, also before the run waits for it. The same `key` counts once. */
  signal<T>(signal: SignalDefinition<T>, ...value: [...Carried<T>, options?: { readonly key?: string }]): Promise<void>
  signal(name: string, value?: unknown, options?: { readonly key?: string }): Promise<void>
  async signal(
    signal: string | SignalDefinition<unknown>,
    value?: unknown,
    options: { readonly key?: string } = {},
  ): Promise<void> {
    const name = messageName(signal)
    await this.#mail('signal', value === undefined ? { name } : { name, value }, options.key)
  }

  async cancel(reason = 'cancelled'): Promise<void> {
    await this.#mail('cancel', { reason })
  }

  /** What the handler of that query says; the run itself does not notice. Without a handler, 'status' is the run's own. */
  query<Args extends readonly unknown[], Result>(
    query: QueryDefinition<Args, Result>,
    ...args: Args
  ): Promise<Awaited<Result>>
  query<T = unknown>(name: string, ...args: readonly unknown[]): Promise<T>
  async query(query: string | { readonly name: string }, ...args: readonly unknown[]): Promise<unknown> {
    const name = messageName(query)
    try {
      return await this.#query(name, args)
    } catch (error) {
      if (name === 'status' && isReprise(error, 'NOT_FOUND')) return (await this.status()).status
      throw error
    }
  }

  async #query(name: string, args: readonly unknown[]): Promise<unknown> {
    const live = this.#host.instance(this.timeline)
    if (live) {
      await Promise.race([live.replayed, live.left])
      if (!live.isLeaving) return leaveScope(() => live.queries.query(name, args))
    }
    const state = await this.state()
    const { instance, divergence } = await replayAside(this.#host, this.definition, timelineId(this.timeline), state)
    if (divergence) throw divergence
    return instance.queries.query(name, args)
  }

  /** Changes the run through its handler, and gives what the handler gave. */
  update<Args, Result>(
    update: UpdateDefinition<Args, Result>,
    ...args: [...Carried<Args>, options?: { readonly timeout?: Duration }]
  ): Promise<Result>
  update<T = unknown>(name: string, args?: unknown, options?: { readonly timeout?: Duration }): Promise<T>
  async update(
    update: string | { readonly name: string },
    args?: unknown,
    options: { readonly timeout?: Duration } = {},
  ): Promise<unknown> {
    return await whileAwaited(this.#update(messageName(update), args, options), this.#host.kernel.clock)
  }

  async #update(name: string, args: unknown, options: { readonly timeout?: Duration }): Promise<unknown> {
    const { clock } = this.#host.kernel
    const until = clock.elapsed() + toMs(options.timeout ?? '1m', 'timeout')
    let doubtAt = clock.elapsed() + doubtMs
    const id = await this.#mail('update', { name, args })
    for (;;) {
      const changed = this.#changed(Math.min(pollMs, until - clock.elapsed()), undefined)
      // Late only if it is missing from what was read after the deadline.
      const isLate = clock.elapsed() >= until
      const { updates, end } = await this.state()
      const outcome = Object.hasOwn(updates, id) ? updates[id] : undefined
      if (outcome?.error) throw fromFailure(outcome.error)
      if (outcome) return outcome.result
      if (end)
        throw new RepriseError('CONFLICT', `${this.timeline} ended before it took the update ${name}`, { update: name })
      if (clock.elapsed() >= doubtAt) {
        doubtAt = Number.POSITIVE_INFINITY
        await this.#checkUpdate(name, id)
      }
      if (isLate) throw new RepriseError('TIMEOUT', `no answer to the update ${name} yet`, { update: name })
      await changed
    }
  }

  /** It was taken into history, the code waits, and has no handler of that name: nobody will answer, as things are. */
  async #checkUpdate(name: string, id: string): Promise<void> {
    const state = await this.state()
    if (!itemsOf(state.journal).some((item) => item.kind === 'update' && item.update === id)) return
    const known = await this.#updates(state)
    if (known === null || known.includes(name)) return
    const names = known.join(', ') || 'none'
    throw new RepriseError('NOT_FOUND', `${this.timeline} takes no update ${name} now; it knows: ${names}`, {
      update: name,
      known,
    })
  }

  /** The updates that the code has handlers for; null if that cannot be told. */
  async #updates(state: RunState): Promise<readonly string[] | null> {
    const live = this.#host.instance(this.timeline)
    if (live) return live.execution?.isQuiet ? live.queries.updates : null
    const { instance, divergence } = await replayAside(this.#host, this.definition, timelineId(this.timeline), state)
    return divergence ? null : instance.queries.updates
  }

  /** Ends it at once: no clean-up, no compensation. */
  async terminate(reason = 'terminated'): Promise<void> {
    const head = await this.#head()
    if (endings.has(head.status)) return
    if (this.#host.instance(this.timeline) || (head.owner !== null && head.isOwnerAlive)) {
      await this.#host.send(this.timeline, 'terminate', { reason })
      return
    }
    const send = leaveMessages(this.#host.engine, this.timeline, await this.state())
    await this.#change(() => [{ type: 'terminated', data: { reason } }], {
      wakeup: null,
      queue: null,
      status: 'terminated',
      ...(send.length > 0 && { send }),
    })
  }

  /** After a failure that nothing was undone for: takes the last failure back and goes on from there. */
  async retry(): Promise<void> {
    await this.#change(({ end, undone, journal }) => {
      if (end?.kind !== 'failed') throw this.#conflict('only a run that failed can be retried')
      if (Object.keys(undone).length > 0) throw this.#conflict('its steps were undone: fork it or start another')
      return [{ type: 'retried', data: { ids: lastFailures(itemsOf(journal)) } }]
    })
  }

  /** Undoes everything from that step on, in reverse, and goes on from there: with other input, if given. */
  async rollback(to: string, options: RunRollbackOptions = {}): Promise<void> {
    const state = await this.state()
    const { seq, key } = options
    const data = {
      to: findStep(state, to, this.timeline).id,
      ...('input' in options && { input: options.input }),
      ...(seq !== undefined && { seq }),
    }
    if (state.end) await this.#change(() => [{ type: 'rollback', data, ...(key !== undefined && { key }) }])
    else await this.#mail('rollback', data, key)
  }

  /** Undoes all that it did, in reverse, and ends it as cancelled, also if it has completed. Resolves when that is done. */
  async undo(reason = 'undone'): Promise<void> {
    const { end } = await this.state()
    if (end === null) await this.cancel(reason)
    else if (end.kind === 'completed' || end.kind === 'terminated')
      await this.#change(() => [{ type: 'undo', data: { reason } }])
    const { kind } = await whileAwaited(this.#ended({}), this.#host.kernel.clock)
    // It completed before it heard of it.
    if (kind === 'completed') await this.undo(reason)
  }

  /** Another run with the same history up to that step, which then goes its own way. */
  async fork(
    from: string,
    options: { readonly id?: string; readonly input?: unknown } = {},
  ): Promise<WorkflowRun<Output>> {
    const { engine, kernel } = this.#host
    const item = findStep(await this.state(), from, this.timeline)
    const id = options.id ?? `${this.id}.fork-${newId(kernel.random)}`
    await engine.forkTimeline({ timeline: this.timeline, seq: item.seq - 1 }, this.definition.prefix + id)
    const run = new WorkflowRun<Output>(this.#host, this.definition, id)
    const data = { from: this.timeline, ...('input' in options && { input: options.input }) }
    await run.#change(() => [{ type: 'forked', data }])
    return run
  }

  /** A person says what became of a held step, or that a stuck compensation was done by hand (or is to be tried again). */
  async settle(
    step: string,
    outcome: 'done' | 'failed' | 'retry' | 'compensated',
    options: { readonly by?: string; readonly result?: unknown; readonly error?: string } = {},
  ): Promise<void> {
    const { by = 'somebody', result, error = 'settled as failed' } = options
    await checkSettleable(this.#host.engine, timelineId(this.timeline), commandIdOf(step))
    const failure = { name: 'Error', message: error }
    await this.#mail('settle', {
      id: commandIdOf(step),
      outcome,
      by,
      ...(outcome === 'failed' ? { error: failure } : { result }),
    })
  }

  /** Tries a stuck compensation again. */
  async resume(by = 'somebody'): Promise<void> {
    await this.#mail('resume', { by })
  }

  /** Starts an ended run over, under the same id. */
  async restart(input: unknown): Promise<void> {
    const head = await this.#head()
    if (endings.has(head.status)) await this.#change(() => [{ type: 'continued', data: { input, took: null } }])
  }

  async #mail(kind: string, data: unknown, key?: string): Promise<string> {
    const head = await this.#host.engine.head(this.timeline)
    if (head) refuseMoved(head)
    if (head && endings.has(head.status)) throw this.#conflict(`it has ended (${head.status})`)
    return await this.#host.send(this.timeline, kind, data, key)
  }

  /** A change from outside, to a run that nobody executes. */
  async #change(
    entries: (state: RunState) => readonly { readonly type: string; readonly data: unknown; readonly key?: string }[],
    along: Along = this.#due(),
  ): Promise<void> {
    const open = await whileAwaited(this.#host.take(this.timeline), this.#host.kernel.clock)
    const time = Math.max(this.#host.kernel.worker.now(), open.state.lastAt)
    try {
      await open.write(
        entries(open.state).map((entry) => ({ ...entry, time })),
        along,
      )
    } finally {
      await open.close()
    }
    this.#host.engine.dispatcher.wake()
    this.#host.notify(this.timeline)
  }

  #conflict(why: string): RepriseError {
    return new RepriseError('CONFLICT', `${this.timeline}: ${why}`, { run: this.id })
  }

  #due() {
    return { wakeup: this.#host.kernel.worker.now(), queue: `workflow/${this.definition.name}`, status: 'waiting' }
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

  async #ended(options: ResultOptions): Promise<End> {
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
      const isLate = clock.elapsed() >= until
      const [head] = await this.#host.kernel.store.head([timelineId(this.timeline)])
      if (!head) throw new RepriseError('NOT_FOUND', `there is no run ${this.timeline}`, { run: this.id })
      refuseMoved(head)
      if (endings.has(head.status)) {
        const { end } = await this.state()
        if (end) return end
      }
      if (halted.has(head.status)) throw haltedError(head)
      // With mail on its way somebody may have settled it.
      if (held.has(head.status) && head.mail === 0 && options.whenHeld !== 'wait') throw await this.#heldError(head)
      if (isLate) throw new RepriseError('TIMEOUT', `${this.timeline} has not ended yet`, { run: this.id })
      if (!live) await changed
    }
  }

  async #heldError({ status }: Head): Promise<RepriseError> {
    const waits = (await this.waitsFor()).filter(({ needsPerson }) => needsPerson)
    const what = waits.map(({ kind, name, error }) => `${kind} ${name}${error ? ` (${error})` : ''}`).join(', ')
    return new RepriseError('HELD', `${this.timeline} is ${status} and waits for a person: ${what}`, {
      run: this.id,
      status,
      waits,
    })
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

/** A step as people write it: its name, its name and occurrence, or its whole id. */
function findStep(state: RunState, step: string, timeline: string): { readonly id: string; readonly seq: number } {
  const wanted = new Set([step, commandIdOf(step)])
  for (const item of itemsOf(state.journal)) {
    if ('id' in item && (wanted.has(item.id) || wanted.has(readableId(item.id)))) return item
  }
  throw new RepriseError('NOT_FOUND', `${timeline} has no step ${step} in its history`, { step })
}

function commandIdOf(step: string): string {
  const occurrence = /#\d+$/.exec(step)?.[0] ?? ''
  return step.includes('/') ? step : commandName(step.slice(0, step.length - occurrence.length)) + occurrence
}

/** The failures at the end of history: what made the run fail, if a step did. */
function lastFailures(items: readonly Item[]): string[] {
  const ids: string[] = []
  for (let i = items.length - 1; i >= 0; i--) {
    const item = items[i]!
    const isFailure = item.kind === 'failed' || (item.kind === 'child' && item.error !== null)
    if (isFailure && 'id' in item) ids.push(item.id)
    else break
  }
  return ids
}

function haltedError(head: Head): RepriseError {
  const code = head.status === 'diverged' ? 'DIVERGED' : 'UNRECOVERABLE'
  const problem = String(head.attributes.problem ?? head.status).replace(/ \[[A-Z_]+\]$/, '')
  return new RepriseError(code, problem, { timeline: head.timeline, status: head.status })
}
