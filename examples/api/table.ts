// Examples of `reprise/table`: tables in memory, tables in pages, and stores of many partitions.

import assert from 'node:assert/strict'
import { pagedTable, stateStore, table } from 'reprise/table'
import { example } from './example.ts'

const users = table<{ city: string }>('users', { indexes: { city: (user) => user.city } })
const facts = pagedTable<string>('facts', { cacheBytes: 1e6, indexes: { first: (text) => text[0]! } })
const counts = stateStore<number>('counts', { partitions: 4 })

export default [
  example(
    [
      'table',
      'TableHandle.set',
      'TableHandle.get',
      'TableHandle.has',
      'TableHandle.delete',
      'TableHandle.update',
      'TableHandle.close',
    ],
    async (rp) => {
      const people = await rp.open(users)
      await people.set('ann', { city: 'Berlin' })
      await people.update('ann', (user) => ({ city: user?.city === 'Berlin' ? 'Paris' : 'Berlin' }))
      assert.deepEqual([people.get('ann')!.city, people.has('bob')], ['Paris', false])
      await people.delete('ann')
      await people.close()
    },
  ),
  example(['TableHandle.entries', 'TableHandle.keys', 'TableHandle.values', 'TableHandle.by'], async (rp) => {
    const people = await rp.open(users)
    for (const id of ['ann', 'bob']) await people.set(id, { city: 'Berlin' })
    assert.deepEqual([...people.entries({ prefix: 'a' })], [['ann', { city: 'Berlin' }]])
    assert.deepEqual([...people.keys({ reverse: true })], ['bob', 'ann'])
    assert.equal([...people.values({ limit: 1 })].length, 1)
    assert.equal([...people.by('city', 'Berlin')].length, 2)
  }),
  example(['TableHandle.transaction', 'Transaction.get', 'Transaction.has', 'Transaction.entries'], async (rp) => {
    const people = await rp.open(users)
    await people.transaction((tx) => {
      tx.set('ann', { city: 'Berlin' })
      if (tx.has('bob')) tx.delete('bob')
      assert.deepEqual([tx.get('ann')!.city, [...tx.entries()].length], ['Berlin', 1])
    })
  }),
  example(['TableHandle.offset'], async (rp) => {
    // The rows that were read from a source and the position become durable together.
    const people = await rp.open(users)
    await people.transaction((tx) => {
      if (Number(tx.offset('import') ?? 0) >= 7) return
      tx.set('ann', { city: 'Berlin' })
      tx.advance('import', 7)
    })
    assert.equal(people.offset('import'), 7)
  }),
  example(['TableHandle.watch', 'TableHandle.checkpoint', 'TableHandle.sweep'], async (rp) => {
    const people = await rp.open(users)
    const stop = people.watch({ prefix: 'a' }, (changes) => assert.equal(changes[0]!.key, 'ann'))
    await people.set('ann', { city: 'Berlin' }, { ttl: '1h' })
    stop()
    await people.checkpoint()
    assert.equal(await people.sweep(), 0)
  }),
  example(
    [
      'TableStandby.get',
      'TableStandby.entries',
      'TableStandby.offset',
      'TableStandby.refresh',
      'TableStandby.takeOver',
      'TableStandby.close',
    ],
    async (rp) => {
      const people = await rp.open(users)
      await people.set('ann', { city: 'Berlin' })
      const standby = await users.standby(rp)
      await standby.refresh()
      assert.deepEqual([standby.get('ann')!.city, [...standby.entries()].length], ['Berlin', 1])
      assert.equal(standby.offset('import'), undefined)
      await people.close()
      const owner = await standby.takeOver()
      await owner.set('bob', { city: 'Paris' })
      standby.close()
    },
  ),
  example(
    [
      'pagedTable',
      'PagedTable.set',
      'PagedTable.get',
      'PagedTable.has',
      'PagedTable.delete',
      'PagedTable.update',
      'PagedTable.close',
    ],
    async (rp) => {
      const rows = await rp.open(facts)
      await rows.set('sky', 'blue')
      await rows.update('sky', (text) => `${text}, mostly`)
      assert.deepEqual([await rows.get('sky'), await rows.has('sea')], ['blue, mostly', false])
      await rows.delete('sky')
      await rows.close()
    },
  ),
  example(
    [
      'PagedTable.entries',
      'PagedTable.keys',
      'PagedTable.values',
      'PagedTable.by',
      'PagedTable.count',
      'PagedTable.checkpoint',
    ],
    async (rp) => {
      const rows = await rp.open(facts)
      await rows.set('sky', 'blue')
      await rows.checkpoint()
      for await (const [key, text] of rows.entries({ prefix: 's' })) assert.deepEqual([key, text], ['sky', 'blue'])
      for await (const key of rows.keys()) assert.equal(key, 'sky')
      for await (const text of rows.values()) assert.equal(text, 'blue')
      for await (const [key] of rows.by('first', 'b')) assert.equal(key, 'sky')
      assert.equal(await rows.count(), 1)
    },
  ),
  example(
    [
      'PagedTable.transaction',
      'PagedTable.offset',
      'PagedTable.watch',
      'PagedTable.sweep',
      'PagedTransaction.get',
      'PagedTransaction.has',
      'PagedTransaction.entries',
    ],
    async (rp) => {
      const rows = await rp.open(facts)
      const stop = rows.watch('sky', (changes) => assert.equal(changes.length, 1))
      await rows.transaction(async (tx) => {
        if (tx.offset('import') !== undefined || (await tx.has('sky'))) return
        tx.set('sky', (await tx.get('sea')) ?? 'blue')
        tx.delete('sea')
        for await (const [key] of tx.entries()) assert.equal(key, 'sky')
        tx.advance('import', 1)
      })
      stop()
      assert.equal(rows.offset('import'), 1)
      assert.equal(await rows.sweep(), 0)
    },
  ),
  example(
    [
      'stateStore',
      'PartitionedStore.set',
      'PartitionedStore.get',
      'PartitionedStore.delete',
      'PartitionedStore.entries',
      'PartitionedStore.transaction',
      'PartitionedStore.tableOf',
      'PartitionedStore.close',
    ],
    async (rp) => {
      const store = await rp.open(counts)
      await store.set('ann', 1)
      await store.transaction('ann', (tx) => tx.set('ann', (tx.get('ann') ?? 0) + 1))
      assert.deepEqual([store.get('ann'), [...store.entries()].length], [2, 1])
      assert.equal(store.tableOf('ann').get('ann'), 2)
      await store.delete('ann')
      await store.close()
    },
  ),
]
