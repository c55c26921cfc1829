// The general-purpose operator: a function per record, with state of the record's key, timers, and side outputs. State, timers
// and results change together when the function has returned; a record whose function throws leaves no trace.

import { assert } from '../../../core/assert.ts'
import { RepriseError } from '../../../core/errors.ts'
import type { PipelineKey } from '../../../core/key-groups.ts'
import { checkFunctions, type Nothing, refuseThenable } from '../../../core/synchronous.ts'
import { type Logged, logPlace } from '../../../engine/base/log.ts'
import type { Batch, Output } from '../batch.ts'
import { ChangedInPlace } from '../in-place-changes.ts'
import { keepsOrder, type MakeOperator, recordOf, recordPlace, tablesOf } from '../operator.ts'
import { lastWatermark } from '../rules/watermarks.ts'
import { Progress } from './fixed-window.ts'
import { StateCell, type StateSpec } from './keyed-state.ts'
import { Timers } from './timers.ts'
import { checkKey } from './transform.ts'
import { mergedInputs } from './union.ts'

export type StateSpecs = Readonly<Record<string, StateSpec<unknown>>>
export type StateHandles<S extends StateSpecs> = {
  readonly [Name in keyof S]: S[Name] extends StateSpec<infer Handle> ? Handle : never
}

/** For type inference: the type of an output's values. */
export interface Carries<T> {
  readonly carries?: T | undefined
}

/** @example process('check', { emits: carries<Total>(), sides: { large: carries<Order>() }, … }) */
export function carries<T>(): Carries<T> {
  return {}
}

export type SideSpecs = Readonly<Record<string, Carries<unknown>>>
export type SideValue<S> = S extends Carries<infer T> ? T : never

export interface ProcessContext<R, S extends StateSpecs, O extends SideSpecs> extends Logged {
  readonly pipeline: string
  /** The operator's name in the pipeline. */
  readonly operator: string
  readonly key: PipelineKey
  /** The time of the record or timer; null if the source has no times. */
  readonly time: number | null
  /** No older records are expected. Without `onTimer`, this may be the watermark at the beginning of the batch. */
  readonly watermark: number
  readonly state: StateHandles<S>
  emit(value: R): void
  side<Name extends keyof O & string>(name: Name, value: SideValue<O[Name]>): void
  /** Calls `onTimer` when event time reaches `time`. */
  setTimer(time: number): void
  deleteTimer(time: number): void
  /** Calls `onClock` when the clock reaches `time`, in milliseconds since 1970. */
  setClockTimer(time: number): void
  deleteClockTimer(time: number): void
  /** The time of the engine's clock. */
  now(): number
}

/** Options of `process`, without its functions of records. */
export interface ProcessParts<R, S extends StateSpecs, O extends SideSpecs> {
  /** The type of emitted values: `carries<Total>()`. Default: unknown. */
  readonly emits?: Carries<R>
  readonly state?: S
  readonly sides?: O
  onTimer?(time: number, context: ProcessContext<R, S, O>): Nothing
  onClock?(time: number, context: ProcessContext<R, S, O>): Nothing
}

export interface ProcessOptions<T, R, S extends StateSpecs, O extends SideSpecs> extends ProcessParts<R, S, O> {
  onRecord(value: T, context: ProcessContext<R, S, O>): Nothing
}

export interface ProcessBothOptions<A, B, R, S extends StateSpecs, O extends SideSpecs> extends ProcessParts<R, S, O> {
  /** Gets the records of the stream itself. */
  onLeft(value: A, context: ProcessContext<R, S, O>): Nothing
  /** Gets the records of the other stream. */
  onRight(value: B, context: ProcessContext<R, S, O>): Nothing
}

/** The functions of the inputs, in their order. */
type Takers = readonly (readonly [place: string, take: (value: never, context: never) => unknown])[]

const waitBefore = 'use call() before it for asynchronous work'

/** The kind of the operator's state: under the same name, a different set of states is a different state. */
export function processKind(state: StateSpecs = {}): string {
  for (const [name, spec] of Object.entries(state)) {
    if (typeof (spec as Partial<StateSpec<unknown>> | null)?.handle === 'function') continue
    const what = `process(): the state ${name} must come from valueState(), listState(), mapState() or reducingState()`
    throw new RepriseError('INVALID_ARGUMENT', what, { state: name })
  }
  const states = Object.entries(state).map(([name, { kind }]) => `${name}:${kind}`)
  return `process(${states.sort().join(',')})`
}

export function processed<T, R, S extends StateSpecs, O extends SideSpecs>(
  options: ProcessOptions<T, R, S, O>,
  hasTimes: boolean,
): MakeOperator {
  checkFunctions('process()', options, ['onRecord'], ['onTimer', 'onClock'])
  return processing(options, [['onRecord', (value, context) => options.onRecord(value, context)]], hasTimes)
}

/** Two streams of the same keys share the state of a key. Its event time is the lower of the two. */
export function processedBoth<A, B, R, S extends StateSpecs, O extends SideSpecs>(
  options: ProcessBothOptions<A, B, R, S, O>,
  hasTimes: boolean,
): MakeOperator {
  checkFunctions('processBoth()', options, ['onLeft', 'onRight'], ['onTimer', 'onClock'])
  const takers: Takers = [
    ['onLeft', (value, context) => options.onLeft(value, context)],
    ['onRight', (value, context) => options.onRight(value, context)],
  ]
  return processing(options, takers, hasTimes)
}

function processing<R, S extends StateSpecs, O extends SideSpecs>(
  options: ProcessParts<R, S, O>,
  takers: Takers,
  hasTimes: boolean,
): MakeOperator {
  return keepsOrder((outputs, context) => {
    const [next, ...sides] = outputs
    const { clock } = context
    const cells = new Map(
      Object.entries(options.state ?? {}).map(([name, { ttlMs }]) => [name, new StateCell(ttlMs, () => clock.now())]),
    )
    const handles = Object.fromEntries(
      Object.entries(options.state ?? {}).map(([name, spec]) => [name, spec.handle(cells.get(name)!)]),
    ) as StateHandles<S>
    const sideOutputs = new Map(Object.keys(options.sides ?? {}).map((name, i) => [name, sides[i]!]))
    const eventTimers = new Timers()
    const clockTimers = new Timers()
    const progress = new Progress()
    const main = new Emitter(next!)
    const emitters = new Map([...sideOutputs].map(([name, output]) => [name, new Emitter(output)]))
    const at: Place = { key: '', time: null, order: undefined }
    const given: ProcessContext<R, S, O> = {
      [logPlace]: recordPlace,
      pipeline: context.pipeline,
      operator: context.name,
      get key() {
        return at.key
      },
      get time() {
        return at.time
      },
      get watermark() {
        return progress.watermark
      },
      state: handles,
      emit: (value) => {
        refuseThenable(value, `emit of ${context.name}`, waitBefore, 'got')
        main.add(value, at)
      },
      side: (name, value) => {
        const emitter = emitters.get(name)
        assert(emitter !== undefined, 'a side output is declared in `sides`')
        refuseThenable(value, `side ${name} of ${context.name}`, waitBefore, 'got')
        emitter.add(value, at)
      },
      setTimer: (time) => eventTimers.set(at.key, checkTimer(time)),
      deleteTimer: (time) => eventTimers.delete(at.key, time),
      setClockTimer: (time) => clockTimers.set(at.key, checkTimer(time)),
      deleteClockTimer: (time) => clockTimers.delete(at.key, time),
      now: () => clock.now(),
    }
    const lookAt = (key: PipelineKey, time: number | null, order?: number) => {
      at.key = key
      at.time = time
      at.order = order
      for (const cell of cells.values()) cell.at(key)
    }
    const parts: readonly Attempted[] = [...cells.values(), eventTimers, clockTimers, main, ...emitters.values()]
    const checkReplaced = (place: string, cause?: unknown) => {
      for (const [name, cell] of cells) {
        if (!cell.isChanged()) continue
        const what = `${place} of ${context.name} changed a value of the state ${name}`
        throw new ChangedInPlace(what, 'set a new value, made from the one that get() returned', cause)
      }
    }
    /** Applies all effects of the function, or none. */
    const attempt = (place: string, work: () => unknown) => {
      try {
        refuseThenable(work(), `${place} of ${context.name}`, waitBefore)
        checkReplaced(place)
      } catch (error) {
        for (const part of parts) part.rollback()
        checkReplaced(place, error)
        throw error
      }
      for (const part of parts) part.commit()
    }
    /** Results of clock timers get the current event time. */
    const clockTime = (time: number) =>
      hasTimes ? (Number.isFinite(progress.watermark) ? progress.watermark : time) : null
    const flush = () => {
      main.flush()
      for (const emitter of emitters.values()) emitter.flush()
    }
    const fire = (timers: Timers, until: number, call: typeof options.onTimer) => {
      timers.fire(until, (key, time) => {
        lookAt(key, timers === eventTimers ? time : clockTime(time))
        try {
          attempt(timers === eventTimers ? 'onTimer' : 'onClock', () => call?.call(options, time, given))
        } catch (error) {
          // A timer has no record to set aside, so the error stops the run.
          context.fail(error)
        }
      })
      flush()
    }
    const take = (batch: Batch, inputOf: (i: number) => number) => {
      const { values, times, keys, order } = batch
      assert(keys !== null, 'process has keys')
      for (let i = 0; i < values.length; i++) {
        const input = inputOf(i)
        const [place, taker] = takers[input]!
        lookAt(keys[i]!, times && hasTimes ? times[i]! : null, order?.[i])
        try {
          attempt(place, () => taker(values[i] as never, given as never))
        } catch (error) {
          context.poison(recordOf(batch, i, input), error)
        }
      }
      flush()
    }
    const batches = takers.map((_, input) => (batch: Batch) => take(batch, () => input))
    const behind = {
      watermark(time: number) {
        if (progress.advance(time)) fire(eventTimers, time, options.onTimer)
        for (const output of outputs) output.watermark(time)
      },
      idle() {
        for (const output of outputs) output.idle()
      },
    }
    const isOne = batches.length === 1
    const states = Object.fromEntries([...cells].map(([name, { table }]) => [`state.${name}`, table]))
    return {
      tables: tablesOf({
        ...states,
        timers: eventTimers.table,
        clockTimers: clockTimers.table,
        progress: progress.table,
      }),
      inputs: isOne ? [{ batch: batches[0]!, ...behind }] : mergedInputs(batches, behind),
      ...(!isOne && { mixed: (batch: Batch, inputs: readonly number[]) => take(batch, (i) => inputs[i]!) }),
      // Any record may set a timer for any time.
      dueAbove: (watermark) => (options.onTimer ? watermark : lastWatermark),
      restored() {
        progress.restored()
        eventTimers.restored()
        clockTimers.restored()
        for (const cell of cells.values()) cell.restored()
      },
      tick(now) {
        fire(clockTimers, now, options.onClock)
        for (const cell of cells.values()) cell.expire(now)
      },
    }
  })
}

/** The record or timer of the current function call. */
interface Place {
  key: PipelineKey
  time: number | null
  order: number | undefined
}

/** Changes made by a function: kept when it returns, dropped when it throws. */
interface Attempted {
  commit(): void
  rollback(): void
}

function checkTimer(time: unknown): number {
  if (typeof time === 'number' && !Number.isNaN(time)) return time
  const what = `a timer needs a number of milliseconds (got ${String(time).slice(0, 40)})`
  throw new RepriseError('INVALID_ARGUMENT', what)
}

/** Collects the results of a batch, so that the next operator gets a batch too. */
class Emitter implements Attempted {
  readonly #output: Output
  #values: unknown[] = []
  #times: (number | null)[] = []
  #keys: PipelineKey[] = []
  /** Empty where records have no order. */
  #order: number[] = []
  /** The number of results of functions that have returned. */
  #kept = 0

  constructor(output: Output) {
    this.#output = output
  }

  add(value: unknown, { time, key, order }: Place): void {
    this.#values.push(value)
    this.#times.push(time)
    this.#keys.push(checkKey(key))
    if (order !== undefined) this.#order.push(order)
  }

  commit(): void {
    this.#kept = this.#values.length
  }

  rollback(): void {
    this.#values.length = this.#kept
    this.#times.length = this.#kept
    this.#keys.length = this.#kept
    if (this.#order.length > this.#kept) this.#order.length = this.#kept
  }

  flush(): void {
    if (this.#values.length === 0) return
    this.#kept = 0
    const [values, times, keys, order] = [this.#values, this.#times, this.#keys, this.#order]
    ;[this.#values, this.#times, this.#keys, this.#order] = [[], [], [], []]
    const given = times[0] === null ? null : (times as number[])
    this.#output.batch(order.length > 0 ? { values, times: given, keys, order } : { values, times: given, keys })
  }
}
