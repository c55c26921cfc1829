// Queues: limits across all processes. A run with a queue waits for its admission. The queue is a timeline of its own
// that counts the admitted runs, and the two communicate by mail, so a crash neither loses nor duplicates a place. Each
// message is sent by one commit and has an id of its own: a run may enter again under an id that was used before.

import { type MessageId, timelineId } from '../../../core/coordinate.ts'
import type { Shapes } from '../../../core/data-shape.ts'
import { checkCount, checkOptions, namesOf } from '../../../core/options.ts'
import { resolveRate } from '../../../core/retry/rate.ts'
import type { Clock, Head, OutgoingMessage } from '../../../core/store/ports.ts'
import type { Host } from '../../../engine/host/host.ts'
import { readShaped } from '../../../engine/host/shaped-mail.ts'
import { checkName, type Fold, type Workable, works } from '../../../engine/model/definition.ts'
import type { Model } from '../../../engine/model/model.ts'
import type { OpenTimeline } from '../../../engine/writing/timeline.ts'
import type { RunState } from '../history/state.ts'
import { helperModel } from './helper-model.ts'
import { nextTurns, type QueueOptions, type QueueState, queueFold, turnsAtOnce } from './queue-state.ts'

export interface QueueDefinition extends Workable {
  readonly kind: 'queue'
  readonly name: string
  readonly options: QueueOptions
}

const known = namesOf<QueueOptions>()('concurrency perKey rate')

/** @example const gpu = queue('gpu', { concurrency: 4, perKey: 1 }) */
export function queue(name: string, options: QueueOptions = {}): QueueDefinition {
  checkName('queue', name)
  checkOptions(`queue ${name}`, options, known, { rateLimit: 'rate' })
  if (options.concurrency !== undefined) checkCount(`queue ${name}: concurrency`, options.concurrency)
  if (options.perKey !== undefined) checkCount(`queue ${name}: perKey`, options.perKey)
  if (options.rate) resolveRate(options.rate)
  return {
    kind: 'queue',
    name,
    options,
    [works](engine: Host) {
      serveQueue(engine, this)
    },
  }
}

const prefix = 'workflow-queue/'

export function queueKind(): Model {
  return helperModel('queue', prefix, queueFold as Fold<unknown>)
}

export function enterMessage(
  engine: Host,
  to: Pick<QueueDefinition, 'name'>,
  run: string,
  key: string,
  priority: number,
): OutgoingMessage {
  return engine.message(prefix + to.name, 'enter', { run, key, priority })
}

/** The mail to the queue when a run ends. */
export function leaveMessages(engine: Host, timeline: string, state: RunState): OutgoingMessage[] {
  const name = state.started?.queue?.name
  if (name === undefined) return []
  return [engine.message(prefix + name, 'leave', { run: timeline })]
}

const served = new WeakMap<Host, Set<string>>()

/** Registers this process as a worker of the queue. */
export function serveQueue(engine: Host, definition: QueueDefinition): void {
  const names = served.get(engine) ?? new Set()
  served.set(engine, names)
  if (names.has(definition.name)) return
  names.add(definition.name)
  engine.declare(queueKind())
  const closing = new AbortController()
  engine.onClose(async () => closing.abort())
  const claims = prefix + definition.name
  engine.serve(claims, (head) => lookAfter(engine, definition, head, closing.signal), { concurrency: 1 })
}

/** Creates the queue's timeline before the first run enters it. */
export async function ensureQueue(engine: Host, definition: QueueDefinition): Promise<void> {
  serveQueue(engine, definition)
  const id = timelineId(prefix + definition.name)
  await engine.create(id, queueFold, [{ type: 'opened', data: {} }], { queue: id, release: true, status: 'open' })
}

/** A queue without activity for this long is released. */
const lingerMs = 1000
/** Notifications within this time are coalesced. */
const heedMs = 10

async function lookAfter(engine: Host, definition: QueueDefinition, head: Head, closing: AbortSignal): Promise<void> {
  const { clock, store, worker } = engine.kernel
  const open = await engine.adopt(head, queueFold)
  const calls = new Calls(clock, closing)
  const unlisten = store.listen((mayBeDue = true) => mayBeDue && calls.call())
  let wakeup: number | null = null
  try {
    // The queue stays open: reading its state again for every run would cost more than the runs themselves.
    for (let until = clock.elapsed() + lingerMs; ; ) {
      const hadMail = await takeMail(engine, open)
      const turn = nextTurns(open.state, definition.options, worker.now(open.id))
      wakeup = turn.wakeup
      if (turn.runs.length > 0) await letIn(engine, open, turn.runs)
      if (hadMail || turn.runs.length > 0) until = clock.elapsed() + lingerMs
      if (hadMail || turn.runs.length === turnsAtOnce) continue
      const leftMs = until - clock.elapsed()
      const wakesInMs = wakeup === null ? Number.POSITIVE_INFINITY : wakeup - worker.now(open.id)
      if (closing.aborted || leftMs <= 0) break
      await calls.next(Math.min(leftMs, Math.max(0, wakesInMs)))
    }
  } finally {
    unlisten()
    await open.shut({ wakeup })
    if (wakeup !== null) engine.dispatcher.expect(wakeup, open.id)
    engine.dispatcher.wake()
  }
}

const mailShapes: Shapes = { enter: { run: 'text', key: 'text?', priority: 'number?' }, leave: { run: 'text' } }

async function takeMail(engine: Host, open: OpenTimeline<QueueState>): Promise<boolean> {
  const messages = await open.inbox(500)
  const entries = messages.flatMap((message) => {
    const data = readShaped(engine, message, mailShapes)
    return data === null ? [] : [{ type: message.kind === 'enter' ? 'entered' : 'left', data }]
  })
  if (messages.length === 0) return false
  // The queue stays due until every admitted run has its mail.
  const consume = messages.map((message) => message.id as MessageId)
  await open.write(entries, { consume, wakeup: engine.now(open.id) })
  return true
}

async function letIn(engine: Host, open: OpenTimeline<QueueState>, runs: readonly string[]): Promise<void> {
  const time = engine.now(open.id)
  await open.write(
    runs.map((run) => ({ type: 'granted', data: { run }, time })),
    { send: runs.map((run) => engine.message(run, 'admit', {})) },
  )
}

/** Notifications from the store, coalesced. */
class Calls {
  readonly #clock: Clock
  readonly #closing: AbortSignal
  #wasCalled = false
  #wake: (() => void) | null = null

  constructor(clock: Clock, closing: AbortSignal) {
    this.#clock = clock
    this.#closing = closing
  }

  call(): void {
    this.#wasCalled = true
    this.#wake?.()
  }

  /** Resolves at the next notification, after `ms`, or when the engine closes. */
  async next(ms: number): Promise<void> {
    await this.#within(Math.min(heedMs, ms), false)
    if (!this.#wasCalled && ms > heedMs) await this.#within(ms - heedMs, true)
    this.#wasCalled = false
  }

  async #within(ms: number, isCalled: boolean): Promise<void> {
    if (this.#closing.aborted) return
    await new Promise<void>((resolve) => {
      const done = () => {
        this.#wake = null
        cancel()
        this.#closing.removeEventListener('abort', done)
        resolve()
      }
      if (isCalled) this.#wake = done
      const cancel = this.#clock.after(ms, done)
      this.#closing.addEventListener('abort', done)
    })
  }
}
