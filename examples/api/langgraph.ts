// Examples of `reprise/langgraph`. A graph calls these itself: `builder.compile({ checkpointer: new RepriseSaver(rp) })`.

import assert from 'node:assert/strict'
import { emptyCheckpoint } from '@langchain/langgraph-checkpoint'
import { RepriseSaver, RepriseStore } from 'reprise/langgraph'
import { example } from './example.ts'

export default [
  example(
    [
      'RepriseSaver.put',
      'RepriseSaver.putWrites',
      'RepriseSaver.getTuple',
      'RepriseSaver.list',
      'RepriseSaver.prune',
      'RepriseSaver.deleteThread',
      'RepriseSaver.expire',
      'RepriseSaver.end',
    ],
    async (rp) => {
      const saver = new RepriseSaver(rp, { ttl: '30d' })
      const thread = { configurable: { thread_id: 'ticket-7', checkpoint_ns: '' } }
      const saved = await saver.put(thread, emptyCheckpoint(), { source: 'input', step: -1, parents: {} }, {})
      await saver.putWrites(saved, [['messages', 'Hello']], 'task-1')
      assert.equal((await saver.getTuple(saved))!.pendingWrites!.length, 1)
      for await (const { config } of saver.list(thread)) assert.equal(config.configurable!.thread_id, 'ticket-7')
      await saver.prune('ticket-7', { keepLast: 1 })
      assert.equal(await saver.expire(), 0)
      await saver.deleteThread('ticket-7')
      await saver.end()
    },
  ),
  example(['RepriseStore.batch', 'RepriseStore.stop'], async (rp) => {
    const store = new RepriseStore(rp)
    await store.put(['users', 'ann'], 'city', { name: 'Berlin' })
    const [item] = await store.batch([{ namespace: ['users', 'ann'], key: 'city' }])
    assert.deepEqual(item!.value, { name: 'Berlin' })
    await store.stop()
  }),
]
