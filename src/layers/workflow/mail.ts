// Mail of a run: signals, updates, results of children, and what people ask of it. It becomes part of history in the same
// commit that takes it out of the inbox, so each message counts once.

import type { MessageId } from '../../core/coordinate.ts'
import type { Instance } from './instance.ts'
import { queueMessages } from './queue.ts'
import { noCommand, own } from './state.ts'

type Draft = { readonly type: string; readonly data: unknown }

// biome-ignore lint/suspicious/noExplicitAny: each kind of message has the fields that its sender gives it.
type Data = any

const atOnce = 100

/** What makes a run begin that waits for its turn. */
const begins = new Set(['admitted', 'cancel'])

/** Behind a rollback that has to wait, these wait too: they are for the run as it is after it. */
const waitsForRollback = new Set(['rollback', 'signal', 'update'])

export class Mail {
  /** When somebody last looked whether there is any; by the clock that only grows. */
  lookedAt: number
  readonly #run: Instance
  #reading: Promise<number> | null = null
  /** How many messages wait for a rollback that waits. */
  #deferred = 0

  constructor(run: Instance) {
    this.#run = run
    this.lookedAt = run.kernel.clock.elapsed()
  }

  /** How many messages were taken. */
  read(): Promise<number> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = null
    })
    return this.#reading
  }

  /** What had to wait until calls in flight came to an end. */
  readDeferred(): void {
    if (this.#deferred === 0 || !this.#mayRollBack()) return
    this.#deferred = 0
    this.#run.spawn(() => this.read())
  }

  async #read(): Promise<number> {
    const run = this.#run
    const { state } = run
    // Those that wait must not hide what comes after them: it may be what the rollback waits for.
    const limit = atOnce + this.#deferred
    const messages = await run.open.inbox(limit)
    const consume: MessageId[] = []
    const drafts: Draft[] = []
    let deferred = 0
    let isDeferring = false
    for (const message of messages) {
      const data = run.host.engine.openMessage(message) as Data
      isDeferring ||= message.kind === 'rollback' && !this.#mayRollBack()
      if (isDeferring && waitsForRollback.has(message.kind)) {
        deferred += 1
        continue
      }
      consume.push(message.id)
      drafts.push(...this.#entriesFor(message.kind, message.id, data))
      // What follows these belongs to the run as it is after them.
      if (message.kind === 'rollback' || message.kind === 'terminate') break
    }
    this.#deferred = deferred
    if (consume.length === 0) return messages.length < limit ? 0 : await this.#read()
    const end = drafts.find((draft) => draft.type === 'terminated')
    if (end) {
      const send = queueMessages(run)
      const along = { consume, release: true, wakeup: null, queue: null, status: 'terminated' }
      await run.write([end], { ...along, ...(send.length > 0 && { send }) })
      run.letGoOf()
      run.leave({ because: 'ended' })
      return consume.length
    }
    // Due from now on: if this process dies, there is no more mail to bring the run back.
    const isQueued = state.started?.queue && !state.isAdmitted && !drafts.some(({ type }) => begins.has(type))
    await run.write(drafts, { consume, status: isQueued ? 'queued' : 'running', wakeup: run.now() })
    return consume.length
  }

  #entriesFor(kind: string, id: string, data: Data): Draft[] {
    const { state, cancelled } = this.#run
    switch (kind) {
      case 'signal':
        return [{ type: 'signal', data }]
      case 'update':
        return [{ type: 'update', data: { update: id, name: data.name, args: data.args } }]
      case 'cancel':
        return cancelled ? [] : [{ type: 'cancel', data: { reason: data.reason, why: 'cancel' } }]
      case 'terminate':
        return [{ type: 'terminated', data: { reason: data.reason } }]
      case 'child': {
        const [generation, command] = splitOnce(data.command)
        const { result, error } = data
        const isOurs = Number(generation) === state.generation
        return isOurs ? [{ type: 'child', data: { id: command, ...(error ? { error } : { result }) } }] : []
      }
      case 'settle':
        return this.#settle(data)
      case 'resume':
        return [{ type: 'resumed', data: { by: data.by } }]
      case 'rollback':
        return [{ type: 'rollback', data }]
      case 'admit':
        return state.isAdmitted ? [] : [{ type: 'admitted', data: {} }]
      default:
        // From a newer version, or a guest: history must not choke on it.
        return []
    }
  }

  /** A person says what became of a held step or a stuck compensation. */
  #settle(data: Data): Draft[] {
    const { state } = this.#run
    const { id, outcome, by, result, error } = data
    if (Object.hasOwn(state.undos, id)) {
      return outcome === 'compensated' ? [{ type: 'undone', data: { id, by } }] : [{ type: 'resumed', data: { by } }]
    }
    if (!own(state.open, id, noCommand).held) return []
    if (outcome === 'retry') return [{ type: 'settled', data: { id, by } }]
    if (outcome === 'failed') return [{ type: 'failed', data: { id, error } }]
    return [{ type: 'done', data: { id, result, by } }]
  }

  /** Only when it is known what became of everything that may have to be undone. */
  #mayRollBack(): boolean {
    const { execution, attempts, state } = this.#run
    return execution && !execution.isReplaying && !execution.isUndoable && attempts.size === 0 && state.rolling === null
  }
}

function splitOnce(text: string): [string, string] {
  const at = text.indexOf(':')
  return [text.slice(0, at), text.slice(at + 1)]
}
