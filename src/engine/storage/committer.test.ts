// The group commit over a store that answers at any time, in any order.

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { pause } from '../../../test/support/fixture.ts'
import { defaultLimits } from '../../core/limits.ts'
import type { Commit, Outcome, ShardSet, Store } from '../../core/store/ports.ts'
import { asMessage, asOperation, asTimeline } from '../../testing/conformance/kit.ts'
import { Events } from '../base/events.ts'
import { systemClock, systemRandom } from '../base/platform.ts'
import type { CommitSource } from './batches.ts'
import { Committer } from './committer.ts'

function committerOver(store: Partial<Store>): Committer {
  return new Committer({
    store: store as Store,
    clock: systemClock,
    random: systemRandom,
    events: new Events(),
    limits: { ...defaultLimits, batchCommits: 120 },
    patienceMs: 1000,
  })
}

/** Each source makes commits one after another; a commit may send messages. */
const plans = fc.array(fc.array(fc.record({ sends: fc.boolean() }), { minLength: 1, maxLength: 4 }), {
  minLength: 1,
  maxLength: 120,
  size: 'max',
})

test.each([undefined, 1, 2, 3])(
  'batches at once: as many as the store has lanes (%s), each source in its order, messages in theirs',
  async (lanes) => {
    await fc.assert(
      fc.asyncProperty(plans, fc.infiniteStream(fc.nat()), async (plan, choices) => {
        const asked: { commits: readonly Commit[]; answer(outcomes: Outcome[]): void }[] = []
        const settled: string[] = []
        const sent: string[] = []
        const wrong: string[] = []
        let most = 0
        const committer = committerOver({
          ...(lanes !== undefined && { lanes }),
          commit: (commits: readonly Commit[]) =>
            new Promise<Outcome[]>((answer) => {
              asked.push({ commits, answer })
              most = Math.max(most, asked.length)
              // Not thrown here: the committer would treat it as an answer of the store.
              if (asked.filter((each) => each.commits.some(({ send }) => send)).length > 1)
                wrong.push('two send at once')
              const timelines = asked.flatMap((each) => each.commits.map(({ guard }) => guard!.timeline))
              if (new Set(timelines).size < timelines.length) wrong.push('a source has two commits under way')
              for (const { operation, send } of commits) if (send) sent.push(operation)
            }),
        })
        const sentInOrder: string[] = []
        const sources = plan.map((steps, i) => {
          let at = 0
          const source: CommitSource = {
            build() {
              const { sends } = steps[at]!
              const operation = asOperation(`${i}.${at}`)
              if (sends) sentInOrder.push(operation)
              const guard = { timeline: asTimeline(`t/${i}`), epoch: 1 }
              const send = [{ to: asTimeline('t/x'), id: operation, kind: 'k', data: new Uint8Array(0) }]
              const commit = { operation, guard, ...(sends && { send }) } as unknown as Commit
              return {
                commit,
                bytes: 64,
                settle() {
                  settled.push(operation)
                  at += 1
                  if (at < steps.length) committer.ready(source)
                },
                fail: (error) => wrong.push(String(error)),
              }
            },
          }
          return source
        })
        for (const source of sources) committer.ready(source)
        let isDrained = false
        const drained = committer.drain().then(() => {
          isDrained = true
        })
        const total = plan.reduce((sum, steps) => sum + steps.length, 0)
        for (const choice of choices) {
          if (settled.length === total) break
          expect(isDrained).toBe(false)
          if (choice % 3 === 0 || asked.length === 0) await new Promise((resolve) => setImmediate(resolve))
          if (asked.length === 0) continue
          const [next] = asked.splice(choice % asked.length, 1)
          next!.answer(next!.commits.map(() => ({ ok: true, epoch: 1, seq: 1, isDuplicate: false })))
          if (choice % 2 === 0) await Promise.resolve()
        }
        await drained
        expect(wrong).toEqual([])
        expect(asked).toEqual([])
        expect(most).toBeLessThanOrEqual(lanes ?? 1)
        expect(sent).toEqual(sentInOrder)
        for (const [i, steps] of plan.entries()) {
          const own = settled.filter((operation) => operation.startsWith(`${i}.`))
          expect(own).toEqual(steps.map((_, at) => `${i}.${at}`))
        }
      }),
      { numRuns: 60 },
    )
  },
)

test('two lanes are used: ready commits are split, and the second part is sent while the first is in flight', async () => {
  const sizes: number[] = []
  const committer = committerOver({
    lanes: 2,
    commit: (commits: readonly Commit[]) => {
      sizes.push(commits.length)
      return new Promise<Outcome[]>(() => undefined)
    },
  })
  for (let i = 0; i < 300; i++) {
    void committer.submit({ operation: asOperation(`o${i}`), guard: { timeline: asTimeline(`t/${i}`), epoch: 1 } })
  }
  await expect.poll(() => sizes).toEqual([100, 67])
})

test('the last to send, held back until the others have sent, is not forgotten', async () => {
  const sizes: number[] = []
  const committer = committerOver({
    lanes: 2,
    commit: async (commits: readonly Commit[]): Promise<Outcome[]> => {
      sizes.push(commits.length)
      await pause(5)
      return commits.map(() => ({ ok: true, epoch: 0, seq: 0, isDuplicate: false }))
    },
  })
  const sent = Array.from({ length: 65 }, (_, i) =>
    committer.submit({
      operation: asOperation(`o${i}`),
      guard: null,
      send: [{ to: asTimeline('t/x'), id: asMessage(`m${i}`), kind: 'k', data: new Uint8Array(0) }],
    }),
  )
  await Promise.all([...sent, committer.drain()])
  expect(sizes).toEqual([64, 1])
})

test('databases do not wait for each other: each has batches of its own, as many as lanes', async () => {
  const asked: number[][] = []
  const placeOf = (timeline: string) => Number(timeline.split('/')[1]) % 3
  const placesOf = (commits: readonly Commit[]) => commits.map(({ guard }) => placeOf(guard!.timeline))
  const committer = committerOver({
    shards: { placeOf } as unknown as ShardSet,
    commit: async (commits: readonly Commit[]): Promise<Outcome[]> => {
      asked.push(placesOf(commits))
      // The second never answers.
      if (placesOf(commits).includes(1)) await new Promise(() => undefined)
      return commits.map(() => ({ ok: true, epoch: 1, seq: 1, isDuplicate: false }))
    },
  })
  const submit = (i: number) =>
    committer.submit({ operation: asOperation(`o${i}`), guard: { timeline: asTimeline(`t/${i}`), epoch: 1 } })
  const numbers = Array.from({ length: 60 }, (_, i) => i)
  const elsewhere = (some: readonly number[]) =>
    Promise.all(some.map((i) => [i, submit(i)] as const).flatMap(([i, done]) => (i % 3 === 1 ? [] : [done])))
  await elsewhere(numbers)
  await elsewhere(numbers.map((i) => i + 60))
  for (const places of asked) expect(new Set(places).size).toBe(1)
  expect(asked.filter(([place]) => place === 1).map((places) => places.length)).toEqual([20])
  expect(asked.filter(([place]) => place !== 1).map((places) => places.length)).toEqual([20, 20, 20, 20])
})
