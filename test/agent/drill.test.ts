// A session shares objects between its messages, calls and effects: a drill must not take that for a difference.

import { expect, it } from 'vitest'
import { agent, tool } from '../../src/layers/agent/index.ts'
import { onEveryStore } from '../support/worlds.ts'

const guide = agent('guide', {
  model: ({ messages }) =>
    messages.at(-1)!.role === 'tool'
      ? { content: 'booked' }
      : { content: '', requests: [{ tool: 'book', args: { n: messages.length } }] },
  tools: {
    book: tool({
      kind: 'compensatable',
      run: (args: { n: number }) => ({ booked: args.n }),
      compensate: () => undefined,
    }),
  },
  checkpoint: { every: 5 },
})

onEveryStore('drill of sessions', (world) => {
  it('G11: a session with calls passes its drill, and its checkpoints stay valid', async () => {
    const rp = await (await world()).engine()
    const session = await rp.open(guide, 'ann')
    for (const input of ['one', 'two', 'three']) {
      await session.turn(input)
      await session.checkpoint()
    }
    await session.close()
    const { results } = await rp.drill()
    expect(results.filter(({ checkpoint }) => checkpoint !== null).length).toBeGreaterThan(1)
    expect(results.filter(({ ok }) => !ok)).toEqual([])
    expect((await rp.checkpoints(session.timeline)).filter(({ invalid }) => invalid !== null)).toEqual([])
  })
})
