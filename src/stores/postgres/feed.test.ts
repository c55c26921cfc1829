// The feed by prefixes: whether it reads the matching timelines one by one or scans all runs, it returns the same as a
// filter over the whole feed, from any place, in pages of any size.

import fc from 'fast-check'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { dropSchema, newSchemaName } from '../../../test/support/schema.ts'
import { appendOperation, originDigest, packEntries } from '../../core/history/entry-run.ts'
import { type FeedItem, type FeedPosition, feedStart, type Store } from '../../core/store/ports.ts'
import { asTimeline, asWorker, hash, utf8, wholeFeed } from '../../testing/conformance/kit.ts'
import { openPostgres } from './index.ts'

const shared = inject('postgresUrl')
const schema = newSchemaName()
let store: Store
let all: FeedItem[]

/** Runs of one to three entries, to one timeline after another. */
function writer(id: string) {
  const timeline = asTimeline(id)
  let [seq, epoch, digest] = [0, 0, originDigest(hash, timeline)]
  return (count: number) => {
    const drafts = Array.from({ length: count }, (_, n) => ({ type: 'n', version: 1, time: 1, data: utf8(`${n}`) }))
    const run = packEntries(hash, { before: digest, first: seq + 1, epoch: 1 }, drafts)
    const guard = { timeline, epoch, seq, digest }
    const take = { worker: asWorker('w'), from: 'anyone' as const, create: { digest } }
    const commit = { operation: appendOperation(run.digest), guard, run, ...(epoch === 0 && { take }) }
    seq += count
    epoch = 1
    digest = run.digest
    return commit
  }
}

beforeAll(async () => {
  store = await openPostgres(shared, { namespace: 'n', schema, hash })
  const few = Array.from({ length: 5 }, (_, n) => writer(`few/${n}`))
  const many = Array.from({ length: 240 }, (_, n) => writer(`many/${n}`))
  for (let round = 0; round < 30; round++) {
    const some = few.filter((_, n) => (round + n) % 3 > 0).map((append, n) => append(1 + ((round + n) % 3)))
    const others = many.slice(round * 8, round * 8 + 8).map((append) => append(1))
    const outcomes = await store.commit([...some, ...others])
    expect(outcomes.every(({ ok }) => ok)).toBe(true)
  }
  all = await wholeFeed(store)
})
afterAll(async () => {
  await store.close()
  await dropSchema(shared, schema)
})

const prefixes = ['few/', 'few/3', 'few', 'many/', 'many/17', 'nobody/', 'many/1', 'few/0']

it('P: returns by prefixes the same as a filter over the whole feed', async () => {
  expect(all.length).toBeGreaterThan(300)
  const cases = fc.record({
    asked: fc.subarray(prefixes, { minLength: 1, maxLength: 3 }),
    from: fc.nat(all.length),
    limit: fc.integer({ min: 1, max: 40 }),
  })
  await fc.assert(
    fc.asyncProperty(cases, async ({ asked, from, limit }) => {
      const start: FeedPosition = from === 0 ? feedStart : all[from - 1]!.position
      const isAsked = ({ timeline }: FeedItem) =>
        asked.some((prefix) => timeline === prefix || timeline.startsWith(prefix.endsWith('/') ? prefix : `${prefix}/`))
      const found: FeedItem[] = []
      for (let [next, isEnd] = [start, false]; !isEnd; ) {
        const page = await store.feed(next, { prefixes: asked }, limit)
        expect(page.items.length).toBeLessThanOrEqual(limit)
        found.push(...page.items)
        ;({ next, isEnd } = page)
        // After the last match there is nothing for this reader, and the page reports the end.
        if (isEnd) expect(next >= all.at(-1)!.position || found.at(-1)?.position === next).toBe(true)
      }
      expect(found).toEqual(all.slice(from).filter(isAsked))
    }),
    { numRuns: 60 },
  )
})

it('skips all other timelines in one page where few match', async () => {
  const last = all.at(-1)!.position
  expect(await store.feed(feedStart, { prefixes: ['nobody/'] }, 10)).toEqual({ items: [], next: last, isEnd: true })
  const page = await store.feed(feedStart, { prefixes: ['many/0'] }, 10)
  expect(page).toMatchObject({ items: [{ timeline: 'many/0' }], next: last, isEnd: true })
})
