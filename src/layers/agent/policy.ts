// Limits of calls to a model or a tool: retries, a timeout, a rate limit, and a breaker that suspends calls after too
// many failures in a row. Each has one guard, shared by all sessions of a definition in this process.

import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { CallGate, type CallPolicy } from '../../core/retry/call-policy.ts'
import { callOnce, decideRetry, type ResolvedRetry, type RetryDecision, resolveRetry } from '../../core/retry/retry.ts'
import type { Clock } from '../../core/store/ports.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { sleep } from '../../lib/waiting.ts'
import { type AnyTool, retriesInDoubt } from './tool.ts'

/** A stalled model would block its session forever. */
const modelTimeout: Duration = '5m'

export class CallGuards {
  readonly model: CallGuard
  readonly #tools = new Map<string, CallGuard>()

  /** All sessions of a definition use the same model, so the breaker is on by default. */
  constructor(modelPolicy: CallPolicy = {}) {
    const policy = { timeout: modelTimeout, breaker: true, ...modelPolicy }
    this.model = new CallGuard('the model', policy, resolveRetry(policy.retry))
  }

  /** A tool that is not repeatable is called once, unless it declares otherwise: its failure is reported to the model. */
  tool(name: string, tool: AnyTool): CallGuard {
    const known = this.#tools.get(name)
    if (known) return known
    const retry = resolveRetry(tool.retry, retriesInDoubt(tool) ? {} : callOnce)
    const guard = new CallGuard(name, tool, retry)
    this.#tools.set(name, guard)
    return guard
  }
}

export class CallGuard {
  readonly #name: string
  readonly #retry: ResolvedRetry
  readonly timeoutMs: number | null
  readonly #gate: CallGate

  constructor(name: string, policy: CallPolicy, retry: ResolvedRetry) {
    this.#name = name
    this.#retry = retry
    this.timeoutMs = policy.timeout === undefined ? null : toMs(policy.timeout, 'timeout')
    this.#gate = new CallGate(policy)
  }

  /**
   * Waits for the rate limit, and throws while the breaker is open: the turn's caller can do something else meanwhile.
   * `call` is the same object until the call has ended.
   */
  async enter(clock: Clock, call: object, signal: AbortSignal | undefined): Promise<void> {
    const openMs = this.#gate.breakerPauseMs(clock.now(), call)
    if (openMs > 0) {
      throw new RepriseError(
        'CALLS_SUSPENDED',
        `${this.#name} failed too often in a row; the next call is allowed in ${Math.ceil(openMs / 1000)} s`,
        { name: this.#name, retryAfterMs: openMs },
      )
    }
    for (let ms = this.#gate.ratePauseMs(clock.now()); ms > 0 && !signal?.aborted; ) {
      await sleep(clock, ms, { signal })
      ms = this.#gate.ratePauseMs(clock.now())
    }
  }

  succeeded(): void {
    this.#gate.succeeded()
  }

  left(call: object): void {
    this.#gate.left(call)
  }

  /** Decides whether to call again, and when. `failed` includes this failure. */
  failed(failed: number, error: unknown, call: object, { clock, random, worker }: Kernel): RetryDecision {
    this.#gate.failed(this.#retry, error, clock.now(), call)
    return decideRetry(this.#retry, failed, error, { chance: () => random.number(), now: worker.now() })
  }
}
