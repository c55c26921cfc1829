// A rollback undoes messages and effects; the recorded cost of a session stays.

import { describe, expect, it } from 'vitest'
import { agent, tool, withinBudget } from '../../src/layers/agent/index.ts'
import { onEveryStore } from '../support/worlds.ts'

const look = tool({ kind: 'read-only', run: () => 'seen' })

/** A model that costs 6 per call and requests a tool each time. */
function costly() {
  const counter = { calls: 0 }
  const model = () => {
    counter.calls += 1
    return { content: '', requests: [{ tool: 'look', args: counter.calls }], usage: { cost: 6, inputTokens: 100 } }
  }
  return { counter, model }
}

describe('the budget of a session', () => {
  onEveryStore(
    'C11 money spent',
    (world) => {
      for (const options of [{ turnCost: 5 }, { sessionCost: 5 }, { turnTokens: 50 }, { sessionTokens: 50 }]) {
        const [name] = Object.keys(options)
        it(`is not forgotten by a rollback: ${name}`, async () => {
          const w = await world()
          const { counter, model } = costly()
          const guardrails = [withinBudget({ ...options, rollbacksMax: 2 })]
          const definition = agent('costly', { model, tools: { look }, guardrails })
          const session = await (await w.engine()).open(definition, 's')
          expect(await session.turn('go')).toMatchObject({ status: 'waiting', waiting: { kind: 'handover' } })
          // One call exceeds the budget; the attempt after the rollback is stopped before it calls the model.
          expect(counter.calls).toBe(1)
          expect(session.usage).toMatchObject({ cost: 6 })
        })
      }

      it('survives a rollback, in the session, its budget and a new process', async () => {
        const w = await world()
        const { counter, model } = costly()
        const definition = agent('costly', {
          model: (call) => (call.messages.at(-1)!.role === 'tool' ? { content: 'done' } : model()),
          tools: { look },
          guardrails: [withinBudget({ sessionCost: 10 })],
        })
        const session = await (await w.engine()).open(definition, 's')
        await session.turn('one')
        await session.rollback({ to: 0 })
        expect(session.state.usage.cost).toBe(0)
        expect(session.usage.cost).toBe(6)
        await session.close()
        const again = await (await w.engine()).open(definition, 's')
        expect(again.usage.cost).toBe(6)
        expect(await again.turn('two')).toMatchObject({ waiting: { reason: expect.stringContaining('12 of 10') } })
        // Over its budget it does not call the model at all until a person permits a step.
        await again.rollback({ to: 0 })
        expect(await again.turn('three')).toMatchObject({ waiting: { reason: expect.stringContaining('12 of 10') } })
        expect(counter.calls).toBe(2)
        await again.approve('ann')
        expect(await again.resume()).toMatchObject({ waiting: { reason: expect.stringContaining('18 of 10') } })
        expect(counter.calls).toBe(3)
      })

      it('of one turn counts its own attempts, not those of undone turns', async () => {
        const w = await world()
        const { model } = costly()
        const definition = agent('costly', {
          model: (call) => (call.messages.at(-1)!.role === 'tool' ? { content: 'done' } : model()),
          tools: { look },
          guardrails: [withinBudget({ turnCost: 10 })],
        })
        const session = await (await w.engine()).open(definition, 's')
        await session.turn('one')
        await session.rollback({ to: 0 })
        expect(await session.turn('another question')).toMatchObject({ status: 'completed' })
        await session.rollback({ to: 0, again: true })
        expect(await session.resume()).toMatchObject({ status: 'waiting', waiting: { kind: 'handover' } })
      })
    },
    ['memory', 'sqlite'],
  )
})
