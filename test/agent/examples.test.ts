// The examples run unchanged, against the built package.

import { describe, expect, it } from 'vitest'

describe('C11 the examples', () => {
  it('support-agent: a loop of refunds is undone, and one stays', async () => {
    const { main } = await import('../../examples/support-agent.ts')
    expect(await main()).toEqual({
      answer: 'I refunded your order. Sorry for the trouble.',
      refunds: [1999],
      rollbacks: 1,
      cost: expect.closeTo(0.002),
    })
  })

  it('langgraph-app: one line changed, and history is complete', async () => {
    const { main } = await import('../../examples/langgraph-app.ts')
    const { said, history, faults } = await main()
    expect(said).toEqual(['Hello', 'You said 1 things.', 'Hello again', 'You said 3 things.'])
    expect(history).toEqual([4, 3, 2, 2, 1, 0])
    expect(faults).toEqual([])
  })
})
