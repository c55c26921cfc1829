// External effects of one timeline: markers in history around every outside call. The intent is durable before the
// call, the outcome after it; the intent has the idempotency key, so every call after a crash repeats it with the same
// key, derived from the effect's id and declared input, else from the history before it (core/identity.ts). The
// declared policy resolves an effect in doubt; its outcome is never guessed.

import { isDeepStrictEqual } from 'node:util'
import { type Coordinate, type TimelineId, toHex } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import {
  compensationKey,
  type Effect,
  type EffectLedger,
  getEffect,
  type InheritedEffect,
  inDoubt,
  listEffects,
  type Reversal,
  withOwners,
} from '../../core/history/effects.ts'
import { type Inherited, ownerOf } from '../../core/history/inheritance.ts'
import { intentKey } from '../../core/identity.ts'
import { aFunction, checkOptions, checkText, checkValues, namesOf } from '../../core/options.ts'
import type { Hash } from '../../core/store/ports.ts'
import { checkFunction } from '../../core/synchronous.ts'
import type { Planted } from '../base/planted-bugs.ts'
import type { Worker } from '../base/worker.ts'
import type { NewEntry } from '../model/entry.ts'
import type { Kernel } from '../storage/kernel.ts'
import type { Origin } from '../storage/store-identity.ts'
import { conflictingDecision } from './conflicting-decision.ts'
import { entryAt } from './history.ts'
import { claimUndo } from './inherited-undo.ts'

export interface EffectCall {
  /** The same for every attempt, even after a crash or a takeover: pass it to the outside system. */
  readonly key: string
  /** 1 for the first attempt. */
  readonly attempt: number
  readonly signal: AbortSignal | undefined
}

/** The finding of a probe: it happened (with its result), or it did not. */
export type Probed<T> = { readonly happened: true; readonly result: T } | { readonly happened: false }

export interface EffectOptions<T> {
  /** Identity within the timeline. The same id is done once: later calls return the recorded result. Default: the name. */
  readonly id?: string
  /**
   * The request as a plain value. Two effects with the same id and input have the same key, even after a restore.
   * Default:
   * none, and the key is derived from the history before the effect: it changes with every entry, even for a repeated
   * effect.
   */
  readonly input?: unknown
  readonly reversal?: Reversal
  /** When a crash left the outcome unknown: call again with the same key, hold for a person, or probe the outside system. */
  readonly inDoubt?: 'retry' | 'hold' | ((key: string) => Promise<Probed<T>>)
  readonly signal?: AbortSignal
}

const knownOptions = namesOf<EffectOptions<unknown>>()('id input reversal inDoubt signal')

const values = { reversal: ['compensate', 'none', 'irreversible'], inDoubt: ['retry', 'hold', aFunction] }

export interface CompensateOptions {
  /** Also undo an effect of this fork's original. Recorded in the original's history first. */
  readonly undo?: 'inherited'
}

const compensateOptions = namesOf<CompensateOptions>()('undo')

/**
 * The layer's part in a key. `key`: the layer derives it. `intent`: the key is derived from these parts and the declared input
 * instead of the id and the history; without an input from `otherwise` too.
 */
export type KeyedBy =
  | { readonly key: string }
  | { readonly intent: readonly string[]; readonly otherwise: readonly string[] }

/** `anew`: a fork makes a call of its own. */
interface Intending {
  readonly by?: KeyedBy | undefined
  readonly anew?: true
}

/** The part of a timeline that its effects need. */
interface EffectsTimeline {
  readonly id: TimelineId
  readonly inherited: readonly Inherited[]
  readonly coordinate: Coordinate
  readonly origin: Origin
  readonly ledger: EffectLedger
  checkWritable(): void
  write(entries: readonly NewEntry[]): Promise<unknown>
}

export class Effects {
  readonly #timeline: EffectsTimeline
  readonly #kernel: Kernel
  readonly #hash: Hash
  readonly #worker: Pick<Worker, 'begin'>
  readonly #planted: Planted
  readonly #running = new Set<string>()

  /** @internal */
  constructor(timeline: EffectsTimeline, kernel: Kernel) {
    this.#timeline = timeline
    this.#kernel = kernel
    this.#planted = kernel.planted
    this.#hash = kernel.hash
    this.#worker = kernel.worker
  }

  /** Effects of the fork's original name it as `inheritedFrom`. */
  list(): readonly (Effect & { readonly inheritedFrom?: string })[] {
    return withOwners(listEffects(this.#timeline.ledger), this.#timeline.inherited)
  }

  get(id: string): Effect | undefined {
    checkText('the id of an effect', id)
    return getEffect(this.#timeline.ledger, id)
  }

  /** Intended here, with an unknown outcome, and not being called right now. */
  inDoubt(): readonly Effect[] {
    return inDoubt(this.#timeline.ledger, this.#running).filter((effect) => this.#ownerOf(effect) === null)
  }

  /** @example await c.effects.run('charge', ({ key }) => bank.charge(100, { idempotencyKey: key })) */
  async run<T>(
    name: string,
    call: (effect: EffectCall) => Promise<T> | T,
    options: EffectOptions<T> = {},
    /** @internal */
    by?: KeyedBy,
  ): Promise<T> {
    checkText('the name of an effect', name)
    checkFunction(call, `effect ${name}`)
    checkOptions('effect', options, knownOptions)
    checkValues(`effect ${name}`, options, values)
    const id = options.id ?? name
    const known = this.get(id)
    const isOpenElsewhere = known?.outcome === null && this.#ownerOf(known) !== null
    if (known && known.outcome !== 'failed' && !isOpenElsewhere && isOtherInput(known, options)) throw otherInput(known)
    if (known?.outcome === 'done') return known.result as T
    // Retrying an effect in doubt writes nothing before the call: it must not call for a handle known to have lost
    // ownership.
    this.#timeline.checkWritable()
    if (this.#running.has(id)) throw new RepriseError('CONFLICT', `effect ${id} is already being called`, { id })
    this.#running.add(id)
    try {
      const attempt = known ? await this.#resume(known, options, by) : await this.#intend(id, name, options, { by })
      return typeof attempt === 'object' ? attempt.result : await this.#call(id, call, attempt, options.signal)
    } finally {
      this.#running.delete(id)
    }
  }

  /**
   * Records the outcome of an effect in doubt, decided by a person or a program, or that a done effect was undone manually.
   * Repeating a recorded outcome is accepted; anything else is refused with CONFLICT.
   */
  async settle(id: string, outcome: 'done' | 'failed' | 'compensated', by: string, result?: unknown): Promise<void> {
    const known = this.get(id)
    if (!known) throw new RepriseError('NOT_FOUND', `there is no effect ${id}`, { id })
    const isSame = known.outcome === outcome && (result === undefined || isDeepStrictEqual(result, known.result))
    if (isSame) return
    if (known.outcome !== null && !(known.outcome === 'done' && outcome === 'compensated')) {
      const entry = await entryAt(this.#kernel, this.#timeline.id, known.changedSeq)
      const word = { outcome: known.outcome, by: known.by ?? 'its own call', at: entry?.time ?? null }
      throw conflictingDecision(this.#timeline.id, id, outcome, word)
    }
    await this.#timeline.write([{ type: '$effect.settled', data: { id, outcome, by, result } }])
  }

  /** Undoes a done effect; recorded before and after, so that a crash in between repeats it with the same key. */
  async compensate(
    id: string,
    call: (effect: Effect, key: string) => Promise<unknown> | unknown,
    options: CompensateOptions = {},
  ): Promise<void> {
    checkFunction(call, `compensate() of ${id}`)
    checkOptions('compensate', options, compensateOptions)
    checkValues('compensate', options, { undo: ['inherited'] })
    const effect = this.get(id)
    if (!effect) throw new RepriseError('NOT_FOUND', `there is no effect ${id}`, { id })
    if (effect.outcome === 'compensated') return
    const owner = this.#ownerOf(effect)
    if (owner !== null) await this.#claim({ ...effect, inheritedFrom: owner }, options)
    await this.#timeline.write([{ type: '$effect.compensating', data: { id } }])
    try {
      const key = compensationKey(effect.key, this.#hash)
      await this.#withTrace(`undoing ${effect.name}`, () => call(effect, key))
    } catch (error) {
      await this.#timeline.write([{ type: '$effect.compensation-failed', data: { id, error: messageOf(error) } }])
      throw error
    }
    if (this.#planted.has('compensation-unrecorded')) return
    await this.#timeline.write([{ type: '$effect.compensated', data: { id } }])
  }

  /** The timeline that did it, if that is the original of this fork. */
  #ownerOf(effect: Effect): string | null {
    return ownerOf(this.#timeline.inherited, effect.intendedSeq)
  }

  /** The original's history must contain the undo before the fork calls it: then no other timeline undoes it. */
  async #claim(effect: InheritedEffect, { undo }: CompensateOptions): Promise<void> {
    const { id, inheritedFrom } = effect
    if (undo !== 'inherited') {
      const what = `${inheritedFrom} did ${id}, not its fork ${this.#timeline.id}`
      throw new RepriseError('INHERITED', what, { id, inheritedFrom })
    }
    await claimUndo(this.#kernel, effect, this.#timeline.id)
  }

  async #intend<T>(id: string, name: string, options: EffectOptions<T>, how: Intending): Promise<number> {
    const { input, reversal = 'none' } = options
    const { by, anew } = how
    const key = by && 'key' in by ? by.key : await this.#keyOf(id, name, input, by)
    const data = { id, name, key, reversal, ...(input !== undefined && { input }), ...(anew && { anew }) }
    await this.#timeline.write([{ type: '$effect.intended', data }])
    return 1
  }

  async #keyOf(
    id: string,
    name: string,
    input: unknown,
    by: Exclude<KeyedBy, { key: string }> | undefined,
  ): Promise<string> {
    const { identity, codec } = this.#kernel
    await identity.load()
    const { origin, coordinate } = this.#timeline
    const { intent, otherwise } = by ?? { intent: [id], otherwise: ['history', coordinate.digest] }
    const what = input === undefined ? otherwise : ['input', toHex(this.#hash(codec.encode(input)))]
    return intentKey(this.#hash, { ...origin, model: 'effect', name, parts: [...intent, ...what] })
  }

  /** The number of the next attempt, or the result that a probe found. */
  async #resume<T>(known: Effect, options: EffectOptions<T>, by?: KeyedBy): Promise<number | { readonly result: T }> {
    const { id, name, key, reversal, input } = known
    // In doubt, or failed, in the original: the fork knows nothing about that call, and makes its own.
    const isOpen = known.outcome === null || known.outcome === 'failed'
    const isAnew = this.#ownerOf(known) !== null || isOtherInput(known, options)
    if (isOpen && isAnew) return await this.#intend(id, name, options, { by, anew: true })
    if (known.outcome === 'failed') {
      await this.#timeline.write([
        { type: '$effect.intended', data: { id, name, key, reversal, ...(input !== undefined && { input }) } },
      ])
      return known.attempts + 1
    }
    if (known.state !== 'intended') {
      throw new RepriseError('CONFLICT', `effect ${id} was ${known.state} and is not repeated`, {
        id,
        state: known.state,
      })
    }
    const policy = options.inDoubt ?? 'retry'
    if (policy === 'retry') return known.attempts + 1
    if (policy === 'hold') {
      throw new RepriseError('EFFECT_IN_DOUBT', `effect ${id} was intended and its outcome is unknown`, { id, key })
    }
    const probed = await policy(key)
    if (!probed.happened) return known.attempts + 1
    await this.settle(id, 'done', 'probe', probed.result)
    return { result: probed.result }
  }

  async #call<T>(
    id: string,
    call: (effect: EffectCall) => Promise<T> | T,
    attempt: number,
    signal: AbortSignal | undefined,
  ): Promise<T> {
    const { key, name } = this.get(id)!
    let result: T
    try {
      result = await this.#withTrace(`effect ${name}`, () => call({ key, attempt, signal }))
    } catch (error) {
      await this.#timeline.write([{ type: '$effect.failed', data: { id, error: messageOf(error) } }])
      throw error
    }
    await this.#timeline.write([{ type: '$effect.done', data: { id, ...(result !== undefined && { result }) } }])
    return result
  }

  /** Reported to other processes while it runs. */
  async #withTrace<T>(what: string, work: () => Promise<T> | T): Promise<T> {
    const trace = this.#worker.begin({ timeline: this.#timeline.id, what })
    try {
      return await work()
    } finally {
      trace.end()
    }
  }
}

/** A different declared input is a different intent: the recorded outcome and key do not apply to it. */
function isOtherInput({ input }: Effect, options: EffectOptions<unknown>): boolean {
  return input !== undefined && options.input !== undefined && !isDeepStrictEqual(input, options.input)
}

function otherInput({ id, outcome }: Effect): RepriseError {
  const what = `effect ${id} was ${outcome ?? 'intended'} with another input: use separate ids`
  return new RepriseError('CONFLICT', what, { id, outcome })
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
