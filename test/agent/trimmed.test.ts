// Replay and evaluation of sessions whose history was trimmed start from the oldest remaining capture, and report that.

import { describe, expect, it } from 'vitest'
import { agent, evaluateSession, type LanguageModel, replaySession, tool } from '../../src/layers/agent/index.ts'
import { onEveryStore } from '../support/worlds.ts'

const model: LanguageModel<{ seen: number }> = ({ messages }) => {
  const last = messages.at(-1)!
  if (last.role === 'tool') return { content: `answer to ${messages.length}`, usage: { cost: 1 } }
  return { content: '', requests: [{ tool: 'look', args: messages.length }], usage: { cost: 1 } }
}

const definition = agent('long', {
  initial: () => ({ seen: 0 }),
  model,
  tools: { look: tool({ kind: 'read-only', run: (n: number) => n * 2 }) },
  checkpoint: { every: 20 },
  retain: { checkpoints: 2, history: 'needed' },
})

describe('a session whose history was trimmed', () => {
  onEveryStore(
    'C11',
    (world) => {
      it('is replayed and evaluated from the oldest capture that is left', async () => {
        const w = await world()
        const rp = await w.engine()
        const session = await rp.open(definition, 's')
        const whole = await rp.open(definition, 'short')
        for (let i = 0; i < 30; i++) await session.turn(`question ${i}`)
        await whole.turn('one')
        await session.checkpointing
        await rp.collect()
        const { floor, seq } = (await rp.head('agent/long/s'))!
        expect(floor).toBeGreaterThan(50)
        const replay = await replaySession(rp, definition, 's')
        expect(replay.isExact).toBe(true)
        expect(replay.from).toBeGreaterThanOrEqual(floor)
        expect(replay.entries).toBe(seq - replay.from)
        const models = replay.steps.filter((step) => step.kind === 'model')
        expect(models.length).toBeGreaterThan(0)
        expect((models[0]!.input as unknown[]).length).toBeGreaterThan(30)
        const evaluation = await evaluateSession(rp, definition, 's', { model })
        expect(evaluation.steps).toHaveLength(models.length)
        expect(evaluation.sameActions).toBe(models.length)
        expect(evaluation.usage.candidate).toEqual(evaluation.usage.recorded)
        expect(await replaySession(rp, definition, 'short')).toMatchObject({ from: 0, isExact: true })
      })
    },
    ['memory', 'sqlite'],
  )
})
