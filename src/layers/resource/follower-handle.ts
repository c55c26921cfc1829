// The part that handles of informers and controllers share: who does the work, the dead letters, and how to redrive them.

import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import { whileAwaited } from '../../engine/base/stay-alive.ts'
import type { Host } from '../../engine/host/host.ts'
import { sleep } from '../../lib/waiting.ts'
import type { FollowerLetter } from './follower-state.ts'
import type { ResourceHandle } from './handle.ts'
import type { Leading } from './leading.ts'
import { askFor, chosen, readLetters } from './letters.ts'

export interface SettledOptions {
  readonly signal?: AbortSignal
  /** Rejects with TIMEOUT after this time. Default: no limit. */
  readonly timeout?: Duration
}

const knownSettled = namesOf<SettledOptions>()('signal timeout')
const knownLed = namesOf<{ readonly signal?: AbortSignal }>()('signal')
const lookMs = 5

export abstract class FollowerHandle {
  readonly id: string
  readonly timeline: string
  protected readonly engine: Host
  readonly #resources: readonly ResourceHandle[]
  readonly #leading: Leading | null
  #isClosed = false

  /** @internal */
  constructor(
    id: string,
    timeline: string,
    engine: Host,
    resources: readonly ResourceHandle[],
    leading: Leading | null,
  ) {
    this.id = id
    this.timeline = timeline
    this.engine = engine
    this.#resources = resources
    this.#leading = leading
  }

  /** True while this process does the work; other processes wait until it ends. */
  get isLeading(): boolean {
    return this.#leading?.open != null
  }

  /** Resolves once this process does the work. */
  async led(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    checkOptions('led', options, knownLed)
    if (this.#leading) await whileAwaited(this.#leading.led(options.signal))
  }

  /** Resolves when this process has handled, or given up, every change made before this call. */
  settled(options: SettledOptions = {}): Promise<void> {
    checkOptions('settled', options, knownSettled)
    return whileAwaited(this.#settled(options))
  }

  /** The dead letters: objects that were given up, each with its last failure. */
  async deadLetters(): Promise<readonly FollowerLetter[]> {
    const { open } = this.#leading ?? {}
    if (open) return [...open.state.letters.values()]
    const head = await this.engine.head(this.timeline)
    return head ? await readLetters({ engine: this.engine, head }) : []
  }

  /**
   * Returns dead letters to the queue with a fresh set of attempts, and returns their number. Default for `names`: all dead
   * letters. NOT_FOUND if none of the names is a dead letter.
   */
  async redrive(names?: readonly string[]): Promise<number> {
    const { found } = chosen(await this.deadLetters(), names, this.timeline)
    if (found.length > 0) await askFor(this.engine, this.timeline, 'redrive', names ?? null)
    return found.length
  }

  /** Discards dead letters, and returns their number. Default for `names`: all dead letters. NOT_FOUND as for `redrive`. */
  async discard(names?: readonly string[]): Promise<number> {
    const { found } = chosen(await this.deadLetters(), names, this.timeline)
    if (found.length > 0) await askFor(this.engine, this.timeline, 'discard', names ?? null)
    return found.length
  }

  /** Finishes the calls in progress and releases the work, which another process continues. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#leading?.stop()
    for (const handle of this.#resources) await handle.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #settled({ signal, timeout }: SettledOptions): Promise<void> {
    const { clock } = this.engine
    const until = timeout === undefined ? Number.POSITIVE_INFINITY : clock.elapsed() + toMs(timeout, 'timeout')
    await Promise.all(this.#resources.map((handle) => handle.shared.refresh()))
    const revisions = this.#resources.map((handle) => handle.revision)
    while (this.#leading && !this.#leading.session?.hasDone(revisions)) {
      if (this.#isClosed) throw new RepriseError('CLOSED', `${this.timeline} was closed`, { timeline: this.timeline })
      if (signal?.aborted) throw new RepriseError('ABORTED', `${this.timeline}: aborted`, {}, signal.reason)
      if (clock.elapsed() >= until) {
        throw new RepriseError('TIMEOUT', `${this.timeline} did not finish in time`, { timeline: this.timeline })
      }
      await sleep(clock, lookMs)
    }
  }
}

export function letterOf(
  key: string,
  item: unknown,
  { revision, uid }: { readonly revision: number; readonly uid: string },
  attempts: number,
  error: unknown,
  at: number,
): FollowerLetter {
  const { name, message, stack } = error instanceof Error ? error : new Error(String(error))
  return { key, item, attempts, at, revision, uid, error: { name, message, ...(stack !== undefined && { stack }) } }
}
