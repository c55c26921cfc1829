// Shared by memos of functions and commands: location and validity of entries, one computation at a time, usage records, and
// removal.

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
import { comparisonOf, type Explanation, explain, explainMissed, overWords } from './explain.ts'
import type { Key } from './key.ts'
import { checkRemote, type FromLevel, Levels, type RemoteLevel } from './levels.ts'
import { type Computed, type Published, publishEntry } from './publish.ts'
import { Flights } from './single-flight.ts'
import type { Frame } from './transfer-format.ts'

/** Options that the definitions of functions and commands share. */
export interface Remembrance {
  /** How long a result is valid. Default: forever. */
  readonly ttl?: Duration
  /** How long failures are stored and returned again. Default: failures are not stored. */
  readonly errors?: Duration
  /**
   * Entries are written to this scope, and read from it and from `main`: `main` never reads the results of a pull request.
   * Default: `main`.
   */
  readonly scope?: string
  /** Automatic removal: entries unused for this long, or beyond this size. */
  readonly keep?: CacheKeep
  /** Further levels of the cache, in order, such as a server: read on a miss, and sent the results computed here. */
  readonly remote?: RemoteLevel | readonly RemoteLevel[]
}

export interface Judged {
  readonly remembered: Remembered
  readonly judged: 'fresh' | 'stale'
}

type Why = (() => Promise<string>) | null

const scopeForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/
/**
 * Tolerated difference between the clocks of two machines; a result from further ahead was stored before the clock was set
 * back.
 */
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
  /** The reason why an existing entry is not a hit. */
  readonly #unfit = new WeakMap<Key, string>()
  readonly #ending = new AbortController()
  #isClosed = false

  constructor(
    host: Host,
    what: string,
    name: string,
    options: Remembrance & { readonly stale?: Duration },
    isFailure: (envelope: Envelope) => boolean,
    /** True if a frame from another level can be a result of this definition. */
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

  /** Aborted on close: pauses between attempts then end. */
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

  /** Emits an event for metrics. A call with `refresh` is not a lookup. */
  recalled(from: EngineEvents['recalled']['from'], { refresh }: { readonly refresh?: boolean }, why: Why = null): void {
    if (!refresh) this.host.events.emit('recalled', { memo: this.#name, from, ...(why && { why }) })
  }

  /** Called before the computation: returns a function that later explains the miss. Null: there is no listener. */
  whyMissed(key: Key): Why {
    const { events, clock } = this.host
    if (!events.has('recalled')) return null
    const reason = this.#unfit.get(key)
    if (reason !== undefined) return async () => reason
    // Not the key itself: it holds the arguments.
    const [hex, args, at, parts] = [key.hex, key.args(), clock.now(), key.parts()]
    parts.catch(() => undefined)
    return async () =>
      await explainMissed(this.host, this.#name, this.#scopes, { key: hex, args, at, parts: await parts })
  }

  /** Records why the entry for the key is not a hit. */
  unfit(key: Key, why: string): void {
    this.#unfit.set(key, why)
  }

  /** Reads the own scope first. `unverified`: the stream is checked as it is read, by a caller that can still recover. */
  async find(key: Key, options: { readonly unverified?: boolean } = {}): Promise<Judged | null> {
    for (const scope of this.#scopes) {
      const onDamage = () => this.unfit(key, 'the stored result is damaged')
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
    const age = this.host.clock.now() - computedAt
    if (age < -clockSkewMs) return 'over'
    if (age < toMs(allowed)) return 'fresh'
    return !isFailure && stale !== undefined && age < toMs(allowed) + toMs(stale) ? 'stale' : 'over'
  }

  /** `run` is called by one process at a time, if no further level has the entry. With `refresh` it is always called. */
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

  /** Fetches the entry from the nearest level that has it: checked as it arrives, and visible here only if it is intact. */
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
        // An error of this store is not a fault of the level.
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
    // A failure is often specific to the machine, so it is not sent to other levels.
    if (!this.#isFailure(published.envelope)) this.#levels.send(key, computed.id)
    return published
  }

  async explain(key: Key): Promise<Explanation> {
    await this.#uses.flush()
    const here = await explain(this.host, this.#name, this.#scopes, key, (envelope) => this.judge(envelope))
    if (here.isHit) return here
    for await (const { envelope, origin, settle } of this.#levels.find(key, (frame) => this.#accepts(frame))) {
      settle(null)
      const comparedWith = comparisonOf({ timeline: this.#own(key), envelope })
      return { isHit: true, key: key.hex, why: `not in this store, but in ${origin.cache}`, changes: [], comparedWith }
    }
    return here
  }

  /** Removes only the entry of its own scope. True: there was one. */
  forget(key: Key): Promise<boolean> {
    return forgetEntry(this.host, this.#own(key))
  }

  used({ timeline }: Pick<Remembered, 'timeline'>): void {
    this.#uses.note(timeline)
  }

  problem(error: unknown): void {
    this.host.events.emit('problem', { where: this.#what, error })
  }

  /** Waits for computations in progress, and for entries being sent to other levels. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#leave()
    this.#ending.abort(new RepriseError('CLOSED', `${this.#what} was closed`, { name: this.#name }))
    await this.#flights.settled()
    await Promise.all([this.#uses.flush(), this.#pruner.settled(), this.#levels.settled()])
  }

  /** The timeline that the entry is written to. */
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
    // The entry matches its key by construction; files changed here since then have another key.
    isSteady: async () => true,
    problem,
  }
}
