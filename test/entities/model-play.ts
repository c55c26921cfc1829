// Plays steps on a subject and on a plain model of it: writes, checkpoints, restarts, crashes and takeovers with a write in
// flight, forks, and a collector. After each step, the subject equals the model. More runs: REPRISE_ENTITY_RUNS=20 npx vitest
// run test/entities/models

import fc from 'fast-check'
import { expect } from 'vitest'
import type { Store } from '../../src/core/store/ports.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import type { World } from '../support/worlds.ts'
import { mortal, noise } from './support.ts'

const more = Number(process.env.REPRISE_ENTITY_RUNS ?? 1)
export const runsOf: Record<string, number> = { memory: 20 * more, sqlite: 5 * more, postgres: 2 * more }

/** A race is a takeover with a write on its way; a crash is a death with one. */
const interruption = fc.constantFrom('crash', 'restart', 'takeover', 'race', 'checkpoint', 'reopen', 'fork', 'collect')

type Step<T> = { readonly kind: 'write'; readonly what: T } | { readonly kind: 'interrupt'; readonly how: string }

export const stepsOf = <T>(what: fc.Arbitrary<T>) =>
  fc.array(
    fc.oneof(
      { weight: 4, arbitrary: what.map((each): Step<T> => ({ kind: 'write', what: each })) },
      { weight: 2, arbitrary: interruption.map((how): Step<T> => ({ kind: 'interrupt', how })) },
    ),
    { minLength: 1, maxLength: 30 },
  )

export interface Subject<T> {
  /** Opens it in this engine, taking it over. */
  open(engine: Reprise): Promise<void>
  write(what: T): Promise<unknown>
  checkpoint(): Promise<unknown>
  close(): Promise<unknown>
  read(): unknown | Promise<unknown>
  /** A separate subject with the current content of this one; undefined for subjects without forks. */
  fork?(engine: Reprise, n: number): Promise<Subject<T>>
}

/**
 * A number with text that does not compress, long enough that a state of several needs chunks, which a collector might take.
 */
export const wide = (n: number) => `${n} ${noise(n, 700)}`

/** The number again; anything else in its text is a fault. */
export function narrow(text: string): number {
  const n = Number.parseInt(text, 10)
  return text === wide(n) ? n : Number.NaN
}

/** The expected content of a subject. */
export interface Plain<T, Model> {
  readonly initial: Model
  apply(model: Model, what: T): Model
  view(model: Model): unknown
}

/** Runs the steps; after each, the subject equals the model. A write without an answer is stored as a whole or not at all. */
export async function play<T, Model>(
  world: World,
  subject: Subject<T>,
  steps: readonly Step<T>[],
  { initial, apply, view }: Plain<T, Model>,
): Promise<void> {
  let { engine, die } = await mortal(world)
  await subject.open(engine)
  let model = initial
  /** Displaced owners continue, and may try anything. */
  const olds: Reprise[] = []
  /** Connections of dead owners stay open; a run of many deaths would use up all connections. */
  const left: Store[] = []
  const forks: { readonly subject: Subject<T>; readonly model: Model }[] = []
  let isCollected = false
  for (let i = 0; i < steps.length; i++) {
    const step = steps[i]!
    const next = steps[i + 1]
    // The write that is on its way when something happens.
    const startWrite = () => {
      if (next?.kind !== 'write') return null
      i += 1
      const isDone = subject.write(next.what).then(
        () => true,
        () => false,
      )
      return { isDone, after: apply(model, next.what) }
    }
    if (step.kind === 'write') {
      await subject.write(step.what)
      model = apply(model, step.what)
    } else if (step.how === 'checkpoint') await subject.checkpoint()
    else if (step.how === 'reopen') {
      await subject.close()
      await subject.open(engine)
    } else if (step.how === 'restart') {
      await engine.close()
      ;({ engine, die } = await mortal(world))
      await subject.open(engine)
    } else if (step.how === 'takeover') {
      olds.push(engine)
      ;({ engine, die } = await mortal(world))
      await subject.open(engine)
    } else if (step.how === 'race') {
      const write = startWrite()
      if (i % 2) await new Promise((resolve) => setImmediate(resolve))
      olds.push(engine)
      ;({ engine, die } = await mortal(world))
      await subject.open(engine)
      // The old owner lives and gets its answer: the write exists exactly if it was acknowledged.
      if (await write?.isDone) model = write!.after
    } else if (step.how === 'fork') {
      const fork = await subject.fork?.(engine, forks.length)
      if (fork) forks.push({ subject: fork, model })
    } else if (step.how === 'collect') {
      // Beside a writer, and then, without writers, without any grace: only referenced chunks stay.
      const collecting = engine.collect()
      const write = startWrite()
      await collecting
      if (await write?.isDone) model = write!.after
      await subject.checkpoint()
      await subject.close()
      for (const old of olds.splice(0)) await old.close()
      await engine.collect({ graceMs: -1000 })
      isCollected = true
      await subject.open(engine)
    } else {
      const write = startWrite()
      // At once, or after the write was passed to the store.
      if (i % 2) await new Promise((resolve) => setImmediate(resolve))
      left.push(die())
      ;({ engine, die } = await mortal(world))
      await subject.open(engine)
      // The answer was lost.
      if (write && JSON.stringify(await subject.read()) === JSON.stringify(view(write.after))) model = write.after
    }
    expect(await subject.read()).toEqual(view(model))
  }
  for (const each of [...olds, engine, ...left]) await each.close()
  if (forks.length === 0 && !isCollected) return
  const last = await mortal(world)
  for (const fork of forks) {
    await fork.subject.open(last.engine)
    expect(await fork.subject.read()).toEqual(view(fork.model))
    const write = steps.find((step) => step.kind === 'write')
    if (write) {
      await fork.subject.write(write.what)
      expect(await fork.subject.read()).toEqual(view(apply(fork.model, write.what)))
    }
    await fork.subject.close()
  }
  await subject.open(last.engine)
  expect(await subject.read()).toEqual(view(model))
  expect((await last.engine.verify()).faults).toEqual([])
  await last.engine.close()
}
