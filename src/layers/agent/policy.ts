// How calls to a model or a tool are kept in bounds: tried again when they fail for a while, given up after a time,
// and not made at all for a while after too many failures in a row. One guard for each, shared by all sessions of a
// definition in this process.

import { Breaker } from '../../core/breaker.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Clock, Random } from '../../core/ports.ts'
import {
  decideRetry,
  GiveUp,
  type ResolvedRetry,
  RetryLater,
  type RetryPolicy,
  resolveRetry,
} from '../../core/retry.ts'

export interface CallPolicy {
  /** Which failures are tried again, how often, and after what pause. */
  readonly retry?: RetryPolicy
  /** Longest time without an answer; of a stream, without a further piece. */
  readonly timeout?: Duration
  /** After so many failures in a row (5) calls are refused for `pause` (30 s), then one is let through. */
  readonly breaker?: { readonly failures?: number; readonly pause?: Duration; readonly maxPause?: Duration } | false
}

/** Asked four times at most, with pauses of 1 to 30 s, if the failure looks like one that passes. */
const modelRetry: RetryPolicy = { attempts: 4, backoff: '1s', maxBackoff: '30s' }
/** A tool is called once: its failure is told to the model. */
const toolRetry: RetryPolicy = { attempts: 1, maxBackoff: '30s' }
const modelTimeout: Duration = '5m'

type Ports = { readonly clock: Clock; readonly random: Random }

export class CallGuards {
  readonly model: CallGuard
  readonly #tools = new Map<string, CallGuard>()

  constructor(modelPolicy: CallPolicy = {}) {
    const retry = { ...modelRetry, nonRetryable: (error: unknown) => !isTransient(error), ...modelPolicy.retry }
    this.model = new CallGuard('the model', { timeout: modelTimeout, ...modelPolicy, retry })
  }

  /** Tools without a policy have a guard as well, which does nothing. */
  tool(name: string, policy: CallPolicy): CallGuard {
    const known = this.#tools.get(name)
    if (known) return known
    const guard = new CallGuard(name, { breaker: false, ...policy, retry: { ...toolRetry, ...policy.retry } })
    this.#tools.set(name, guard)
    return guard
  }
}

export class CallGuard {
  readonly #name: string
  readonly #retry: ResolvedRetry
  readonly timeoutMs: number | null
  readonly #breaker: Breaker | null

  constructor(name: string, policy: CallPolicy) {
    const { retry, timeout, breaker = {} } = policy
    this.#name = name
    this.#retry = resolveRetry(retry)
    this.timeoutMs = timeout === undefined ? null : toMs(timeout, 'timeout')
    this.#breaker = breaker
      ? new Breaker({
          failures: breaker.failures ?? 5,
          pauseMs: toMs(breaker.pause ?? '30s', 'breaker.pause'),
          maxPauseMs: toMs(breaker.maxPause ?? '10m', 'breaker.maxPause'),
        })
      : null
  }

  /** Throws while the breaker is open. `call` is the same object until the call has ended. */
  checkOpen(clock: Clock, call: object): void {
    const waitMs = this.#breaker?.tryStart(clock.now(), call) ?? 0
    if (waitMs > 0) {
      throw new RepriseError(
        'CALLS_SUSPENDED',
        `${this.#name} failed too often in a row; it is asked again in ${Math.ceil(waitMs / 1000)} s`,
        { name: this.#name, retryAfterMs: waitMs },
      )
    }
  }

  succeeded(): void {
    this.#breaker?.succeeded()
  }

  /** The call has ended; if it was given up, that says nothing about the other side. */
  left(call: object): void {
    this.#breaker?.left(call)
  }

  /** How long to wait before it is called again; null: not at all. `failed` counts this failure. */
  failed(failed: number, error: unknown, call: object, { clock, random }: Ports): number | null {
    if (isReprise(error, 'CALLS_SUSPENDED') || this.#retry.isFinal(error)) return null
    // Whoever says when works: it is only busy.
    if (!(error instanceof RetryLater)) this.#breaker?.failed(clock.now(), call)
    const decision = decideRetry(this.#retry, failed, error, random.number())
    if (!decision.again) return null
    // Whoever is asked to come back in an hour does not hold the caller for that long.
    if (decision.delayMs > this.#retry.maxBackoffMs && !(error instanceof RetryLater)) return null
    return decision.delayMs
  }
}

/** Waits, unless the signal fires: then it ends at once. */
export async function pause(clock: Clock, delayMs: number, signal: AbortSignal | undefined): Promise<void> {
  if (signal?.aborted) return
  await new Promise<void>((resolve) => {
    const end = () => {
      cancel()
      signal?.removeEventListener('abort', end)
      resolve()
    }
    const cancel = clock.after(delayMs, end, true)
    signal?.addEventListener('abort', end, { once: true })
  })
}

/** A watch on one call: its signal fires when the caller gives up, and when nothing came for too long. */
export class CallWatch {
  readonly #controller = new AbortController()
  readonly #clock: Clock
  readonly #timeoutMs: number | null
  readonly #outer: AbortSignal | undefined
  readonly #onAbort: () => void
  readonly #timedOut: Promise<never>
  readonly #onAlive: () => void
  #refuse: (error: unknown) => void = () => undefined
  #cancel: () => void = () => undefined

  /** `onAlive` is told when something came. */
  constructor(
    clock: Clock,
    timeoutMs: number | null,
    outer: AbortSignal | undefined,
    onAlive: () => void = () => undefined,
  ) {
    this.#onAlive = onAlive
    this.#clock = clock
    this.#timeoutMs = timeoutMs
    this.#outer = outer
    this.#onAbort = () => this.#controller.abort(outer?.reason)
    if (outer?.aborted) this.#onAbort()
    outer?.addEventListener('abort', this.#onAbort, { once: true })
    this.#timedOut = new Promise<never>((_resolve, reject) => {
      this.#refuse = reject
    })
    this.#timedOut.catch(() => undefined)
    this.alive()
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Something came: the time starts anew. */
  alive(): void {
    this.#onAlive()
    this.#cancel()
    const { timeoutMs } = { timeoutMs: this.#timeoutMs }
    if (timeoutMs === null) return
    this.#cancel = this.#clock.after(
      timeoutMs,
      () => {
        const error = new RepriseError('TIMEOUT', `no answer within ${timeoutMs} ms`, { timeoutMs })
        this.#controller.abort(error)
        this.#refuse(error)
      },
      true,
    )
  }

  /** What the work gives, or TIMEOUT. */
  async wait<T>(work: Promise<T> | T): Promise<T> {
    return await Promise.race([work, this.#timedOut])
  }

  end(): void {
    this.#cancel()
    this.#outer?.removeEventListener('abort', this.#onAbort)
  }
}

const transientStatus = new Set([408, 409, 425, 429])
const transientCodes = new Set([
  ...['ECONNRESET', 'ECONNREFUSED', 'ETIMEDOUT', 'EPIPE', 'EAI_AGAIN', 'ENOTFOUND', 'ENETUNREACH', 'EHOSTUNREACH'],
  ...['UND_ERR_SOCKET', 'UND_ERR_CONNECT_TIMEOUT', 'UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'],
])

/** A failure that may pass: the service is busy or broken, or the network is. Everything else is told at once. */
export function isTransient(error: unknown): boolean {
  if (error instanceof RetryLater || isReprise(error, 'TIMEOUT')) return true
  if (error instanceof GiveUp || isReprise(error)) return false
  const { status, code, cause } = (error ?? {}) as { status?: unknown; code?: unknown; cause?: unknown }
  if (typeof status === 'number') return transientStatus.has(status) || status >= 500
  if (typeof code === 'string' && transientCodes.has(code)) return true
  return cause !== undefined && cause !== error && isTransient(cause)
}
