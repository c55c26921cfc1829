// Queries of timelines: every filter is literal, unknown fields are errors, pages are in the order of UTF-8 bytes.

import assert from 'node:assert/strict'
import { isWithin } from '../../core/history/scope.ts'
import type { TimelineQuery } from '../../core/store/ports.ts'
import { assertSame, asTimeline, asWorker, expectOk, expectRejection, type Kit, type Test } from './kit.ts'

export function queryTests(test: Test): void {
  test('timelines are listed in the order of their UTF-8 bytes, page by page', async (kit) => {
    const ids = ['b', 'a', 'B', 'a/b', 'a-b', 'é', 'z', '\uffee', '🦊', 'a b', '漢字']
    for (const id of ids) await kit.create(id)
    const byBytes = [...ids].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    assert.deepEqual(await find(kit, {}), byBytes)
    const paged: string[] = []
    for (;;) {
      const after = paged.length === 0 ? {} : { after: asTimeline(paged.at(-1)!) }
      const page = await kit.store.timelines({ ...after, limit: 4 })
      if (page.length === 0) break
      assert.ok(page.length <= 4)
      paged.push(...page.map((head) => head.timeline))
    }
    assert.deepEqual(paged, byBytes)
    assert.deepEqual(await find(kit, { after: asTimeline('a'), prefix: 'a' }), ['a/b'])
    assert.deepEqual(await kit.store.timelines({ limit: 0 }), [])
  })

  test('a query returns heads', async (kit) => {
    const writer = await kit.create('a')
    await writer.append('one')
    await kit.send('a', 'm1')
    assertSame(await kit.store.timelines({ limit: 1 }), [await kit.head('a')], 'the head')
  })

  test('a prefix matches whole segments: the id itself, ids below it, its archives', async (kit) => {
    const ids = [
      'a',
      'a/b',
      'a/b/c',
      'ab',
      'ab/c',
      'a~1',
      'a~12',
      'a~1~2',
      'a~',
      'a~~1',
      'a~x',
      'a~1x',
      'a~1/b',
      'a-b',
      'A',
    ]
    for (const id of ids) await kit.create(id)
    const of = async (prefix: string) => (await find(kit, { prefix })).sort()
    assert.deepEqual(await of('a'), ['a', 'a/b', 'a/b/c', 'a~1', 'a~12', 'a~1~2'])
    assert.deepEqual(await of('a/'), ['a/b', 'a/b/c'])
    assert.deepEqual(await of('a/b'), ['a/b', 'a/b/c'])
    assert.deepEqual(await of('a~1'), ['a~1', 'a~1/b', 'a~1~2'])
    assert.deepEqual(await of('ab'), ['ab', 'ab/c'])
    assert.deepEqual(await of(''), [...ids].sort())
    assert.deepEqual(await of('nothing'), [])
  })

  test('a prefix is literal text: %, _, quotes, backslash, case, unicode', async (kit) => {
    const names = [
      'a%b',
      'a_b',
      'axb',
      'a\\b',
      "a'b",
      'a"b',
      'A%b',
      'ä',
      'ab',
      '🦊x',
      '🦊',
      'a*b',
      'a[b]',
      'a?b',
      '.*',
      '^a$',
    ]
    const ids = names.flatMap((name) => [name, `${name}/x`, `${name}~1`])
    for (const id of ids) await kit.create(id)
    for (const name of [...names, 'a', 'a%', '🦊/x', 'a[', 'nothing']) {
      for (const prefix of [name, `${name}/`, '']) {
        const expected = ids
          .filter((id) => isWithin(prefix, id))
          .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
        assert.deepEqual(await find(kit, { prefix }), expected, `prefix ${prefix}`)
      }
    }
  })

  test('status, queue, owner, parent and attributes must all match', async (kit) => {
    const a = await kit.create('a', { worker: 'w1' })
    const b = await kit.create('b', { worker: 'w2' })
    const c = await kit.create('c', { worker: 'w1' })
    expectOk(await a.commit({ status: 'open', queue: 'q', attributes: { city: 'Bern', zip: 3000, isHot: true } }))
    expectOk(await b.commit({ status: 'open', queue: 'p', attributes: { city: 'Bern', zip: '3000', isHot: false } }))
    expectOk(await c.commit({ status: 'completed', queue: 'q', attributes: { city: 'Basel', zip: 1, isHot: 'true' } }))
    const base = { timeline: a.id, seq: 0, digest: a.digest }
    await kit.create('fork', { worker: 'w3', create: { digest: a.digest, base } })
    const cases: [Partial<TimelineQuery>, string[]][] = [
      [{ status: 'open' }, ['a', 'b']],
      [{ status: '' }, ['fork']],
      [{ status: 'OPEN' }, []],
      [{ queue: 'q' }, ['a', 'c']],
      [{ owner: asWorker('w1') }, ['a', 'c']],
      [{ owner: asWorker('w1'), status: 'open' }, ['a']],
      [{ parent: asTimeline('a') }, ['fork']],
      [{ parent: asTimeline('b') }, []],
      [{ attributes: { city: 'Bern' } }, ['a', 'b']],
      [{ attributes: { zip: 3000 } }, ['a']],
      [{ attributes: { zip: '3000' } }, ['b']],
      [{ attributes: { isHot: true } }, ['a']],
      [{ attributes: { isHot: 'true' } }, ['c']],
      [{ attributes: { zip: true } }, []],
      [{ attributes: { city: 'Bern', zip: 3000, isHot: true } }, ['a']],
      [{ attributes: { city: 'Bern', zip: 1 } }, []],
      [{ attributes: { city: 'bern' } }, []],
      [{ attributes: { unknown: 1 } }, []],
      [{ attributes: {} }, ['a', 'b', 'c', 'fork']],
      [{ prefix: 'a', queue: 'q', owner: asWorker('w1'), attributes: { zip: 3000 } }, ['a']],
    ]
    for (const [query, expected] of cases) assert.deepEqual(await find(kit, query), expected, JSON.stringify(query))
    expectOk(await a.commit({ attributes: { city: null } }))
    assert.deepEqual(await find(kit, { attributes: { city: 'Bern' } }), ['b'])
    expectOk(await a.commit({ release: true }))
    assert.deepEqual(await find(kit, { owner: asWorker('w1') }), ['c'])
  })

  test('G15: an unknown field is an error, never a query without a filter', async (kit) => {
    await kit.create('a')
    const strange = { limit: 10, statuss: 'x' } as TimelineQuery
    await expectRejection(() => kit.store.timelines(strange), 'INVALID_ARGUMENT')
    const injected = { limit: 10, 'status = status --': 'x' } as TimelineQuery
    await expectRejection(() => kit.store.timelines(injected), 'INVALID_ARGUMENT')
    const shapeless = { limit: 10, attributes: { a: { $ne: 1 } } } as unknown as TimelineQuery
    await expectRejection(() => kit.store.timelines(shapeless), 'INVALID_ARGUMENT')
  })

  test('G15: ids with quotes, percent signs, unicode and emoji are data everywhere', async (kit) => {
    for (const id of [
      "o'hara",
      '100%_',
      '"; DROP TABLE timelines; --',
      '漢字/🦊',
      'e\u0301',
      'é',
      'a\\0b',
      '$x',
      ':id $1 ?1',
    ]) {
      const writer = await kit.create(id, { worker: `worker ${id}` })
      const run = await writer.append(id)
      await writer.publish(`checkpoint ${id}`, { label: id })
      await kit.send(id, `message ${id}`)
      expectOk(await writer.commit({ queue: id, status: id, wakeup: 1, cursors: { [id]: '' } }))
      assertSame(await kit.store.read(writer.id, 0, 10_000), [run], 'the run')
      assert.deepEqual(await kit.checkpointIds(id), [`checkpoint ${id}`])
      assert.deepEqual(await kit.inboxIds(id), [`message ${id}`])
      assert.deepEqual(await find(kit, { queue: id, status: id, owner: asWorker(`worker ${id}`) }), [id])
      const [claimed] = await kit.store.claim({ worker: asWorker('claimer'), queues: [id], limit: 5 })
      assert.equal(claimed?.timeline, id)
    }
  })
}

async function find(kit: Kit, query: Partial<TimelineQuery>): Promise<string[]> {
  return (await kit.store.timelines({ limit: 100, ...query })).map((head) => head.timeline)
}
