// Examples of `reprise/openai-agents`. An agent calls these itself: `run(agent, 'Hello', { session })`.

import assert from 'node:assert/strict'
import type { AgentInputItem } from '@openai/agents'
import { RepriseSession } from 'reprise/openai-agents'
import { example } from './example.ts'

const said = (content: string): AgentInputItem => ({ type: 'message', role: 'user', content })

export default [
  example(
    [
      'RepriseSession.getSessionId',
      'RepriseSession.addItems',
      'RepriseSession.getItems',
      'RepriseSession.popItem',
      'RepriseSession.replaceHistoryWithCompaction',
      'RepriseSession.clearSession',
      'RepriseSession.close',
    ],
    async (rp) => {
      const session = new RepriseSession(rp, 'customer-7')
      assert.equal(await session.getSessionId(), 'customer-7')
      await session.addItems([said('Hello'), said('Are you there?')])
      await session.popItem()
      assert.equal((await session.getItems()).length, 1)
      await session.replaceHistoryWithCompaction([said('They said hello.')])
      await session.clearSession()
      await session.close()
    },
  ),
  example(['RepriseSession.applyHistoryTransaction', 'RepriseSession.applyHistoryMutations'], async (rp) => {
    const session = new RepriseSession(rp, 'customer-7')
    const transaction = { type: 'append_items' as const, items: [said('Hello')] }
    await session.applyHistoryTransaction({ operationId: 'turn-1', transaction })
    await session.applyHistoryTransaction({ operationId: 'turn-1', transaction })
    assert.equal((await session.getItems()).length, 1)
    await session.applyHistoryMutations({ mutations: [] })
    await session.close()
  }),
]
