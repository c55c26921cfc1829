// Housekeeping: unreferenced chunks, read mail, checkpoints that were never drilled and, if a time is configured, ended
// runs.
// Every program that opens a store offers to do it; a timeline of its own elects one process at a time, keeps the
// reports for people, and the position of the next round. A round is bounded in its work or its time, and works a
// quarter of that time.

import { fromHex, timelineId, toHex } from '../../../core/coordinate.ts'
import { type Duration, toMs } from '../../../core/duration.ts'
import { isReprise, orElse, RepriseError } from '../../../core/errors.ts'
import { isWithin } from '../../../core/history/scope.ts'
import { aSignal, checkOptions, checkValues, namesOf } from '../../../core/options.ts'
import type { Head } from '../../../core/store/ports.ts'
import { sleep } from '../../../lib/waiting.ts'
import { whileAwaited } from '../../base/stay-alive.ts'
import { recover } from '../../history/recover.ts'
import { type Host, hostOf } from '../../host/host.ts'
import type { Engine, Fold } from '../../model/definition.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { isDamageOfOne } from '../../storage/sound-page.ts'
import { drill } from '../drill/drill.ts'
import { Groups } from '../timeline-groups/groups.ts'
import { moveTiers } from './blob-tiers.ts'
import { collect } from './collect.ts'
import { deleteTimeline } from './delete.ts'
import { watchGarbage } from './sweeper.ts'

export interface HousekeepingOptions {
  /** The interval between rounds; one process does it for all. Default: 1 hour. */
  readonly every?: Duration
  /** Retention as stored with each timeline, unreferenced chunks, read mail: once a day. Default: true. */
  readonly collect?: boolean
  /** Restore a few checkpoints for practice in each round: those not drilled for this long. Default: a week. */
  readonly drill?: Duration | false
  /** Read 64 MB of the chunks in each round and repair damaged ones. Default: true. */
  readonly scrub?: boolean
  /** Delete ended work this long after it last changed. Default: never. */
  readonly expire?: {
    /**
     * Runs and jobs that completed, failed, were cancelled, terminated or finished, by the scope of their ids, which
     * must end in a slash: { 'workflow/': '30d' }. Ids are matched by whole segments; '' is everything. If several
     * scopes contain an id, the longest counts.
     */
    readonly ended?: Readonly<Record<string, Duration>>
    /** Archives of rollbacks. */
    readonly archives?: Duration
  }
}

export interface HousekeepingReport {
  readonly swept: number
  readonly drilled: number
  readonly drillsFailed: readonly string[]
  /** Damaged chunks that were repaired, in the part of the store that this round read. */
  readonly healed?: number
  /** Damaged chunks that could not be repaired: `reprise verify` lists them. */
  readonly damaged?: number
  /** The next round reads chunks after this one. Null: from the first. */
  readonly scrubAfter?: string | null
  /** At most the first 200. */
  readonly expired: readonly string[]
  readonly expiredCount?: number
  /** Due but not deleted, with the reason. */
  readonly kept: readonly string[]
  /** The time was up before everything due was deleted: the next round rests less. */
  readonly isBehind?: boolean
}

export interface HousekeepingState {
  readonly rounds: number
  readonly lastAt: number | null
  readonly sweptAt: number
  /** The next drills start after this id. */
  readonly drillAfter: string | null
  readonly last: HousekeepingReport | null
  readonly problem: string | null
  /** Bytes in use at the last sweep. */
  readonly liveBytes: number
}

export const housekeepingId = 'reprise/housekeeping'

const sweepEveryMs = 86_400_000
/** Per round. */
const drillsMax = 3
const lookedAtMax = 500
/** Expiry runs until nothing is due, for at most the time between two rounds or this, whichever is longer. */
const expiryMsMin = 60_000
/** Deleted in one transaction; named in the report. */
const togetherMax = 20
const namedMax = 200
/** How much of the chunks a round reads, to find damage before they are needed: 100 GB take two months. */
const scrubBytesMax = 64 * 1024 * 1024
/** States that take long to restore are left to `reprise drill`. */
const drillBytesMax = 64 * 1024 * 1024
/** Rest time per unit of work time; less while there is a backlog. */
const restFactor = 3
const restFactorBehind = 0.5
const roundsBehind = 10
const firstAfterMs = 60_000

const endings = ['completed', 'failed', 'cancelled', 'terminated']

const unlessDamaged = (error: unknown) => {
  if (!isDamageOfOne(error)) throw error
}

type Did = HousekeepingReport & { readonly at: number; readonly sweptAt: number; readonly drillAfter: string | null }
/** A sweep of chunks only, between two rounds, because enough garbage had accumulated. */
type Swept = { readonly at: number; readonly swept: number; readonly sweptBytes: number; readonly liveBytes: number }

export const housekeepingFold: Fold<HousekeepingState> = {
  version: 'housekeeping-2',
  initial: () => ({ rounds: 0, lastAt: null, sweptAt: 0, drillAfter: null, last: null, problem: null, liveBytes: 0 }),
  apply(state, entry) {
    if (entry.type === 'swept') return { ...state, liveBytes: (entry.data as Swept).liveBytes }
    const { at, sweptAt, drillAfter, ...last } = entry.data as Did
    if (entry.type !== 'did') return { ...state, lastAt: at, problem: (entry.data as { problem: string }).problem }
    return { ...state, rounds: state.rounds + 1, lastAt: at, sweptAt, drillAfter, last, problem: null }
  },
  checkpoint: { every: 50 },
  retain: { checkpoints: 2, history: 'needed' },
}

const known = namesOf<HousekeepingOptions>()('every collect drill scrub expire')
const knownExpire = new Set(['ended', 'archives'])

/** Throws INVALID_ARGUMENT. */
export function checkHousekeeping(options: HousekeepingOptions): void {
  checkOptions('housekeeping', options, known)
  checkOptions('housekeeping.expire', options.expire, knownExpire)
  if (options.every !== undefined) toMs(options.every, 'housekeeping.every')
  for (const [scope, age] of Object.entries(options.expire?.ended ?? {})) {
    toMs(age, 'housekeeping.expire.ended')
    if (scope !== '' && (!scope.endsWith('/') || !isIdPart(scope))) throw notWhole(scope)
  }
  if (options.expire?.archives !== undefined) toMs(options.expire.archives, 'housekeeping.expire.archives')
  if (options.drill) toMs(options.drill, 'housekeeping.drill')
}

function isIdPart(scope: string): boolean {
  try {
    return timelineId(`${scope}x`) !== null
  } catch {
    return false
  }
}

/** A scope without a slash would match nothing, and its author would wait for an expiry that never comes. */
function notWhole(scope: string): RepriseError {
  const why = 'ids are matched by whole segments, and the beginning of a name matches nothing'
  const what = `housekeeping.expire.ended must name scopes that end in a slash, as '${scope}/' (got '${scope}'): ${why}`
  return new RepriseError('INVALID_ARGUMENT', what, { scope })
}

/** Offers to do the housekeeping until the engine closes. @example keepHouse(rp, { expire: { archives: '30d' } }) */
export function keepHouse(engine: Host, options: HousekeepingOptions = {}): void {
  const { clock, random, events } = engine
  checkHousekeeping(options)
  const everyMs = toMs(options.every ?? '1h', 'housekeeping.every')
  engine.register(housekeepingId, housekeepingFold)
  if (options.collect !== false) watchGarbage(engine, (isClosing) => (isClosing ? sweep(engine) : sweepRound(engine)))
  const stop = new AbortController()
  let round: Promise<unknown> = Promise.resolve()
  let cancel: () => void = () => undefined
  // Randomised between processes, and never in the first minute: short programs do no housekeeping.
  const plan = (ms: number) => {
    cancel = clock.after(ms * (1 + random.number() / 4), () => {
      round = oneRound(engine, options, stop.signal)
        .catch((error) => events.emit('problem', { where: housekeepingId, error }))
        .finally(() => {
          if (!stop.signal.aborted) plan(everyMs)
        })
    })
  }
  plan(Math.min(firstAfterMs, everyMs))
  engine.onClose(async () => {
    stop.abort()
    cancel()
    await round
  })
}

/** Runs one round now. Null: another process runs one, or has just done so. */
export function housekeepingRound(
  rp: Engine,
  options: HousekeepingOptions = {},
  signal: AbortSignal = new AbortController().signal,
): Promise<HousekeepingReport | null> {
  const engine = hostOf(rp)
  checkHousekeeping(options)
  checkValues('housekeepingRound()', { signal }, { signal: [aSignal] })
  return whileAwaited(oneRound(engine, options, signal), engine.clock)
}

async function oneRound(
  engine: Host,
  options: HousekeepingOptions,
  signal: AbortSignal,
): Promise<HousekeepingReport | null> {
  const { kernel } = engine
  const everyMs = toMs(options.every ?? '1h', 'housekeeping.every')
  engine.register(housekeepingId, housekeepingFold)
  if ((await kernel.store.upkeep.facts()).isReadOnly) return null
  const known = await housekeepingState(engine)
  if (known?.lastAt && kernel.worker.now() - known.lastAt < everyMs * 0.9) return null
  const open = await engine
    .openTimeline(timelineId(housekeepingId), housekeepingFold)
    .catch(orElse(null, 'OWNED', 'FENCED'))
  if (!open) return null
  try {
    const { lastAt } = open.state
    if (lastAt !== null && kernel.worker.now() - lastAt < everyMs * 0.9) return null
    const did = await new Round(engine, options, open.state, signal).run()
    await open.write([{ type: 'did', data: did }])
    return did
  } catch (error) {
    const problem = (error instanceof Error ? error.message : String(error)).slice(0, 500)
    if (!open.broken) await open.write([{ type: 'failed', data: { at: kernel.worker.now(), problem } }])
    throw error
  } finally {
    await open.close()
  }
}

/** Sweeps unreferenced chunks now. Null: another process does the housekeeping. */
export async function sweepRound(engine: Host): Promise<Swept | null> {
  const open = await engine
    .openTimeline(timelineId(housekeepingId), housekeepingFold)
    .catch(orElse(null, 'OWNED', 'FENCED', 'CLOSED'))
  if (!open) return null
  try {
    const did = await sweep(engine)
    await open.write([{ type: 'swept', data: did }])
    return did
  } finally {
    await open.close()
  }
}

async function sweep({ kernel }: Host): Promise<Swept> {
  const { swept, sweptBytes, liveBytes } = (await collect(kernel, { chunksOnly: true })).chunks
  return { at: kernel.worker.now(), swept, sweptBytes, liveBytes }
}

/** The reports, for people. Null: no round was ever run. */
export async function housekeepingState(rp: Engine): Promise<HousekeepingState | null> {
  const engine = hostOf(rp)
  const head = await engine.head(housekeepingId)
  return head ? (await recover(engine.kernel, head, housekeepingFold)).state.value : null
}

class Round {
  readonly #engine: Host
  readonly #kernel: Kernel
  readonly #options: HousekeepingOptions
  readonly #before: HousekeepingState
  readonly #signal: AbortSignal
  readonly #everyMs: number

  constructor(engine: Host, options: HousekeepingOptions, before: HousekeepingState, signal: AbortSignal) {
    this.#engine = engine
    this.#kernel = engine.kernel
    this.#options = options
    this.#before = before
    this.#signal = signal
    this.#everyMs = toMs(options.every ?? '1h', 'housekeeping.every')
  }

  async run(): Promise<Did> {
    const { worker } = this.#kernel
    const expiry = await this.#expire()
    const drills = this.#options.drill === false ? noDrills(this.#before) : await this.#drill()
    const scrubbed = this.#options.scrub === false || this.#signal.aborted ? {} : await this.#scrub()
    const isSweepDue = this.#options.collect !== false && worker.now() - this.#before.sweptAt >= sweepEveryMs
    const sweeps = isSweepDue && !this.#signal.aborted
    await new Groups(this.#engine).expire()
    const collected = sweeps ? await this.#resting(() => collect(this.#kernel)) : null
    if (!this.#signal.aborted && this.#kernel.tiers.places.length > 0) await this.#moveTiers()
    const sweptAt = sweeps ? worker.now() : this.#before.sweptAt
    const swept = collected?.chunks.swept ?? 0
    const { expired = [], kept = [] } = collected?.forks ?? {}
    return {
      ...{ at: worker.now(), sweptAt, swept, ...drills, ...scrubbed },
      expired: [...expiry.expired, ...expired].slice(0, namedMax),
      expiredCount: expiry.expiredCount! + expired.length,
      ...(expiry.isBehind && { isBehind: true }),
      kept: [...expiry.kept, ...kept.map(({ timeline, because }) => `${timeline}: ${because}`)].slice(0, 20),
    }
  }

  /** An unreachable tier must not stop the rest of the round: due chunks move in another round. */
  async #moveTiers(): Promise<void> {
    const signal = this.#signal
    await this.#resting(() => moveTiers(this.#kernel, { signal })).catch((error) => {
      if (!isReprise(error)) throw error
      this.#kernel.events.emit('problem', { where: 'moving chunks to colder places', error })
    })
  }

  /** Cycles through all chunks, a part in each round. Damaged parity is rebuilt with the next sweep. */
  async #scrub(): Promise<Pick<Did, 'healed' | 'damaged' | 'scrubAfter'>> {
    const { redundancy, events } = this.#kernel
    if (!redundancy) return {}
    const after = this.#before.last?.scrubAfter ?? null
    try {
      const { next, healed, left } = await this.#resting(() =>
        redundancy.blobs.scrub(after === null ? null : fromHex(after), scrubBytesMax),
      )
      if (left > 0) {
        const what = `${left} damaged chunks cannot be repaired from here: reprise verify lists them`
        events.emit('report', { kind: 'damage', timeline: null, what, data: { left } })
      }
      return { healed, damaged: left, scrubAfter: next && toHex(next) }
    } catch (error) {
      // The chunks are in a folder that was not passed, or under a missing key: another process can read them.
      if (isReprise(error, 'CHUNKS_ELSEWHERE', 'KEY_MISSING')) return {}
      throw error
    }
  }

  async #expire(): Promise<Pick<Did, 'expired' | 'expiredCount' | 'kept' | 'isBehind'>> {
    const { ended = {}, archives } = this.#options.expire ?? {}
    const wanted = Object.entries(ended).flatMap(([scope, age]) => {
      const ageMs = toMs(age, 'housekeeping.expire.ended')
      return endings.map((status) => ({ scope, status, ageMs }))
    })
    if (archives !== undefined) {
      const ageMs = toMs(archives, 'housekeeping.expire.archives')
      wanted.push({ scope: '', status: 'archived', ageMs })
    }
    const expired: string[] = []
    const kept: string[] = []
    let expiredCount = 0
    // While there is a backlog, the other chores of a round wait.
    const roundMs = Math.max(this.#everyMs, expiryMsMin) * (this.#before.last?.isBehind ? roundsBehind : 1)
    const until = this.#kernel.clock.elapsed() + roundMs
    // A few of each in turn: work that ends often must not use up the time of other work.
    const sources = new Set(
      wanted.map(({ scope, status, ageMs }) => this.#old(scope, status, this.#kernel.worker.earliest() - ageMs)),
    )
    while (sources.size > 0) {
      for (const source of sources) {
        const { value: heads, done } = await source.next()
        if (done) {
          sources.delete(source)
          continue
        }
        const outcomes = await this.#resting(() => Promise.all(heads.map((head) => this.#expireOne(head))))
        for (const { gone, because } of outcomes) {
          expiredCount += gone.length
          if (expired.length < namedMax) expired.push(...gone)
          if (because && kept.length < 20) kept.push(because)
        }
        if (this.#signal.aborted) return { expired, expiredCount, kept }
        if (this.#kernel.clock.elapsed() > until) return { expired, expiredCount, kept, isBehind: true }
      }
    }
    return { expired, expiredCount, kept }
  }

  async #expireOne(seen: Head): Promise<{ readonly gone: readonly string[]; readonly because?: string }> {
    const { timeline } = seen
    try {
      const { timelines } = await deleteTimeline(this.#kernel, timeline, { seen })
      return { gone: timelines.map((each) => each.timeline) }
    } catch (error) {
      // It is needed, or active again: it is kept, and the report names the reason. A missing timeline was deleted with
      // another.
      if (isReprise(error, 'NOT_FOUND')) return { gone: [] }
      const isKept = isReprise(error, 'OWNED', 'PINNED', 'CONFLICT', 'FENCED') || isDamageOfOne(error)
      if (!isKept) throw error
      return { gone: [], because: `${timeline}: ${error.message}` }
    }
  }

  /** A few at a time: they are deleted together, in one transaction of the store. */
  async *#old(scope: string, status: string, before: number): AsyncGenerator<readonly Head[]> {
    const scopes = status === 'archived' ? [] : Object.keys(this.#options.expire?.ended ?? {})
    const inner = scopes.filter((each) => each !== scope && isWithin(scope, each))
    for (let after: Head | undefined; ; ) {
      const page = await this.#engine.list({
        prefix: scope,
        status,
        limit: 200,
        ...(after && { after: after.timeline }),
      })
      const old = page.filter(
        ({ timeline, updatedAt }) => updatedAt < before && !inner.some((each) => isWithin(each, timeline)),
      )
      for (let from = 0; from < old.length; from += togetherMax) yield old.slice(from, from + togetherMax)
      after = page.at(-1)
      if (page.length < 200) return
    }
  }

  /** Cycles through all timelines, a few in each round. */
  async #drill(): Promise<Pick<Did, 'drilled' | 'drillsFailed' | 'drillAfter'>> {
    const failed: string[] = []
    let drilled = 0
    let at = this.#before.drillAfter
    const query = { limit: lookedAtMax, ...(at !== null && { after: timelineId(at) }) }
    const page = await this.#engine.list(query)
    for (const head of page) {
      if (this.#signal.aborted || drilled >= drillsMax) return { drilled, drillsFailed: failed, drillAfter: at }
      at = head.timeline
      if (!(await this.#wantsDrill(head).catch(unlessDamaged))) continue
      drilled += 1
      const practice = { timelines: [head.timeline], checkpoints: 1 }
      const { results } = await this.#resting(() =>
        drill(this.#kernel, (each) => this.#engine.models.foldOf(each.timeline), practice),
      )
      failed.push(...results.filter((result) => !result.ok).map((result) => `${result.timeline}: ${result.note}`))
    }
    return { drilled, drillsFailed: failed, drillAfter: page.length < lookedAtMax ? null : at }
  }

  async #wantsDrill(head: Head): Promise<boolean> {
    if (!this.#engine.models.foldOf(head.timeline)) return false
    const newest = (await this.#kernel.store.checkpoints(head.timeline)).find((each) => each.invalid === null)
    if (!newest || newest.totalBytes > drillBytesMax) return false
    const olderThanMs = toMs(this.#options.drill || '7d', 'housekeeping.drill')
    return this.#kernel.worker.now() - (newest.drilledAt ?? newest.createdAt) > olderThanMs
  }

  /** Pauses after the work, so that other work comes first. */
  async #resting<T>(work: () => Promise<T>): Promise<T> {
    const { clock } = this.#kernel
    const started = clock.elapsed()
    const result = await work()
    const restMs = (clock.elapsed() - started) * (this.#before.last?.isBehind ? restFactorBehind : restFactor)
    await sleep(clock, restMs, { signal: this.#signal, isAwaited: false })
    return result
  }
}

function noDrills({ drillAfter }: HousekeepingState): Pick<Did, 'drilled' | 'drillsFailed' | 'drillAfter'> {
  return { drilled: 0, drillsFailed: [], drillAfter }
}
