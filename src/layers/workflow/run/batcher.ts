// Batched durability (`durability: { window }`): outcomes are delivered at once and become durable together, at the
// latest after the window. A crash in between repeats those steps with the same keys; no other guarantee is weaker.

import type { Codec } from '../../../core/codec/codec.ts'
import { type Duration, toMs } from '../../../core/duration.ts'
import type { Clock } from '../../../core/store/ports.ts'
import type { Entry } from '../../../engine/history/history.ts'
import type { NewEntry } from '../../../engine/writing/timeline.ts'
import { itemOf } from '../history/state.ts'
import type { CommandRun } from './command-host.ts'

const batchable = new Set(['done', 'failed', 'timer', 'loop'])
const entriesMax = 1000

/** The parts of a run that batched durability uses. */
export interface BatchedRun extends Pick<CommandRun, 'code' | 'spawn'> {
  readonly definition: { readonly options: { readonly durability?: 'step' | { readonly window: Duration } } }
  readonly kernel: { readonly codec: Codec; readonly clock: Clock }
  readonly recorder: { stamp(): number; write(entries: readonly []): Promise<unknown> }
}

export function batcherOf(run: BatchedRun): Batcher | null {
  const { durability } = run.definition.options
  return typeof durability === 'object' ? new Batcher(run, toMs(durability.window, 'durability.window')) : null
}

export class Batcher {
  readonly #run: BatchedRun
  readonly #windowMs: number
  readonly #delivered = new Set<string>()
  #entries: NewEntry[] = []
  #cancel: (() => void) | null = null

  constructor(run: BatchedRun, windowMs: number) {
    this.#run = run
    this.#windowMs = windowMs
  }

  /** Takes the entry if it may be batched, and delivers it now. */
  take(type: string, data: unknown): boolean {
    if (!batchable.has(type)) return false
    const { codec } = this.#run.kernel
    const time = this.#run.recorder.stamp()
    const entry = { type, data, time }
    // Delivers a copy, as a replay would. Data that cannot be stored is refused here, before it is delivered.
    const item = itemOf({ type, data: codec.copy(data).value, time, seq: 0 })
    this.#entries.push(entry)
    this.#delivered.add(markOf(type, data))
    if (item) this.#run.code.execution.offer(item)
    if (this.#entries.length >= entriesMax) this.#run.spawn(() => this.flush())
    else this.#cancel ??= this.#run.kernel.clock.after(this.#windowMs, () => this.#run.spawn(() => this.flush()))
    return true
  }

  wasDelivered(entry: Pick<Entry, 'type' | 'data'>): boolean {
    return batchable.has(entry.type) && this.#delivered.delete(markOf(entry.type, entry.data))
  }

  /** Returns the pending entries, to be written before other entries. */
  drain(): NewEntry[] {
    this.#cancel?.()
    this.#cancel = null
    const entries = this.#entries
    this.#entries = []
    return entries
  }

  async flush(): Promise<void> {
    if (this.#entries.length > 0) await this.#run.recorder.write([])
  }
}

function markOf(type: string, data: unknown): string {
  const { id, n } = data as { id: string; n?: number }
  return type === 'loop' ? `${type} ${id} ${n}` : `${type} ${id}`
}
