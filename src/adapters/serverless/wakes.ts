// Wake-up requests: after a commit of this process, a signed request starts the function that works, so that nothing waits for a
// scheduler. There is no outbox beside the store: the due timeline is the durable fact, and a request only speeds up its claim. A
// request is repeated until it is answered; one request covers all commits before it. A process that died before its request
// leaves due work, which the first request of the next process, or the scheduler's tick, finds.

import { RepriseError } from '../../core/errors.ts'
import { checkGivenOptions, namesOf } from '../../core/options.ts'
import { growingPause } from '../../core/retry/pause.ts'
import { hostOf } from '../../engine/host/host.ts'
import type { Engine } from '../../engine/model/definition.ts'
import { Alarm } from '../../lib/waiting.ts'
import { signatureHeader, signWake } from './signature.ts'

export interface WakeTarget {
  /** The route of the function that works. */
  readonly url: string
  /** The same as that of the route. */
  readonly secret: string
}

/** Commits within this time share one request. */
const togetherMs = 20
const firstPauseMs = 200
const longestPauseMs = 60_000
/** A route without `waitUntil` answers when its work is done. */
const answerMs = 70_000

/**
 * Sends a wake-up request now, and after the commits of this process.
 * @example const wakes = pushWakes(rp, { url: 'https://example.com/api/work', secret: process.env.CRON_SECRET })
 */
export function pushWakes(rp: Engine, target: WakeTarget): Wakes {
  return new Wakes(rp, target)
}

export class Wakes {
  readonly #engine: ReturnType<typeof hostOf>
  readonly #target: WakeTarget
  readonly #alarm: Alarm
  readonly #off: (() => void)[]
  readonly #abort = new AbortController()
  readonly #loop: Promise<void>
  /** The number of commits, the start included, and how many of them an answered request covers. */
  #wanted = 1
  #answered = 0
  #waiting: (() => void)[] = []

  constructor(rp: Engine, target: WakeTarget) {
    checkTarget('pushWakes()', target)
    this.#engine = hostOf(rp)
    this.#target = target
    this.#alarm = new Alarm(this.#engine.clock)
    this.#off = [this.#engine.events.on('committed', () => this.push()), this.#engine.onClose(() => this.close())]
    this.#loop = this.#run()
  }

  /** Sends a request for a commit of the application itself: call it after a transaction with `within`. */
  push(): void {
    this.#wanted += 1
    this.#alarm.ring()
  }

  /** Resolves when every commit until now has its answered request: for functions that end after their response. */
  async settled(): Promise<void> {
    const until = this.#wanted
    while (this.#answered < until && !this.#abort.signal.aborted) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    }
  }

  /** Sends no more requests. */
  async close(): Promise<void> {
    for (const off of this.#off.splice(0)) off()
    this.#abort.abort(new RepriseError('CLOSED', 'no more wake-up requests are sent'))
    this.#alarm.ring()
    await this.#loop
  }

  async #run(): Promise<void> {
    const { signal } = this.#abort
    for (let attempt = 0; !signal.aborted; ) {
      this.#alarm.hush()
      if (this.#answered === this.#wanted) {
        await this.#alarm.wait(longestPauseMs)
        continue
      }
      await this.#alarm.sleep(attempt === 0 ? togetherMs : growingPause(attempt, firstPauseMs, longestPauseMs))
      if (signal.aborted) break
      const wanted = this.#wanted
      const failure = await sendWake(this.#target, signal)
      if (failure === null) {
        attempt = 0
        this.#answered = wanted
        for (const resolve of this.#waiting.splice(0)) resolve()
        continue
      }
      attempt += 1
      if (!signal.aborted) this.#engine.events.emit('problem', { where: this.#target.url, error: failure })
    }
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}

/** One request. Null: it was answered with success. */
export async function sendWake(target: WakeTarget, signal: AbortSignal): Promise<RepriseError | null> {
  const body = '{}'
  try {
    const headers = { 'content-type': 'application/json', [signatureHeader]: await signWake(target.secret, body) }
    const response = await fetch(target.url, {
      method: 'POST',
      body,
      headers,
      signal: AbortSignal.any([signal, AbortSignal.timeout(answerMs)]),
    })
    await response.body?.cancel()
    if (response.ok) return null
    const what = `the wake-up request was answered with ${response.status}`
    return new RepriseError('WAKE_UNANSWERED', what, { url: target.url, status: response.status })
  } catch (error) {
    return new RepriseError('WAKE_UNANSWERED', 'the wake-up request got no answer', { url: target.url }, error)
  }
}

const known = namesOf<WakeTarget>()('url secret')

/** Throws INVALID_ARGUMENT. */
export function checkTarget(where: string, target: WakeTarget): void {
  checkGivenOptions(where, target, known)
  const { url, secret } = target
  const isUrl = URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)
  if (isUrl && typeof secret === 'string' && secret.length >= 16) return
  const what = `${where} needs the url of a route (https://…), and its secret of at least 16 characters`
  throw new RepriseError('INVALID_ARGUMENT', what, { url: String(url) })
}
