// The drawing API of a definition: streams of records, typed from source to sink.

import { type Duration, positiveMs, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import type { PipelineKey } from '../../core/key-groups.ts'
import { checkCount, checkGivenOptions, checkOptions, checkValues, namesOf } from '../../core/options.ts'
import { type CallPolicy, checkCallPolicy } from '../../core/retry/call-policy.ts'
import { checkFunction, checkFunctions, type Synchronous, synchronous } from '../../core/synchronous.ts'
import { type Aggregation, aggregateAtOnce } from './aggregate.ts'
import { draw, type Graph, type Outlet } from './graph.ts'
import { keepsOrder, type MakeOperator } from './operator.ts'
import { broadcast } from './operators/broadcast.ts'
import { type CallContext, type CallOptions, called } from './operators/calls.ts'
import { changesJoined } from './operators/changes-join.ts'
import { counted } from './operators/count-window.ts'
import { deduped } from './operators/dedupe.ts'
import { type WindowResult, windowed } from './operators/fixed-window.ts'
import { intervalJoined } from './operators/interval-join.ts'
import type { LeftOf, Outer, RightOf } from './operators/joined.ts'
import { latestJoined } from './operators/latest-join.ts'
import {
  type ProcessBothOptions,
  type ProcessOptions,
  type ProcessParts,
  processed,
  processedBoth,
  processKind,
  type SideSpecs,
  type SideValue,
  type StateSpecs,
} from './operators/process.ts'
import { type KeyedResult, running } from './operators/running-aggregate.ts'
import { sessions } from './operators/session-window.ts'
import { FollowedTable, type JoinedTable, tableJoined } from './operators/table-join.ts'
import { type Present, skipsTombstones } from './operators/tombstones.ts'
import { filter, flatMap, keyBy, map, withoutKeys } from './operators/transform.ts'
import { union } from './operators/union.ts'
import { windowJoined } from './operators/window-join.ts'
import type { FixedWindows, TimeWindow } from './rules/windows.ts'
import type { Sink } from './sink.ts'
import { passedOver, type Source } from './source.ts'
import type { CountWindows, Windows } from './windows.ts'

export interface FromOptions<In, T> {
  /** Decodes a record of the source. Default: the record itself. */
  readonly decode?: (value: In) => Synchronous<T>
  /** The event time, in milliseconds since 1970. Windows require it. */
  readonly time?: (value: T) => number
  /** How much older than the newest record a record may be without being late. Default: 0. */
  readonly outOfOrder?: Duration
  /** A partition that is silent for this long does not hold windows back. */
  readonly idle?: Duration
  /**
   * True: all records of a key are in one partition, by the key of `keyBy`. Several processes can then share a pipeline with
   * keys, each with partitions of its own.
   */
  readonly keyed?: boolean
}

export interface WindowOptions<T> {
  /** How long after its end a window accepts late records, and emits its result again. Default: 0. */
  readonly late?: Duration
  /** Emits changed results of open windows as well, at this interval by the clock. */
  readonly early?: Duration
  /** Gets even later records as a stream of their own. Default: they are counted and dropped. */
  readonly lateTo?: (late: Stream<T>) => void
}

export interface CountWindowOptions {
  /** An incomplete window ends when its first record is this old by the clock. */
  readonly within?: Duration
}

export interface OuterOptions<O extends Outer> {
  /** 'left': records of the left side without a partner as well; 'full': those of both sides. Default: pairs only. */
  readonly outer?: O
}

export interface LatestOptions {
  /** A row is deleted when it has not been written for this long, by the clock. Default: never. */
  readonly ttl?: Duration
}

/** The function of a join, for an operator that may leave a side out. */
type PairFunction = (left: unknown, right: unknown) => unknown
type WindowPairFunction = (left: unknown, right: unknown, window: TimeWindow) => unknown

const processParts = ['emits', 'state', 'sides', 'onTimer', 'onClock']

/** The options of windows by number, or of windows by time. */
export type WindowOptionsOf<W, T> = W extends CountWindows ? CountWindowOptions : WindowOptions<T>
/** A window by number or by time before its aggregation is chosen. */
export type WindowedBy<W, T> = W extends CountWindows ? CountedStream<T> : WindowedStream<T>

/** The argument of the function that draws a pipeline. */
export class PipelineBuilder {
  readonly #graph: Graph

  /** @internal */
  constructor(graph: Graph) {
    this.#graph = graph
  }

  /** Starts a stream at a source. The source's name is the identity of its positions. */
  from<In, T = In>(name: string, source: Source<In>, options: FromOptions<In, T> = {}): Stream<T> {
    checkOptions(`source ${name}`, options, namesOf<FromOptions<never, never>>()('decode time outOfOrder idle keyed'))
    checkFunction(source?.open, `open() of the source ${name}`)
    checkFunctions(`source ${name}`, options, [], ['decode', 'time'])
    const outlet: Outlet = []
    this.#graph.sources.push({
      kind: 'source',
      name: this.#graph.name('source', name),
      source: source as Source<unknown>,
      decode: decoderOf(source.decode, options.decode as ((value: never) => unknown) | undefined, name),
      time: options.time ? (atOnce(options.time, `time of ${name}`) as (value: never) => number) : null,
      outOfOrderMs: toMs(options.outOfOrder ?? 0, 'outOfOrder'),
      idleMs: options.idle === undefined ? null : toMs(options.idle, 'idle'),
      isKeyed: options.keyed ?? false,
      outlet,
    })
    return new Stream<T>(this.#graph, outlet, options.time !== undefined)
  }
}

export class Stream<T> {
  /** @internal */
  readonly graph: Graph
  /** @internal */
  readonly outlet: Outlet
  /** @internal */
  readonly hasTime: boolean

  /** @internal */
  constructor(graph: Graph, outlet: Outlet, hasTime: boolean) {
    this.graph = graph
    this.outlet = outlet
    this.hasTime = hasTime
  }

  map<R>(change: (value: T) => Synchronous<R>): Stream<R> {
    return this.#then('map', (name) => map(atOnce(change, name)))
  }

  filter<R extends T>(isWanted: (value: T) => value is R): Stream<R>
  filter(isWanted: (value: T) => boolean): Stream<T>
  filter(isWanted: (value: T) => boolean): Stream<T> {
    return this.#then('filter', (name) => filter(atOnce(isWanted, name)))
  }

  flatMap<R>(change: (value: T) => Iterable<R>): Stream<R> {
    return this.#then('flatMap', (name) => flatMap(atOnce(change, name)))
  }

  /**
   * Records of one key are processed in order, with state of their own. `toValue` returns the value that continues under the
   * key; null deletes the key. Default: the record.
   * @example changes.keyBy((change) => change.key, (change) => change.value)
   */
  keyBy(keyOf: (value: T) => PipelineKey): KeyedStream<T>
  keyBy<V>(keyOf: (value: T) => PipelineKey, toValue: (value: T) => Synchronous<V>): KeyedStream<V>
  keyBy(keyOf: (value: T) => PipelineKey, toValue?: (value: T) => unknown): KeyedStream<unknown> {
    const name = this.graph.unnamed('keyBy')
    const make = keyBy(atOnce(keyOf, name), toValue && atOnce(toValue, name))
    return new KeyedStream(this.graph, draw(this, [], name, null, make, [], { isExchange: true }), this.hasTime)
  }

  /** The records of all streams. Its watermark is the lowest of those streams that are not idle. */
  union(...others: readonly Stream<T>[]): Stream<T> {
    const outlet = draw(this, others, this.graph.unnamed('union'), null, union(1 + others.length))
    return new Stream<T>(
      this.graph,
      outlet,
      [this, ...others].every((stream) => stream.hasTime),
    )
  }

  /**
   * Joins each record with a value folded from another stream, whatever the keys: rules, settings, rates. The aggregation folds
   * that stream; the value is undefined before its first record.
   * @example orders.broadcast('rates', rates, reduce((a, b) => ({ ...a, ...b })), (order, known) => convert(order, known))
   */
  broadcast<B, A, V, R>(
    name: string,
    other: Stream<B>,
    aggregation: Aggregation<B, A, V>,
    join: (value: T, known: V | undefined) => Synchronous<R>,
  ): Stream<R> {
    const make = broadcast(aggregateAtOnce(aggregation, name), atOnce(join, name))
    const kind = kindOf('broadcast', aggregation)
    const outlet = draw(this, [other], this.graph.name('operator', name), kind, make, [], { isSingle: true })
    return new Stream<R>(this.graph, outlet, this.hasTime)
  }

  /**
   * Joins each record with the row of a Reprise table that it names, as stored when the record is processed. After a crash, the
   * record may be joined with a later version of the row, never an earlier one.
   * @example orders.joinTable(prices, (order) => order.sku, (order, price) => ({ ...order, cents: price?.cents ?? 0 }))
   */
  joinTable<V, R>(
    table: JoinedTable<V>,
    keyOf: (value: T) => string,
    join: (value: T, row: V | undefined) => Synchronous<R>,
    options: { readonly id?: string } = {},
  ): Stream<R> {
    checkOptions('joinTable', options, namesOf<{ readonly id?: string }>()('id'))
    if (typeof table?.standby !== 'function') {
      throw new RepriseError('INVALID_ARGUMENT', 'joinTable() needs a table that can be followed, such as table(name)')
    }
    const name = this.graph.unnamed('joinTable')
    const outlet = draw(this, [], name, null, tableJoined(atOnce(keyOf, name), atOnce(join, name)), [], {
      open: (engine) => FollowedTable.open(engine, table, options.id),
    })
    return new Stream<R>(this.graph, outlet, this.hasTime)
  }

  /**
   * Calls the outside for each record, with bounded concurrency and retries. After a crash a call is repeated with the same
   * key: at least once. Without `ordered`, results are emitted as they arrive.
   */
  call<R>(name: string, call: (value: T, context: CallContext) => Promise<R>, options: CallOptions = {}): Stream<R> {
    checkOptions(`call ${name}`, options, namesOf<CallOptions>()('concurrency ordered retry timeout rate breaker'))
    const { concurrency = 16, ordered: _, ...policy } = options
    checkCallPolicy(policy as CallPolicy)
    checkCount(`call ${name}: concurrency`, concurrency)
    const outlet = draw(this, [], this.graph.name('operator', name), 'calls', called(call, options), [], {
      isSingle: true,
    })
    return new Stream<R>(this.graph, outlet, this.hasTime)
  }

  /**
   * Divides records among the instances of the operators behind it, in turns: with `threads`, work without keys uses every
   * core. Records lose their order and their keys; watermarks still follow them.
   * @example orders.rebalance().map(score).to('scored', sink)
   */
  rebalance(): Stream<T> {
    const how = { isExchange: true, isSpread: true }
    return new Stream<T>(
      this.graph,
      draw(this, [], this.graph.unnamed('rebalance'), null, withoutKeys, [], how),
      this.hasTime,
    )
  }

  to(name: string, sink: Sink<T>): void {
    checkFunction(sink?.open, `open() of the sink ${name}`)
    const node = { kind: 'sink' as const, name: this.graph.name('sink', name), sink: sink as Sink<never> }
    this.graph.sinks.push(node)
    this.outlet.push({ to: node, input: 0 })
  }

  #then<R>(what: string, make: (name: string) => MakeOperator): Stream<R> {
    const name = this.graph.unnamed(what)
    return new Stream<R>(this.graph, draw(this, [], name, null, make(name)), this.hasTime)
  }
}

export class KeyedStream<T> extends Stream<T> {
  /** Emits a result for every record: the aggregate of its key so far. Tombstones (null) are skipped, as in windows. */
  aggregate<A, R>(name: string, aggregation: Aggregation<Present<T>, A, R>): KeyedStream<KeyedResult<R>> {
    const make = skipsTombstones(running(aggregateAtOnce(aggregation, name)))
    return stateOf(this, name, kindOf('running', aggregation), make)
  }

  /** Groups records of a key by time or by number. */
  window<W extends Windows | CountWindows>(
    name: string,
    windows: W,
    options?: WindowOptionsOf<W, Present<T>>,
  ): WindowedBy<W, Present<T>>
  window(
    name: string,
    windows: Windows | CountWindows,
    given: WindowOptions<Present<T>> | CountWindowOptions = {},
  ): WindowedStream<Present<T>> | CountedStream<Present<T>> {
    checkKind(
      `window ${name}`,
      windows,
      ['fixed', 'session', 'count'],
      'tumbling(), sliding(), days(), session() or every()',
    )
    const known = windows.kind === 'count' ? ['within'] : ['late', 'early', 'lateTo']
    checkOptions(`window ${name}`, given, new Set(known))
    if (windows.kind === 'count') {
      const { within } = given as CountWindowOptions
      const withinMs = within === undefined ? null : toMs(within, 'within')
      return new CountedStream((each) => {
        const make = counted(windows.size, withinMs, aggregateAtOnce(each, name), this.hasTime)
        return stateOf(this, name, kindOf('count', each), skipsTombstones(make))
      })
    }
    needsTime(this, name)
    const options = given as WindowOptions<Present<T>>
    const lateMs = toMs(options.late ?? 0, 'late')
    const earlyMs = options.early === undefined ? null : toMs(options.early, 'early')
    return new WindowedStream((given) => {
      const late: Outlet = []
      const aggregation = aggregateAtOnce(given, name)
      const made =
        windows.kind === 'session'
          ? sessions(windows, { lateMs, earlyMs }, aggregation)
          : windowed({ windows, lateMs, earlyMs }, aggregation)
      // Without allowed lateness, results are emitted with watermarks only.
      const make = skipsTombstones(lateMs === 0 ? keepsOrder(made) : made)
      const kind = windows.kind === 'session' ? kindOf('sessions', given) : kindOf('windows', given, windows)
      const outlet = draw(this, [], this.graph.name('operator', name), kind, make, [late])
      options.lateTo?.(new Stream(this.graph, late, true))
      return new KeyedStream(this.graph, outlet, true)
    })
  }

  /** Applies a function to each record and the state of its key, with timers and side outputs. */
  process<R, S extends StateSpecs = Record<never, never>, O extends SideSpecs = Record<never, never>>(
    name: string,
    options: ProcessOptions<T, R, S, O>,
  ): ProcessedStream<R, O> {
    checkGivenOptions(`process ${name}`, options, new Set([...processParts, 'onRecord']))
    return processedOf(this, [], name, options, processed(options, this.hasTime))
  }

  /**
   * The same for two streams with the same keys, each with a function of its own: they share state and timers of a key.
   * @example orders.processBoth('paid', payments, { state, onLeft: (order, { state }) => state.open.set(order), onRight })
   */
  processBoth<B, R, S extends StateSpecs = Record<never, never>, O extends SideSpecs = Record<never, never>>(
    name: string,
    other: KeyedStream<B>,
    options: ProcessBothOptions<T, B, R, S, O>,
  ): ProcessedStream<R, O> {
    checkGivenOptions(`processBoth ${name}`, options, new Set([...processParts, 'onLeft', 'onRight']))
    const hasTimes = this.hasTime && other?.hasTime === true
    return processedOf(this, [other], name, options, processedBoth(options, hasTimes), hasTimes)
  }

  /** Passes the first record of a key, and no other within this time. */
  dedupe(name: string, options: { readonly within: Duration }): KeyedStream<T> {
    checkGivenOptions(`dedupe ${name}`, options, namesOf<{ readonly within: Duration }>()('within'))
    return stateOf(this, name, 'dedupe', deduped(toMs(options.within, 'within'), this.hasTime))
  }

  /** Joins every pair of the same key in the same window; with `outer`, also records without a partner. */
  joinWindow<B, R, O extends Outer = never>(
    name: string,
    other: KeyedStream<B>,
    windows: FixedWindows,
    join: (
      left: LeftOf<Present<T>, O>,
      right: RightOf<Present<B>, O>,
      window: { readonly start: number; readonly end: number },
    ) => Synchronous<R>,
    options: OuterOptions<O> = {},
  ): KeyedStream<R> {
    checkKind(`joinWindow ${name}`, windows, ['fixed'], 'tumbling(), sliding() or days()')
    checkOuter(`joinWindow ${name}`, options)
    needsTime(this, name, other)
    const make = skipsTombstones(windowJoined(windows, atOnce(join as WindowPairFunction, name), options.outer))
    return stateOf(this, name, kindOf('window join', null, windows), make, [other])
  }

  /**
   * Joins pairs of the same key by time: `right` is between `from` and `to` after `left` (before it, if negative). With `outer`,
   * a record without a partner is emitted when no partner can arrive any longer.
   */
  joinInterval<B, R, O extends Outer = never>(
    name: string,
    other: KeyedStream<B>,
    interval: { readonly from: number; readonly to: number },
    join: (left: LeftOf<Present<T>, O>, right: RightOf<Present<B>, O>) => Synchronous<R>,
    options: OuterOptions<O> = {},
  ): KeyedStream<R> {
    needsTime(this, name, other)
    const { from, to } = interval
    checkOptions(`joinInterval ${name}`, interval, namesOf<{ readonly from: number; readonly to: number }>()('from to'))
    checkOuter(`joinInterval ${name}`, options)
    for (const [side, ms] of Object.entries({ from, to })) {
      if (Number.isSafeInteger(ms)) continue
      const what = `joinInterval ${name}: ${side} must be a whole number of milliseconds (got ${show(ms)})`
      throw new RepriseError('INVALID_ARGUMENT', what, { from, to })
    }
    if (from > to) {
      const what = `joinInterval ${name}: from (${from}) must not be greater than to (${to})`
      throw new RepriseError('INVALID_ARGUMENT', what, { from, to })
    }
    const { outer } = options
    const make = skipsTombstones(intervalJoined({ fromMs: from, toMs: to }, atOnce(join as PairFunction, name), outer))
    // The state of an outer join also records which records have had a partner.
    return stateOf(this, name, outer ? `outer interval join(${outer})` : 'interval join', make, [other])
  }

  /**
   * Joins each record with the newest record of a stream that describes its key, as far as that stream has been read. A
   * tombstone (null) of that stream deletes the key: `right` is then undefined until the next value.
   */
  joinLatest<B, R>(
    name: string,
    other: KeyedStream<B>,
    join: (left: T, right: Present<B> | undefined) => Synchronous<R>,
    options: LatestOptions = {},
  ): KeyedStream<R> {
    checkOptions(`joinLatest ${name}`, options, namesOf<LatestOptions>()('ttl'))
    const ttlMs = options.ttl === undefined ? null : positiveMs(options.ttl, 'ttl')
    return stateOf(this, name, 'latest join', latestJoined(atOnce(join, name), ttlMs), [other])
  }

  /**
   * Joins two streams of changes, that is, two tables: a row whenever one of its sides changes, and a tombstone (null) when it
   * ends. Default: rows for which both sides exist.
   * @example prices.joinChanges('offers', stock, (price, left) => ({ ...price, left }))
   */
  joinChanges<B, R, O extends Outer = never>(
    name: string,
    other: KeyedStream<B>,
    join: (left: LeftOf<Present<T>, O>, right: RightOf<Present<B>, O>) => Synchronous<R>,
    options: OuterOptions<O> = {},
  ): KeyedStream<R | null> {
    checkOuter(`joinChanges ${name}`, options)
    const hasTimes = this.hasTime && other?.hasTime === true
    const make = changesJoined(atOnce(join as PairFunction, name), hasTimes, options.outer)
    return stateOf(this, name, `changes join(${options.outer ?? 'inner'})`, make, [other], hasTimes)
  }
}

/** A window before its aggregation is chosen. */
export class WindowedStream<T> {
  /** @internal */
  readonly make: (aggregation: Aggregation<T, unknown, unknown>) => KeyedStream<unknown>

  /** @internal */
  constructor(make: (aggregation: Aggregation<T, unknown, unknown>) => KeyedStream<unknown>) {
    this.make = make
  }

  aggregate<A, R>(aggregation: Aggregation<T, A, R>): KeyedStream<WindowResult<R>> {
    return this.make(aggregation as Aggregation<T, unknown, unknown>) as KeyedStream<WindowResult<R>>
  }
}

export class CountedStream<T> {
  /** @internal */
  readonly make: (aggregation: Aggregation<T, unknown, unknown>) => KeyedStream<unknown>

  /** @internal */
  constructor(make: (aggregation: Aggregation<T, unknown, unknown>) => KeyedStream<unknown>) {
    this.make = make
  }

  aggregate<A, R>(aggregation: Aggregation<T, A, R>): KeyedStream<KeyedResult<R>> {
    return this.make(aggregation as Aggregation<T, unknown, unknown>) as KeyedStream<KeyedResult<R>>
  }
}

export class ProcessedStream<R, O extends SideSpecs> extends KeyedStream<R> {
  readonly #sides: ReadonlyMap<string, Outlet>

  /** @internal */
  constructor(graph: Graph, outlet: Outlet, hasTime: boolean, sides: ReadonlyMap<string, Outlet>) {
    super(graph, outlet, hasTime)
    this.#sides = sides
  }

  /** The stream of a side output. */
  side<Name extends keyof O & string>(name: Name): KeyedStream<SideValue<O[Name]>> {
    const outlet = this.#sides.get(name)
    if (!outlet) throw new RepriseError('INVALID_ARGUMENT', `there is no side output ${name}: declare it in \`sides\``)
    return new KeyedStream<SideValue<O[Name]>>(this.graph, outlet, this.hasTime)
  }
}

/** Draws an operator with state by key. A function, since private members would hide the reason in errors of the compiler. */
function stateOf<R>(
  stream: Stream<unknown>,
  name: string,
  kind: string,
  make: MakeOperator,
  others: readonly Stream<unknown>[] = [],
  hasTimes = stream.hasTime,
): KeyedStream<R> {
  checkKeyed(name, others)
  const outlet = draw(stream, others, stream.graph.name('operator', name), kind, make)
  return new KeyedStream<R>(stream.graph, outlet, hasTimes)
}

/** Draws an operator of a function per record, with its side outputs. */
function processedOf<R, S extends StateSpecs, O extends SideSpecs>(
  stream: Stream<unknown>,
  others: readonly Stream<unknown>[],
  name: string,
  { sides: declared, state }: ProcessParts<R, S, O>,
  make: MakeOperator,
  hasTimes = stream.hasTime,
): ProcessedStream<R, O> {
  checkKeyed(name, others)
  const sides = Object.keys(declared ?? {}).map((side) => [side, [] as Outlet] as const)
  const outlets = sides.map(([, each]) => each)
  const outlet = draw(stream, others, stream.graph.name('operator', name), processKind(state), make, outlets)
  return new ProcessedStream<R, O>(stream.graph, outlet, hasTimes, new Map(sides))
}

function checkKeyed(name: string, others: readonly Stream<unknown>[]): void {
  if (others.every((other) => other instanceof KeyedStream)) return
  throw new RepriseError('INVALID_ARGUMENT', `${name}: the second stream has no keys: call keyBy() on it`, { name })
}

function checkOuter(where: string, options: OuterOptions<Outer>): void {
  checkOptions(where, options, namesOf<OuterOptions<Outer>>()('outer'))
  checkValues(where, options, { outer: ['left', 'full'] })
}

function needsTime({ hasTime }: Stream<unknown>, name: string, other?: Stream<unknown>): void {
  const isOther = hasTime && other?.hasTime === false
  if (hasTime && !isOther) return
  const which = other === undefined ? '' : isOther ? ' of the second stream' : ' of the first stream'
  const what = `${name} needs the time of each record${which}: set \`time\` in p.from() of every source that it reads`
  throw new RepriseError('INVALID_ARGUMENT', what, { name })
}

/** Applies the decoder of the source first, then that of the definition. */
function decoderOf(
  first: ((value: never) => unknown) | undefined,
  second: ((value: never) => unknown) | undefined,
  source: string,
): ((value: never) => unknown) | null {
  const checked = second && atOnce(second, `decode of ${source}`)
  if (!first || !checked) return first ?? checked ?? null
  return (value) => {
    const read = first(value)
    return read === passedOver ? passedOver : checked(read as never)
  }
}

/**
 * The identity of an operator's state: the operator, the windows that divide its state, and the kind of its aggregation. A
 * different identity under the same name is a different state (see run/code-changes.ts).
 */
function kindOf(what: string, aggregation: { readonly kind?: string } | null, windows?: FixedWindows): string {
  const sizes = windows && `${windows.lengthMs}/${windows.stepMs}+${windows.offsetMs}`
  const fixed = windows ? [windows.days ? `days ${windows.days.zone}` : sizes!] : []
  const kept = aggregation ? [aggregation.kind ?? 'custom'] : []
  return `${what}(${[...fixed, ...kept].join(', ')})`
}

/** A function of a stream that must not be async. */
function atOnce<F extends (a: never, b: never, c: never) => unknown>(work: F, place: string): F {
  return synchronous(work, place, 'use call() to wait for something outside')
}

function checkKind(where: string, windows: unknown, kinds: readonly string[], such: string): void {
  const kind = (windows as { readonly kind?: string } | null | undefined)?.kind
  if (kind !== undefined && kinds.includes(kind)) return
  throw new RepriseError('INVALID_ARGUMENT', `${where} needs windows such as ${such} (got ${kind ?? show(windows)})`)
}

function show(value: unknown): string {
  return typeof value === 'string' ? `'${value}'` : String(value)
}
