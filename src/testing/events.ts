// Given, when, then: tests aggregates as the pure functions they are, without a store. The aggregate's own `evolve` folds the
// given events into the state and its `decide` handles the command; the resulting events, or the refusal, are compared.

import { isDeepStrictEqual } from 'node:util'
import { timelineId } from '../core/coordinate.ts'
import { isReprise, RepriseError } from '../core/errors.ts'
import type { AggregateDefinition } from '../layers/events/aggregate.ts'
import { toEntry } from '../layers/events/envelope.ts'
import { validate } from '../layers/events/schema.ts'
import type { CommandInput, EventOf, Metadata } from '../layers/events/types.ts'

export interface Given<State, Evolve, Decide> {
  /** The state after the given events. */
  readonly state: State
  and(...events: readonly EventOf<Evolve>[]): Given<State, Evolve, Decide>
  when<Name extends keyof Decide & string>(
    command: Name,
    ...args: unknown extends CommandInput<Decide, Name>
      ? [input?: undefined, options?: WhenOptions]
      : [input: CommandInput<Decide, Name>, options?: WhenOptions]
  ): When<State, Evolve>
}

export interface WhenOptions {
  /** Milliseconds since 1970. Default: 0. */
  readonly now?: number
  readonly id?: string
  readonly meta?: Metadata
}

export interface When<State, Evolve> {
  /** Exactly these events, in this order. */
  thenEvents(...events: readonly EventOf<Evolve>[]): When<State, Evolve>
  thenNothing(): When<State, Evolve>
  thenState(state: State | ((state: State) => boolean)): When<State, Evolve>
  /** The command was refused, for a reason that contains the text or matches. */
  thenRefused(reason?: string | RegExp): void
  readonly events: readonly EventOf<Evolve>[]
}

/** @example given(account, { type: 'deposited', amount: 10 }).when('withdraw', { amount: 20 }).thenRefused('insufficient') */
export function given<State, Evolve, Decide>(
  definition: AggregateDefinition<State, Evolve, Decide>,
  ...events: readonly EventOf<Evolve>[]
): Given<State, Evolve, Decide> {
  const { model } = definition
  const fold = (from: State, after: number, list: readonly unknown[]) =>
    model.evolveAll(
      from,
      list.map((event) => toEntry(model.check(event), {}, undefined)),
      timelineId(`${model.prefix}given`),
      after,
      0,
    )
  const state = fold(model.fold.initial(), 0, events)
  return {
    state,
    and: (...more) => given(definition, ...events, ...more),
    when(command, ...args) {
      const [input, options = {}] = args as [unknown, WhenOptions?]
      const { now = 0, id = 'given', meta = {} } = options
      const decide = model.decide[command]
      if (!decide) throw new RepriseError('INVALID_ARGUMENT', `${model.name} has no command ${command}`)
      let made: readonly unknown[] = []
      let error: unknown
      try {
        const checked = validate(decide, `command ${command}`, input)
        const decision = decide(state, checked as never, { id, seq: events.length, now, meta })
        made = decision === undefined ? [] : Array.isArray(decision) ? decision : [decision]
        for (const event of made) model.check(event)
      } catch (thrown) {
        error = thrown
      }
      return outcome(made as readonly EventOf<Evolve>[], error, () => fold(state, events.length, made))
    },
  }
}

function outcome<State, Evolve>(
  events: readonly EventOf<Evolve>[],
  error: unknown,
  after: () => State,
): When<State, Evolve> {
  const happened = () => {
    if (error !== undefined) throw error
  }
  const self: When<State, Evolve> = {
    events,
    thenEvents(...expected) {
      happened()
      if (!isDeepStrictEqual([...events], [...expected])) {
        throw new Error(`expected ${show(expected)}\nbut the decision was ${show(events)}`)
      }
      return self
    },
    thenNothing() {
      happened()
      if (events.length > 0) throw new Error(`expected nothing to happen, but the decision was ${show(events)}`)
      return self
    },
    thenState(expected) {
      happened()
      const state = after()
      const isAsExpected =
        typeof expected === 'function'
          ? (expected as (state: State) => boolean)(state)
          : isDeepStrictEqual(state, expected)
      if (!isAsExpected) throw new Error(`the state is ${show(state)}`)
      return self
    },
    thenRefused(reason) {
      if (error === undefined) throw new Error(`expected a refusal, but the decision was ${show(events)}`)
      if (!isReprise(error, 'REFUSED')) throw error
      const { message } = error
      const isAsExpected =
        reason === undefined || (typeof reason === 'string' ? message.includes(reason) : reason.test(message))
      if (!isAsExpected) throw new Error(`refused for another reason: ${message}`)
    },
  }
  return self
}

function show(value: unknown): string {
  return JSON.stringify(value, (_key, part) => (typeof part === 'bigint' ? `${part}n` : part), 2)
}
