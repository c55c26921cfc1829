// Queues: limits across all processes. A run that has a queue waits for its turn; the queue is a timeline of its own that
// counts who is in, and everything between the two goes by mail, so that a crash neither loses nor doubles a place.

import { type MessageId, timelineId } from '../../core/coordinate.ts'
import { toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { Keyed } from '../../core/keyed/keyed.ts'
import { checkOptions } from '../../core/options.ts'
import type { Head, OutgoingMessage } from '../../core/ports.ts'
import { type RatePolicy, resolveRate } from '../../core/rate.ts'
import { checkName, type Fold, type Workable, works } from '../../engine/definition.ts'
import type { Host } from '../../engine/host.ts'
import type { Model } from '../../engine/model.ts'
import type { Entry } from '../../engine/recovery/history.ts'
import { helperModel } from './helper-model.ts'
import type { RunState } from './state.ts'

export interface QueueOptions {
  /** Runs at a time, in all processes together. A run that sleeps keeps its place. */
  readonly concurrency?: number
  /** Runs at a time with the same `queueKey`. */
  readonly perKey?: number
  /** Runs that start within a span of time, in all processes together. */
  readonly rate?: RatePolicy
}

export interface QueueDefinition extends Workable {
  readonly kind: 'queue'
  readonly name: string
  readonly options: QueueOptions
}

const known = new Set(['concurrency', 'perKey', 'rate'])

/** @example const gpu = queue('gpu', { concurrency: 4, perKey: 1 }) */
export function queue(name: string, options: QueueOptions = {}): QueueDefinition {
  checkName('queue', name)
  checkOptions(`queue ${name}`, options, known, { rateLimit: 'rate' })
  for (const [what, limit] of Object.entries({
    concurrency: options.concurrency,
    perKey: options.perKey,
  })) {
    if (limit !== undefined && !(Number.isInteger(limit) && limit >= 1)) {
      throw new RepriseError('INVALID_ARGUMENT', `queue ${name}: ${what} must be a whole number of at least 1`, {
        given: String(limit),
      })
    }
  }
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

interface Waiting {
  readonly run: string
  readonly key: string
}

export interface QueueState {
  /** Runs that are in, with their key. */
  readonly active: Keyed<string>
  /** Runs that wait, in the order of their turn: by priority, then by arrival. */
  readonly waiting: Keyed<Waiting>
  /** When runs were let in, as far back as a rate limit looks. */
  grants: number[]
}

const grantsKept = 10_000

export const queueFold: Fold<QueueState> = {
  version: 'workflow-queue-1',
  initial: () => ({ active: new Keyed<string>(), waiting: new Keyed<Waiting>(), grants: [] }),
  apply(state, entry: Entry) {
    const data = entry.data as { run: string; key: string; priority: number }
    if (entry.type === 'entered') {
      const place = `${String(1e6 - Math.max(-1e6, Math.min(1e6, data.priority))).padStart(8, '0')}.${String(entry.seq).padStart(12, '0')}`
      state.waiting.set(place, { run: data.run, key: data.key })
    } else if (entry.type === 'left') {
      state.active.delete(data.run)
      for (const [place, one] of state.waiting.entries()) if (one.run === data.run) state.waiting.delete(place)
    } else if (entry.type === 'granted') {
      for (const [place, one] of state.waiting.entries()) {
        if (one.run !== data.run) continue
        state.active.set(one.run, one.key)
        state.waiting.delete(place)
        break
      }
      state.grants = [...state.grants.slice(-grantsKept), entry.time]
    }
  },
  checkpoint: { every: 2000 },
  retain: { checkpoints: 2, history: 'needed' },
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
  return engine.message(prefix + to.name, 'enter', { run, key, priority }, `enter:${run}`)
}

/** What the queue is told when a run ends. */
export function leaveMessages(engine: Host, timeline: string, state: RunState): OutgoingMessage[] {
  const name = state.started?.queue?.name
  if (name === undefined || state.generation > 0) return []
  return [engine.message(prefix + name, 'leave', { run: timeline }, `leave:${timeline}`)]
}

const served = new WeakMap<Host, Set<string>>()

/** This process takes its turn in looking after the queue. */
export function serveQueue(engine: Host, definition: QueueDefinition): void {
  const names = served.get(engine) ?? new Set()
  served.set(engine, names)
  if (names.has(definition.name)) return
  names.add(definition.name)
  engine.declare(queueKind())
  const claims = prefix + definition.name
  engine.serve(claims, (head) => lookAfter(engine, definition, head), { concurrency: 1 })
}

/** Made before the first run enters it. */
export async function ensureQueue(engine: Host, definition: QueueDefinition): Promise<void> {
  serveQueue(engine, definition)
  const id = timelineId(prefix + definition.name)
  await engine.create(id, queueFold, [{ type: 'opened', data: {} }], { queue: id, release: true, status: 'open' })
}

async function lookAfter(engine: Host, definition: QueueDefinition, head: Head): Promise<void> {
  const open = await engine.adopt(head, queueFold)
  let wakeup: number | null = null
  try {
    for (;;) {
      const messages = await open.inbox(500)
      const entries = messages.map((message) => ({
        type: message.kind === 'enter' ? 'entered' : 'left',
        data: engine.openMessage(message),
      }))
      if (entries.length > 0) {
        // Due from now on, until everybody who has a turn was told.
        const consume = messages.map((message) => message.id as MessageId)
        await open.write(entries, { consume, wakeup: engine.kernel.worker.now() })
      }
      const turn = nextTurns(open.state, definition.options, engine.kernel.worker.now())
      wakeup = turn.wakeup
      if (turn.runs.length > 0) {
        const time = engine.kernel.worker.now()
        await open.write(
          turn.runs.map((run) => ({ type: 'granted', data: { run }, time })),
          { send: turn.runs.map((run) => engine.message(run, 'admit', {}, `admit:${run}`)) },
        )
      }
      if (messages.length === 0) break
    }
  } finally {
    await open.shut({ wakeup })
    if (wakeup !== null) engine.dispatcher.expect(wakeup)
    engine.dispatcher.wake()
  }
}

/** Whose turn it is now, and when to look again if time alone stands in the way. */
export function nextTurns(
  state: QueueState,
  options: QueueOptions,
  now: number,
): { readonly runs: string[]; readonly wakeup: number | null } {
  const perMs = options.rate ? toMs(options.rate.per, 'rate.per') : 0
  const recent = state.grants.filter((at) => at > now - perMs)
  let room = (options.concurrency ?? Number.POSITIVE_INFINITY) - state.active.size
  let rate = options.rate ? options.rate.max - recent.length : Number.POSITIVE_INFINITY
  const perKey = new Map<string, number>()
  for (const [, key] of state.active.entries()) perKey.set(key, (perKey.get(key) ?? 0) + 1)
  const runs: string[] = []
  for (const [, { run, key }] of state.waiting.entries()) {
    if (room <= 0) break
    if (rate <= 0) return { runs, wakeup: recent.length > 0 ? recent[0]! + perMs : now + perMs }
    const inKey = perKey.get(key) ?? 0
    if (key !== '' && inKey >= (options.perKey ?? Number.POSITIVE_INFINITY)) continue
    perKey.set(key, inKey + 1)
    runs.push(run)
    room -= 1
    rate -= 1
  }
  return { runs, wakeup: null }
}
