// Makes one outside call under the project's call policy: attempts and pauses, breaker, rate, time limit. The end of
// the run ends every wait and aborts the signal of the call. For models that record no attempts in a history.

import { setMaxListeners } from 'node:events'
import { toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { CallGate, type CallPolicy } from '../../core/retry/call-policy.ts'
import { decideRetry, type ResolvedRetry, type RetryPolicy, resolveRetry } from '../../core/retry/retry.ts'
import type { Clock, Random } from '../../core/store/ports.ts'
import { sleep } from '../../lib/waiting.ts'
import type { RunTrace, TraceSpan } from './tracing.ts'

export interface CallerPorts {
  readonly clock: Clock
  readonly random: Random
  /** Fires when the run ends. */
  readonly ending: AbortSignal
  /** Read before each call; its attempts become spans of this trace. Null: no tracer. */
  readonly traced?: { readonly name: string; run(): RunTrace | null }
}

export class Caller {
  readonly #ports: CallerPorts
  readonly #retry: ResolvedRetry
  readonly #timeoutMs: number | null
  readonly #gate: CallGate

  /** `usual`: the retry policy used when the call policy has none. */
  constructor(policy: CallPolicy, ports: CallerPorts, usual?: RetryPolicy) {
    this.#ports = ports
    // Each running call adds a listener; the policy's concurrency bounds their number.
    setMaxListeners(0, ports.ending)
    this.#retry = resolveRetry(policy.retry, usual)
    this.#timeoutMs = policy.timeout === undefined ? null : toMs(policy.timeout, 'timeout')
    this.#gate = new CallGate(policy)
  }

  /** Rejects when the policy runs out of attempts, or the run ends. */
  async call<R>(
    make: (attempt: number, signal: AbortSignal, traceparent: string | undefined) => Promise<R>,
    key?: string,
  ): Promise<R> {
    const { clock, random, ending } = this.#ports
    const trace = this.#ports.traced?.run() ?? null
    const gate = this.#gate
    const token = {}
    let failed = 0
    for (let attempt = 1; ; attempt++) {
      for (let ms = gate.pauseMs(clock.elapsed(), token); ms > 0; ms = gate.pauseMs(clock.elapsed(), token)) {
        await this.#pause(ms)
      }
      const span = trace && this.#begin(trace, attempt, key)
      try {
        const result = await (span
          ? this.#limited((signal) => span.within(() => make(attempt, signal, span.traceparent)))
          : this.#limited((signal) => make(attempt, signal, undefined)))
        span?.end()
        gate.succeeded()
        return result
      } catch (error) {
        span?.end({}, error ?? String(error))
        gate.failed(this.#retry, error, clock.elapsed(), token)
        ending.throwIfAborted()
        const decision = decideRetry(this.#retry, failed + 1, error, {
          chance: () => random.number(),
          now: clock.now(),
        })
        if (!decision.again) throw error
        if (decision.counts) failed += 1
        await this.#pause(decision.delayMs)
      } finally {
        gate.left(token)
      }
    }
  }

  #begin(trace: RunTrace, attempt: number, key: string | undefined): TraceSpan {
    const { name } = this.#ports.traced!
    const facts = {
      'reprise.operator': name,
      'reprise.attempt': attempt,
      ...(key !== undefined && { 'reprise.key': key }),
    }
    return trace.begin(`call ${name}`, facts, true)
  }

  async #pause(ms: number): Promise<void> {
    const { clock, ending } = this.#ports
    ending.throwIfAborted()
    await sleep(clock, ms, { signal: ending })
    ending.throwIfAborted()
  }

  async #limited<R>(make: (signal: AbortSignal) => Promise<R>): Promise<R> {
    const { clock, ending } = this.#ports
    const timeoutMs = this.#timeoutMs
    const own = new AbortController()
    const onEnding = () => own.abort(ending.reason)
    ending.addEventListener('abort', onEnding, { once: true })
    let cancel = () => {}
    try {
      const pending = make(own.signal)
      if (timeoutMs === null) return await pending
      const late = new Promise<never>((_, reject) => {
        cancel = clock.after(timeoutMs, () => {
          const error = new RepriseError('TIMEOUT', `the call took longer than ${timeoutMs} ms`, { timeoutMs })
          own.abort(error)
          reject(error)
        })
      })
      return await Promise.race([pending, late])
    } finally {
      cancel()
      ending.removeEventListener('abort', onEnding)
    }
  }
}
