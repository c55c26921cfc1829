// A turn that its caller aborts stops, throws ABORTED, and can be resumed. Calls in flight are recorded when they end, or are
// in doubt; they never count as failures.

import { describe, expect, it } from 'vitest'
import { agent, tool } from '../../src/layers/agent/index.ts'
import { onEveryStore } from '../support/worlds.ts'

const aborted = expect.objectContaining({ code: 'ABORTED' })

/** A promise that the test settles, and one that resolves when a caller waits for it. */
function gate<T = void>() {
  let open: (value: T) => void = () => undefined
  let refuse: (error: unknown) => void = () => undefined
  const whenOpen = new Promise<T>((resolve, reject) => {
    open = resolve
    refuse = reject
  })
  return { whenOpen, open, refuse }
}

describe('an aborted turn', () => {
  onEveryStore(
    'C11 a signal',
    (world) => {
      it('that fired before the turn begins nothing', async () => {
        const w = await world()
        const session = await (await w.engine()).open(agent('a', { model: () => ({ content: 'hi' }) }), 's')
        await expect(session.turn('hello', { signal: AbortSignal.abort() })).rejects.toEqual(aborted)
        expect(session.state.turn).toBe(0)
        expect(await session.turn('hello')).toMatchObject({ turn: 1, status: 'completed' })
        await expect(session.resume({ signal: AbortSignal.abort() })).rejects.toEqual(aborted)
        await expect(session.use('none', {}, { signal: AbortSignal.abort() })).rejects.toEqual(aborted)
      })

      it('between two steps stops the turn, and resume continues it', async () => {
        const w = await world()
        const controller = new AbortController()
        let asked = 0
        const definition = agent('a', {
          tools: { look: tool({ kind: 'read-only', run: () => controller.abort() }) },
          model: () => (++asked === 1 ? { content: '', requests: [{ tool: 'look', args: 1 }] } : { content: 'done' }),
        })
        const session = await (await w.engine()).open(definition, 's')
        await expect(session.turn('hello', { signal: controller.signal })).rejects.toEqual(aborted)
        expect(asked).toBe(1)
        expect(session.isUnfinished).toBe(true)
        expect(await session.resume()).toMatchObject({ status: 'completed', content: 'done' })
        expect(asked).toBe(2)
      })

      it('during a model call that does not heed it: the caller is free at once, the answer is kept when it comes', async () => {
        const w = await world()
        const controller = new AbortController()
        const answer = gate<{ content: string }>()
        const begun = gate()
        let asked = 0
        const definition = agent('a', {
          model: () => {
            asked += 1
            begun.open()
            return answer.whenOpen
          },
        })
        const session = await (await w.engine()).open(definition, 's')
        const turn = session.turn('hello', { signal: controller.signal })
        await begun.whenOpen
        controller.abort()
        await expect(turn).rejects.toEqual(aborted)
        const resumed = session.resume()
        answer.open({ content: 'late, and paid for' })
        expect(await resumed).toMatchObject({ status: 'completed', content: 'late, and paid for' })
        expect(asked).toBe(1)
      })

      it('during a model call that honours it: the call is repeated under the same key, not recorded as failed', async () => {
        const w = await world()
        const keys: string[] = []
        const controller = new AbortController()
        const definition = agent('a', {
          model: async ({ key, signal }) => {
            keys.push(key)
            if (keys.length > 1) return { content: 'done' }
            controller.abort()
            signal?.throwIfAborted()
            return { content: 'never' }
          },
        })
        const session = await (await w.engine()).open(definition, 's')
        await expect(session.turn('hello', { signal: controller.signal })).rejects.toEqual(aborted)
        expect(await session.resume()).toMatchObject({ status: 'completed', content: 'done' })
        expect(new Set(keys).size).toBe(1)
        expect([...session.state.calls.values()].map((call) => call.state)).toEqual(['done'])
      })

      it("during a tool that honours it: its outcome is in doubt, and is settled by the tool's declaration", async () => {
        const w = await world()
        for (const kind of ['idempotent', 'irreversible'] as const) {
          let runs = 0
          const controller = new AbortController()
          const pay = tool({
            kind,
            run: (_args: unknown, { signal }) => {
              runs += 1
              if (runs > 1) return 'paid'
              controller.abort()
              throw signal?.reason
            },
          })
          const definition = agent(kind, {
            tools: { pay },
            model: ({ messages }) =>
              messages.at(-1)!.role === 'tool'
                ? { content: 'done' }
                : { content: '', requests: [{ tool: 'pay', args: 1 }] },
          })
          const session = await (await w.engine()).open(definition, 's')
          await expect(session.turn('go', { signal: controller.signal })).rejects.toEqual(aborted)
          const resumed = await session.resume()
          if (kind === 'idempotent') expect(resumed).toMatchObject({ status: 'completed' })
          else expect(resumed).toMatchObject({ status: 'waiting', waiting: { kind: 'in-doubt' } })
        }
      })

      it('during a tool that does not heed it: its result is kept, and it is not called again', async () => {
        const w = await world()
        const controller = new AbortController()
        const result = gate<string>()
        const begun = gate()
        let runs = 0
        const pay = tool({
          kind: 'irreversible',
          run: () => {
            runs += 1
            begun.open()
            return result.whenOpen
          },
        })
        const definition = agent('a', {
          tools: { pay },
          model: ({ messages }) =>
            messages.at(-1)!.role === 'tool'
              ? { content: 'done' }
              : { content: '', requests: [{ tool: 'pay', args: 1 }] },
        })
        const session = await (await w.engine()).open(definition, 's')
        const turn = session.turn('go', { signal: controller.signal })
        await begun.whenOpen
        controller.abort()
        await expect(turn).rejects.toEqual(aborted)
        result.open('paid')
        expect(await session.resume()).toMatchObject({ status: 'completed' })
        expect(runs).toBe(1)
        expect(session.messages.find((message) => message.role === 'tool')?.content).toBe('paid')
      })
    },
    ['memory'],
  )
})
