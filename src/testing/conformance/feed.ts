// The feed and its cursors: one order for all timelines, no entry missed or repeated, however commits interleave.

import assert from 'node:assert/strict'
import { isReprise } from '../../core/errors.ts'
import { isWithin } from '../../core/history/scope.ts'
import { type FeedItem, feedStart } from '../../core/store/ports.ts'
import { assertSame, asTimeline, expectOk, expectRefused, type Kit, type Test } from './kit.ts'

export function feedTests(test: Test): void {
  ordering(test)
  cursors(test)
}

function ordering(test: Test): void {
  test('an empty feed has no items and ends at once', async (kit) => {
    const page = await kit.store.feed(feedStart, {}, 10)
    assert.deepEqual([page.items.length, page.isEnd], [0, true])
    const again = await kit.store.feed(page.next, {}, 10)
    assert.deepEqual([again.items.length, again.isEnd], [0, true])
  })

  test('runs of all timelines are returned in commit order, each with its entries', async (kit) => {
    const a = await kit.create('a')
    const b = await kit.create('b')
    const runs = [await a.append('1'), await b.append('2', '3'), await a.append('4'), await b.append('5')]
    const items = await kit.readFeed()
    const given = kit.capabilities.isSharded ? byTimeline(items) : items
    const order = kit.capabilities.isSharded ? [0, 2, 1, 3] : [0, 1, 2, 3]
    assert.deepEqual(
      given.map((item) => item.timeline),
      order.map((n) => ['a', 'b', 'a', 'b'][n]),
    )
    assertSame(
      given.map((item) => item.run),
      order.map((n) => runs[n]),
      'the runs',
    )
    const positions = items.map((item) => item.position)
    assert.deepEqual([...positions].sort(), positions, 'positions compare as text')
    assert.equal(new Set(positions).size, 4)
    assert.ok(positions[0]! > feedStart)
  })

  test('the runs of one batch each have a position, so that a page may end between them', async (kit) => {
    const writers = [await kit.create('a'), await kit.create('b'), await kit.create('c')]
    const outcomes = await kit.store.commit(writers.map((writer) => writer.plan({ run: writer.run('x') })))
    for (const outcome of outcomes) expectOk(outcome)
    const items = await kit.readFeed(undefined, 1)
    assert.deepEqual(
      (kit.capabilities.isSharded ? byTimeline(items) : items).map((item) => item.timeline),
      ['a', 'b', 'c'],
    )
  })

  test('reading continues from `next` or any other position, and later commits follow', async (kit) => {
    const writer = await kit.create('a')
    for (const text of ['1', '2', '3', '4', '5']) await writer.append(text)
    await kit.readFeed()
    const first = await kit.store.feed(feedStart, {}, 2)
    assert.deepEqual(firsts(first.items), [1, 2])
    assert.equal(first.isEnd, false)
    const fromItem = await kit.store.feed(first.items[0]!.position, {}, 10)
    assert.deepEqual(firsts(fromItem.items), [2, 3, 4, 5])
    const rest = await kit.store.feed(first.next, {}, 10)
    assert.deepEqual(firsts(rest.items), [3, 4, 5])
    assert.equal(rest.isEnd, true)
    assert.ok(rest.next >= rest.items.at(-1)!.position)
    assert.deepEqual((await kit.store.feed(rest.next, {}, 10)).items, [])
    await writer.append('6')
    await kit.readFeed()
    assert.deepEqual(firsts((await kit.store.feed(rest.next, {}, 10)).items), [6])
  })

  test('prefixes match whole segments, several may be passed, and an empty page still advances', async (kit) => {
    const ids = [
      'a/1',
      'a%',
      'a_b',
      'ab',
      'A/1',
      'é/1',
      '🦊/1',
      "a'b",
      'a',
      'a~1',
      'a~1x',
      'a/1~3',
      'ab/1',
      '.*',
      'a_b/2',
    ]
    for (const id of ids) await (await kit.create(id)).append('x')
    const of = async (...prefixes: string[]) => {
      const found = (await kit.readFeed(prefixes, 2)).map((item) => item.timeline as string)
      return kit.capabilities.isSharded ? found.sort((a, b) => ids.indexOf(a) - ids.indexOf(b)) : found
    }
    assert.deepEqual(await of('a/'), ['a/1', 'a/1~3'])
    assert.deepEqual(await of('a'), ['a/1', 'a', 'a~1', 'a/1~3'])
    assert.deepEqual(await of('a/1'), ['a/1', 'a/1~3'])
    assert.deepEqual(await of('é', '🦊'), ['é/1', '🦊/1'])
    assert.deepEqual(await of(''), ids)
    assert.deepEqual(await of('a', 'ab'), ['a/1', 'ab', 'a', 'a~1', 'a/1~3', 'ab/1'])
    for (const scope of [...ids, ...ids.map((id) => `${id}/`), 'a%/', 'b', 'é']) {
      const expected = ids.filter((id) => isWithin(scope, id))
      assert.deepEqual(await of(scope), expected, `prefix ${scope}`)
    }
    assert.deepEqual(await of(), [])
    assert.deepEqual(await of('nothing'), [])
    let after = feedStart
    let page = await kit.store.feed(after, { prefixes: ['nothing'] }, 3)
    while (!page.isEnd) {
      assert.ok(page.next > after, 'an empty page that is not the end moves on')
      after = page.next
      page = await kit.store.feed(after, { prefixes: ['nothing'] }, 3)
    }
    await (await kit.create('nothing/1')).append('x')
    await kit.readFeed()
    const found = await kit.store.feed(page.next, { prefixes: ['nothing'] }, 3)
    assert.deepEqual(
      found.items.map((item) => item.timeline),
      ['nothing/1'],
    )
  })

  test('a position beyond the end is POSITION_GONE, never an empty page: it belongs to another copy of the store', async (kit) => {
    const writer = await kit.create('a')
    for (const text of ['1', '2', '3']) await writer.append(text)
    await kit.readFeed()
    const { next, isEnd } = await kit.store.feed(feedStart, {}, 10)
    assert.deepEqual([isEnd, (await kit.store.feed(next, {}, 10)).items], [true, []], 'the end itself is included')
    const beyond = next.replaceAll(/\d(?=\d{12}(?!\d))/g, '9')
    assert.ok(beyond > next)
    for (const filter of [{}, { prefixes: ['a'] }, { prefixes: ['nothing'] }, { prefixes: [] }]) {
      for (const limit of [0, 10]) {
        const isGone = (error: unknown) => isReprise(error, 'POSITION_GONE')
        await assert.rejects(Promise.resolve(kit.store.feed(beyond, filter, limit)), isGone)
      }
    }
    await writer.append('4')
    await kit.readFeed()
    assert.deepEqual(firsts((await kit.store.feed(next, {}, 10)).items), [4])
  })

  test('a position stays valid while earlier runs are removed', async (kit) => {
    const writer = await kit.create('a')
    const other = await kit.create('b')
    await other.append('1')
    await writer.append('1')
    await kit.readFeed()
    const { next } = await kit.store.feed(feedStart, {}, 10)
    expectOk(await writer.commit({ forget: true }))
    await kit.store.upkeep.tidy(Number.MAX_SAFE_INTEGER)
    assert.deepEqual((await kit.store.feed(next, {}, 10)).items, [])
    await other.append('2')
    await kit.readFeed()
    assert.deepEqual(firsts((await kit.store.feed(next, {}, 10)).items), [2])
  })

  test('a follower beside many writers in several processes misses nothing and sees nothing twice', async (kit) => {
    const stores = [kit.store, await kit.open(), await kit.open()]
    const appends = 12
    const ids = ['a', 'b', 'c', 'd', 'e', 'f']
    const writers = await Promise.all(ids.map((id, i) => kit.create(id, { store: stores[i % 3]! })))
    let isWriting = true
    const seen: FeedItem[] = []
    const follow = async (store: Kit['store']) => {
      let after = feedStart
      for (;;) {
        const wasWriting = isWriting
        const page = await store.feed(after, {}, 3)
        seen.push(...page.items)
        after = page.next
        if (page.isEnd && !wasWriting) return
        if (page.isEnd) await new Promise((resolve) => setImmediate(resolve))
      }
    }
    const follower = follow(await kit.open())
    await Promise.all(
      writers.map(async (writer, i) => {
        for (let n = 0; n < appends; n++) {
          await writer.append(`${i} ${n}`)
          if (n % 3 === i % 3) await new Promise((resolve) => setImmediate(resolve))
        }
      }),
    )
    isWriting = false
    await follower
    assert.equal(seen.length, ids.length * appends)
    for (const id of ids) {
      const expected = Array.from({ length: appends }, (_, n) => n + 1)
      assert.deepEqual(firsts(seen.filter((item) => item.timeline === id)), expected, `the runs of ${id} in order`)
    }
    if (kit.capabilities.isSharded) assert.equal((await kit.readFeed()).length, seen.length)
    else assertSame(await kit.readFeed(), seen, 'a second reading has the same order')
  })
}

function cursors(test: Test): void {
  test('a cursor has an owner and a position, advances, and is removed by null', async (kit) => {
    const a = await kit.create('a')
    await a.append('1')
    await a.append('2')
    const [first, second] = (await kit.readFeed()).map((item) => item.position)
    expectOk(await a.commit({ cursors: { totals: feedStart, 'ü "x"': first! } }))
    expectOk(await a.commit({ cursors: { totals: first! } }))
    expectOk(await a.commit({ cursors: { totals: first! } }))
    expectOk(await a.commit({ cursors: { totals: second! } }))
    const rows = await kit.store.cursors()
    const found = rows.map((row) => [row.name, row.owner, row.position]).sort()
    assert.deepEqual(found, [
      ['totals', 'a', second],
      ['ü "x"', 'a', first],
    ])
    for (const row of rows) assert.ok(row.movedAt > 0)
    expectOk(await a.commit({ cursors: { totals: null, never: null } }))
    assert.deepEqual(
      (await kit.store.cursors()).map((row) => row.name),
      ['ü "x"'],
    )
  })

  test('a cursor never moves back, and only its owner moves or removes it', async (kit) => {
    const a = await kit.create('a')
    const b = await kit.create('b')
    await a.append('1')
    await a.append('2')
    const [first, second] = (await kit.readFeed()).map((item) => item.position)
    expectOk(await a.commit({ cursors: { c: second! } }))
    expectRefused(await a.commit({ cursors: { c: first! } }), 'CONFLICT')
    expectRefused(await a.commit({ cursors: { c: feedStart } }), 'CONFLICT')
    expectRefused(await b.commit({ cursors: { c: second! } }), 'CONFLICT')
    expectRefused(await b.commit({ cursors: { c: null } }), 'CONFLICT')
    assert.deepEqual(
      (await kit.store.cursors()).map((row) => [row.owner, row.position]),
      [['a', second]],
    )
    expectOk(await a.commit({ cursors: { c: null } }))
    expectOk(await b.commit({ cursors: { c: first! } }))
    assert.equal((await kit.store.cursors())[0]?.owner, asTimeline('b'))
  })
}

/** Sorts by timeline, and keeps the order within each. */
function byTimeline(items: readonly FeedItem[]): FeedItem[] {
  return [...items].sort((a, b) => (a.timeline < b.timeline ? -1 : a.timeline > b.timeline ? 1 : 0))
}

function firsts(items: readonly FeedItem[]): number[] {
  return items.map((item) => item.run.first)
}
