// User SQL: the user's function inside the commit's transaction. It is called after everything else was accepted, and an
// error that it throws undoes everything else.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { isReprise } from '../../core/errors.ts'
import type { Sql } from '../../core/store/ports.ts'
import { assertSame, expectOk, expectRefused, message, type Test } from './kit.ts'

export function riderTests(test: Test): void {
  test('the return value of the user’s SQL, synchronous or not, is the outcome’s sqlResult', async (kit) => {
    const writer = await kit.create('a')
    const now = expectOk(await writer.commit({ run: writer.run('one'), userSql: () => ({ rows: 1 }) }))
    assert.deepEqual(now.sqlResult, { rows: 1 })
    const later = expectOk(
      await writer.commit({
        run: writer.run('two'),
        userSql: async () => {
          await new Promise((resolve) => setTimeout(resolve, 5))
          return 'later'
        },
      }),
    )
    assert.equal(later.sqlResult, 'later')
    assert.equal((await kit.head('a')).seq, 2)
  })

  test('G2: user SQL that throws, synchronously or not, is RIDER_FAILED with the cause, and nothing is kept', async (kit) => {
    const writer = await kit.create('a')
    const before = await kit.head('a')
    const failure = new Error('no such account')
    const riders = [
      () => {
        throw failure
      },
      async () => {
        await new Promise((resolve) => setTimeout(resolve, 5))
        throw failure
      },
    ]
    for (const userSql of riders) {
      const refused = expectRefused(
        await writer.commit({ run: writer.run('one'), send: [message('b', 'm1')], userSql }),
        'RIDER_FAILED',
      )
      assert.equal(refused.cause, failure)
      assertSame(refused.head, before, 'the head without this commit')
    }
    assertSame(await kit.head('a'), before, 'the head')
    assert.deepEqual(await kit.inboxIds('b'), [])
    await writer.append('one')
  })

  test('the other commits of the batch are kept, before and after the one whose SQL failed', async (kit) => {
    const [a, b, c] = [await kit.create('a'), await kit.create('b'), await kit.create('c')]
    const outcomes = await kit.store.commit([
      a.plan({ run: a.run('one'), userSql: () => 'a' }),
      b.plan({ run: b.run('one'), userSql: () => Promise.reject(new Error('no')) }),
      c.plan({ run: c.run('one') }),
    ])
    assert.equal(expectOk(outcomes[0]).sqlResult, 'a')
    expectRefused(outcomes[1], 'RIDER_FAILED')
    expectOk(outcomes[2])
    const seqs = (await kit.store.timelines({ limit: 10 })).map((head) => head.seq)
    assert.deepEqual(seqs, [1, 0, 1])
  })

  test('the user’s SQL is not called when the commit is refused, nor when it was applied already', async (kit) => {
    const writer = await kit.create('a')
    let calls = 0
    const userSql = () => {
      calls += 1
      return calls
    }
    const stale = writer.twin()
    stale.epoch = 5
    expectRefused(await stale.commit({ userSql }), 'FENCED')
    expectRefused(await writer.commit({ publish: [writer.manifest('c', { seq: 9 })], userSql }), 'OUT_OF_RANGE')
    assert.equal(calls, 0)
    const commit = writer.plan({ run: writer.run('one'), userSql })
    assert.equal(expectOk((await kit.store.commit([commit]))[0]).sqlResult, 1)
    const again = expectOk((await kit.store.commit([commit]))[0])
    assert.deepEqual([again.isDuplicate, again.sqlResult, calls], [true, undefined, 1])
  })

  test('G2: no reader sees the commit while its SQL still runs', async (kit) => {
    const writer = await kit.create('a')
    const other = await kit.open()
    const seen: number[] = []
    const userSql = async () => {
      seen.push((await kit.head('a', other)).seq)
    }
    expectOk(await writer.commit({ run: writer.run('one'), userSql }))
    seen.push((await kit.head('a', other)).seq)
    assert.deepEqual(seen, [0, 1])
  })

  test('other commits wait for the user’s SQL or overtake it, and all are kept', async (kit) => {
    const [a, b] = [await kit.create('a'), await kit.create('b')]
    const userSql = () => new Promise((resolve) => setTimeout(() => resolve('slow'), 20))
    const outcomes = await Promise.all([
      a.commit({ run: a.run('one'), userSql }),
      b.commit({ run: b.run('one') }),
      kit.send('c', 'm1'),
    ])
    assert.equal(expectOk(outcomes[0]).sqlResult, 'slow')
    expectOk(outcomes[1])
    assert.deepEqual(await kit.inboxIds('c'), ['m1'])
  })

  test('of two commits at the same sequence one wins, and only the winner’s SQL takes effect', async (kit) => {
    const writer = await kit.create('a')
    for (const [first, second] of [
      ['userSql', 'plain'],
      ['plain', 'userSql'],
    ] as const) {
      let calls = 0
      const userSql = async () => {
        await new Promise((resolve) => setTimeout(resolve, 20))
        calls += 1
      }
      const rivals = [first, second].map((kind) => {
        const rival = writer.twin()
        const run = rival.run(kind)
        return { kind, rival, outcome: rival.commit(kind === 'userSql' ? { run, userSql } : { run }) }
      })
      const results = await Promise.all(rivals.map(async (one) => ({ ...one, isOk: (await one.outcome).ok })))
      const winners = results.filter((result) => result.isOk)
      assert.equal(winners.length, 1)
      assert.equal(calls, winners[0]!.kind === 'userSql' ? 1 : 0)
      writer.seq = winners[0]!.rival.seq
      writer.digest = winners[0]!.rival.digest
      assert.equal((await kit.head('a')).seq, writer.seq)
    }
  })

  test('the user’s SQL commits and rolls back with the commit, or is refused by a store without SQL', async (kit) => {
    const writer = await kit.create('a')
    if (!kit.capabilities.sql) {
      for (const method of ['run', 'all', 'get'] as const) {
        const refused = expectRefused(
          await writer.commit({ userSql: (sql) => sql[method]('SELECT 1') }),
          'RIDER_FAILED',
        )
        assert.ok(isReprise(refused.cause, 'STORE_UNSUPPORTED'))
      }
      return
    }
    const table = `rider_${randomBytes(6).toString('hex')}`
    const mark = (sql: Sql, n: number) => (sql.dialect === 'postgres' ? `$${n}` : '?')
    const insert = (sql: Sql, id: number, note: string) =>
      sql.run(`INSERT INTO ${table} (id, note) VALUES (${mark(sql, 1)}, ${mark(sql, 2)})`, id, note)
    const userSql = async (work: (sql: Sql) => Promise<unknown>) =>
      expectOk(await writer.commit({ userSql: work })).sqlResult
    await userSql((sql) => sql.run(`CREATE TABLE ${table} (id INTEGER PRIMARY KEY, note TEXT)`))
    try {
      const made = (await userSql((sql) => insert(sql, 1, "o'hara"))) as { changes: number }
      assert.equal(made.changes, 1)
      const undone = await writer.commit({
        userSql: async (sql) => {
          await insert(sql, 2, 'never')
          throw new Error('changed my mind')
        },
      })
      expectRefused(undone, 'RIDER_FAILED')
      expectRefused(await writer.commit({ userSql: (sql) => insert(sql, 1, 'twice') }), 'RIDER_FAILED')
      const rows = await userSql((sql) => sql.all(`SELECT id, note FROM ${table} ORDER BY id`))
      assertSame(rows, [{ id: 1, note: "o'hara" }], 'the rows')
      assertSame(await userSql((sql) => sql.get(`SELECT note FROM ${table} WHERE id = 1`)), { note: "o'hara" }, 'a row')
      assert.equal(await userSql((sql) => sql.get(`SELECT note FROM ${table} WHERE id = 2`)), undefined)
    } finally {
      await userSql((sql) => sql.run(`DROP TABLE ${table}`))
    }
  })
}
