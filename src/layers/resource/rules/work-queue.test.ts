import fc from 'fast-check'
import { expect, it } from 'vitest'
import { type PlantedQueueBug, WorkQueue } from './work-queue.ts'

type Step =
  | { readonly do: 'add'; readonly key: string; readonly isUrgent: boolean }
  | { readonly do: 'later'; readonly key: string; readonly ms: number }
  | { readonly do: 'start' }
  | { readonly do: 'done'; readonly pick: number; readonly fails: boolean; readonly ms: number | null }
  | { readonly do: 'wait'; readonly ms: number }

const keys = fc.constantFrom('a', 'b', 'c')
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant('add' as const), key: keys, isUrgent: fc.boolean() }),
  fc.record({ do: fc.constant('later' as const), key: keys, ms: fc.integer({ min: 0, max: 20 }) }),
  fc.record({ do: fc.constant('start' as const) }),
  fc.record({
    do: fc.constant('done' as const),
    pick: fc.nat(5),
    fails: fc.boolean(),
    ms: fc.option(fc.integer({ min: 1, max: 20 })),
  }),
  fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 15 }) }),
)

/** Runs a sequence of steps and returns the first violation; null: none. */
function play(steps: readonly Step[], concurrency: number, bug?: PlantedQueueBug): string | null {
  const queue = new WorkQueue(concurrency, new Set(bug ? [bug] : []))
  const running: string[] = []
  /** The keys that must still be worked on, and the time by which they are due. */
  const owed = new Map<string, { readonly dueAt: number }>()
  const restsUntil = new Map<string, number>()
  let now = 0
  const owe = (key: string, dueAt: number) => {
    owed.set(key, { dueAt: Math.min(dueAt, owed.get(key)?.dueAt ?? Number.POSITIVE_INFINITY) })
  }
  const start = (): string | null | undefined => {
    const key = queue.next(now)
    if (key === null) return undefined
    if (running.includes(key)) return `${key} is worked on twice at once`
    if (running.length >= concurrency) return 'too many at once'
    if ((restsUntil.get(key) ?? 0) > now) return `${key} was to rest until ${restsUntil.get(key)}, and it is ${now}`
    running.push(key)
    owed.delete(key)
    restsUntil.delete(key)
    return null
  }
  const finish = (key: string, fails: boolean, ms: number | null) => {
    running.splice(running.indexOf(key), 1)
    const pauses = fails && ms !== null
    queue.done(key, ms === null ? null : now + ms, pauses)
    if (pauses && !owed.has(`!${key}`)) restsUntil.set(key, now + ms)
    if (ms !== null) owe(key, now + ms)
    owed.delete(`!${key}`)
  }
  for (const each of steps) {
    if (each.do === 'wait') now += each.ms
    else if (each.do === 'later') {
      queue.addAt(each.key, now + each.ms)
      if (!running.includes(each.key)) owe(each.key, Math.max(now + each.ms, restsUntil.get(each.key) ?? 0))
    } else if (each.do === 'add') {
      queue.add(each.key, each.isUrgent)
      if (each.isUrgent) restsUntil.delete(each.key)
      // An urgent change during the work: a failure then starts no pause.
      if (each.isUrgent && running.includes(each.key)) owed.set(`!${each.key}`, { dueAt: Number.POSITIVE_INFINITY })
      owe(each.key, Math.max(now, restsUntil.get(each.key) ?? 0))
    } else if (each.do === 'start') {
      const wrong = start()
      if (wrong) return wrong
    } else if (running.length > 0) {
      finish(running[each.pick % running.length]!, each.fails, each.ms)
    }
    // While nothing runs, a caller that sleeps until `dueAt` is late for no key.
    if (running.length === 0) {
      for (const [key, { dueAt }] of owed) {
        if (key.startsWith('!') || dueAt <= now) continue
        if (queue.dueAt > dueAt) return `${key} is due at ${dueAt}, and the queue sleeps until ${queue.dueAt}`
      }
    }
  }
  // Every key is worked on eventually.
  for (let rounds = 0; rounds < 1000; rounds++) {
    for (const key of [...running]) finish(key, false, null)
    const wrong = start()
    if (wrong) return wrong
    if (wrong === undefined) {
      if (queue.dueAt === Number.POSITIVE_INFINITY) break
      now = Math.max(now, queue.dueAt)
    }
  }
  const left = [...owed.keys()].filter((key) => !key.startsWith('!'))
  return left.length > 0 ? `${left.join(', ')} was never worked on` : null
}

const histories = fc.array(step, { maxLength: 40 })

it('gives every key that was added, never twice at once, never before its rest is over', () => {
  fc.assert(
    fc.property(histories, fc.integer({ min: 1, max: 3 }), (steps, concurrency) => {
      expect(play(steps, concurrency)).toBeNull()
    }),
    { numRuns: 500 },
  )
})

it.each<PlantedQueueBug>(['forget-added-while-running', 'run-twice-at-once', 'ignore-pause', 'later-wins'])(
  'the planted bug %s is found',
  (bug) => {
    const found = fc.check(
      fc.property(histories, fc.integer({ min: 1, max: 3 }), (steps, n) => play(steps, n, bug) === null),
      { numRuns: 2000, seed: 1, endOnFailure: true },
    )
    expect(found.failed).toBe(true)
  },
)

it('holds a key once, however often it is added, and in the order in which keys came', () => {
  const queue = new WorkQueue(2)
  for (const key of ['a', 'b', 'a', 'a', 'c', 'b']) queue.add(key)
  expect([queue.next(0), queue.next(0), queue.next(0)]).toEqual(['a', 'b', null])
  queue.done('a', 50)
  expect([queue.next(0), queue.next(0)]).toEqual(['c', null])
  queue.done('b', null)
  expect(queue.dueAt).toBe(50)
  expect([queue.next(49), queue.next(50)]).toEqual([null, 'a'])
  queue.putBack('a')
  expect(queue.next(50)).toBe('a')
})
