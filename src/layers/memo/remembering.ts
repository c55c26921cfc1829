// What functions and commands share: where their entries lie, which of them count, one computation at a time, notes of
// use, forgetting.

import type { TimelineId } from '../../core/coordinate.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { EngineEvents } from '../../engine/base/events.ts'
import type { Host } from '../../engine/host/host.ts'
import { LevelError } from '../../engine/tools/cache/level.ts'
import { type CacheKeep, checkKeep, forgetEntry, Pruner } from '../../engine/tools/cache/retention.ts'
import { Uses } from '../../engine/tools/cache/uses.ts'
import type { StateTimeline } from '../../engine/writing/state-timeline.ts'
import { type Envelope, entryId, mainScope, memoCache, type Remembered, readEntry } from './entry.ts'
import { type Explanation, explain, explainMissed, overWords, told } from './explain.ts'
import { Flights } from './flight.ts'
import type { Frame } from './frame.ts'
import type { Key } from './key.ts'
import { checkRemote, type FromLevel, Levels, type Remote } from './levels.ts'
import { type Computed, type Published, publishEntry } from './publish.ts'

/** What the definitions of functions and commands have in common. */
export interface Remembrance {
  /** How long a result counts; forever if left out. */
  readonly ttl?: Duration
  /** Failures are kept for so long, and given again; not at all if left out. */
  readonly errors?: Duration
  /** Entries are written to this scope, and read from it and from `main`: what a pull request computes, main never reads. */
  readonly scope?: string
  /** What is forgotten by itself: unused for so long, or beyond so many bytes. */
  readonly keep?: CacheKeep
  /** Asked when there is nothing here, and sent what is computed here: a server, or several levels in their order. */
  readonly remote?: Remote | readonly Remote[]
}

export interface Judged {
  readonly remembered: Remembered
  readonly judged: 'fresh' | 'stale'
}

type Why = (() => Promise<string>) | null

const scopeForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/
/** Clocks of two machines may differ by so much; a result from further ahead was made before the clock was set back. */
const clockSkewMs = 60_000

export function checkRemembrance(what: string, { ttl, errors, scope, keep, remote }: Remembrance): void {
  if (scope !== undefined && !scopeForm.test(scope)) {
    const why = 'scope must have 1 to 100 letters, digits, dots, dashes and underscores'
    throw new RepriseError('INVALID_ARGUMENT', `${what}: ${why}`, { scope: String(scope).slice(0, 100) })
  }
  if (ttl !== undefined) toMs(ttl, `${what}: ttl`)
  if (errors !== undefined) toMs(errors, `${what}: errors`)
  if (keep !== undefined) checkKeep(`${what}: keep`, keep)
  if (remote !== undefined) checkRemote(what, remote)
}

export class Remembering {
  readonly host: Host
  readonly #what: string
  readonly #name: string
  readonly #options: Remembrance & { readonly stale?: Duration }
  readonly #isFailure: (envelope: Envelope) => boolean
  readonly #flights: Flights<Remembered>
  readonly #uses: Uses
  readonly #pruner: Pruner
  readonly #levels: Levels
  readonly #isFit: (frame: Frame) => boolean
  readonly #leave: () => void
  /** Why what is there is no hit. */
  readonly #unfit = new WeakMap<Key, string>()
  readonly #ending = new AbortController()
  #isClosed = false

  constructor(
    host: Host,
    what: string,
    name: string,
    options: Remembrance & { readonly stale?: Duration },
    isFailure: (envelope: Envelope) => boolean,
    /** Whether what came from elsewhere can be a result of this definition. */
    isFit: (frame: Frame) => boolean = () => true,
  ) {
    this.host = host
    this.#what = what
    this.#name = name
    this.#options = options
    this.#isFailure = isFailure
    this.#flights = new Flights(host.kernel)
    this.#uses = new Uses(host)
    this.#pruner = new Pruner(host, memoCache, name, options.keep ?? {})
    this.#levels = new Levels(host, name, options.scope ?? mainScope, options.remote)
    this.#isFit = isFit
    this.#leave = host.onClose(() => this.close())
  }

  /** Fires when it is closed: pauses between attempts end then. */
  get ending(): AbortSignal {
    return this.#ending.signal
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  check(): void {
    this.host.check()
    if (this.#isClosed) throw new RepriseError('CLOSED', `${this.#what} was closed`, { name: this.#name })
  }

  /** For those who count. Whoever asks to compute it anew looks nothing up. */
  recalled(from: EngineEvents['recalled']['from'], { refresh }: { readonly refresh?: boolean }, why: Why = null): void {
    if (!refresh) this.host.kernel.events.emit('recalled', { memo: this.#name, from, ...(why && { why }) })
  }

  /** Before it is computed: why it had to be, for who asks later. Null: nobody listens. */
  whyMissed(key: Key): Why {
    const { events, clock } = this.host.kernel
    if (!events.has('recalled')) return null
    const said = this.#unfit.get(key)
    if (said !== undefined) return async () => said
    // Not the key itself: it holds the arguments.
    const [hex, args, at, parts] = [key.hex, key.args(), clock.now(), key.parts()]
    parts.catch(() => undefined)
    return async () =>
      await explainMissed(this.host, this.#name, this.#scopes, { key: hex, args, at, parts: await parts })
  }

  /** What is there for the key is no hit. */
  unfit(key: Key, why: string): void {
    this.#unfit.set(key, why)
  }

  /** In its own scope first. `unverified`: its stream is checked as it is read, by who can still go back. */
  async find(key: Key, options: { readonly unverified?: boolean } = {}): Promise<Judged | null> {
    for (const scope of this.#scopes) {
      const onDamage = () => this.unfit(key, 'what was remembered is damaged')
      const id = entryId(this.#name, scope, key.hex)
      const remembered = await readEntry(this.host.kernel, id, { ...options, onDamage })
      const judged = remembered && this.judge(remembered.envelope)
      if (judged === 'over') this.unfit(key, overWords(remembered!.envelope))
      if (remembered && (judged === 'fresh' || judged === 'stale')) return { remembered, judged }
    }
    return null
  }

  judge(envelope: Envelope): 'fresh' | 'stale' | 'over' {
    return this.judgeAge(envelope.computedAt, this.#isFailure(envelope))
  }

  judgeAge(computedAt: number, isFailure: boolean): 'fresh' | 'stale' | 'over' {
    const { ttl, stale, errors } = this.#options
    const allowed = isFailure ? (errors ?? 0) : ttl
    if (allowed === undefined) return 'fresh'
    const age = this.host.kernel.clock.now() - computedAt
    if (age < -clockSkewMs) return 'over'
    if (age < toMs(allowed)) return 'fresh'
    return !isFailure && stale !== undefined && age < toMs(allowed) + toMs(stale) ? 'stale' : 'over'
  }

  /**
   * `run` is called by one process at a time, if no further level has it. With `refresh` it is called whatever is there.
   */
  compute(
    key: Key,
    { refresh = false, signal }: { readonly refresh?: boolean; readonly signal?: AbortSignal },
    run: (id: TimelineId, taken: StateTimeline) => Promise<Remembered>,
  ): Promise<Remembered> {
    const id = this.#own(key)
    const look = async () => {
      const found = refresh ? null : await this.find(key)
      return found?.judged === 'fresh' ? found.remembered : null
    }
    const make = async (taken: StateTimeline) => {
      const filled = refresh ? null : await this.#fill(key, id, taken)
      return filled ?? (await run(id, taken))
    }
    return this.#flights.join(id, look, make, signal)
  }

  /** From the next level that has it: checked as it comes, and visible here when all of it was good. */
  async #fill(key: Key, id: TimelineId, taken: StateTimeline): Promise<Remembered | null> {
    for await (const found of this.#levels.find(key, (frame) => this.#accepts(frame))) {
      try {
        const filled = await publishEntry(
          this.host.kernel,
          taken,
          computedElsewhere(id, found, this.problem.bind(this)),
        )
        found.settle(null)
        if (filled.isStored) {
          this.#pruner.stored()
          this.#levels.send(key, id, found.origin.cache)
        }
        return filled
      } catch (error) {
        // What this store refuses says nothing about the level.
        const isItsFault = error instanceof LevelError || isReprise(error, 'MALFORMED')
        found.settle(isItsFault ? error : null)
        if (!isItsFault) this.problem(error)
      }
    }
    return null
  }

  #accepts(frame: Frame): boolean {
    const { envelope } = frame
    return !this.#isFailure(envelope) && this.judge(envelope) === 'fresh' && this.#isFit(frame)
  }

  async publish(key: Key, taken: StateTimeline, computed: Computed): Promise<Published> {
    const published = await publishEntry(this.host.kernel, taken, computed)
    if (!published.isStored) return published
    this.#pruner.stored()
    // A failure is often of the machine: it stays where it happened.
    if (!this.#isFailure(published.envelope)) this.#levels.send(key, computed.id)
    return published
  }

  async explain(key: Key): Promise<Explanation> {
    await this.#uses.flush()
    const here = await explain(this.host, this.#name, this.#scopes, key, (envelope) => this.judge(envelope))
    if (here.isHit) return here
    for await (const { envelope, origin, settle } of this.#levels.find(key, (frame) => this.#accepts(frame))) {
      settle(null)
      const comparedWith = told({ timeline: this.#own(key), envelope })
      return { isHit: true, key: key.hex, why: `not here, but in ${origin.cache}`, changes: [], comparedWith }
    }
    return here
  }

  /** True: there was one. Only its own scope is touched. */
  forget(key: Key): Promise<boolean> {
    return forgetEntry(this.host, this.#own(key))
  }

  used({ timeline }: Pick<Remembered, 'timeline'>): void {
    this.#uses.note(timeline)
  }

  problem(error: unknown): void {
    this.host.kernel.events.emit('problem', { where: this.#what, error })
  }

  /** Waits for what is being computed, and for what is on its way to other levels. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#leave()
    this.#ending.abort(new RepriseError('CLOSED', `${this.#what} was closed`, { name: this.#name }))
    await this.#flights.settled()
    await Promise.all([this.#uses.flush(), this.#pruner.settled(), this.#levels.settled()])
  }

  /** Where it is written. */
  #own(key: Key): TimelineId {
    return entryId(this.#name, this.#options.scope ?? mainScope, key.hex)
  }

  get #scopes(): readonly string[] {
    const { scope = mainScope } = this.#options
    return scope === mainScope ? [mainScope] : [scope, mainScope]
  }
}

function computedElsewhere(id: TimelineId, found: FromLevel, problem: (error: unknown) => void): Computed {
  const { stream, envelope, origin } = found
  return {
    id,
    envelope: () => ({ ...envelope, origin }),
    source: stream,
    isReadOnce: stream !== null,
    // It was computed from what the key says; what changed here since then is another key.
    isSteady: async () => true,
    problem,
  }
}
