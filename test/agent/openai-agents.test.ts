// The OpenAI Agents SDK, the real package, against a scripted model server: a conversation that survives restarts.

import { Agent, type AgentInputItem, OpenAIProvider, Runner, tool } from '@openai/agents'
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import openAIExamples from '../../examples/api/openai-agents.ts'
import { RepriseSession } from '../../src/adapters/openai-agents/index.ts'
import { feedStart } from '../../src/core/store/ports.ts'
import { runExamples } from '../support/examples.ts'
import { onEveryStore } from '../support/worlds.ts'
import { type ModelServer, startModelServer } from './model-server.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

let server: ModelServer | undefined
afterEach(async () => {
  await server?.close()
  server = undefined
})

const user = (text: string): AgentInputItem => ({ type: 'message', role: 'user', content: text })

describe('the OpenAI Agents SDK', () => {
  onEveryStore('C11 a session', (world) => {
    it('carries a conversation with tools over a restart', async () => {
      const w = await world()
      server = await startModelServer(({ messages }) => {
        const last = messages.at(-1)!
        if (last.role === 'tool') return { text: 'it is 12 degrees' }
        const users = messages.filter((message) => message.role === 'user').length
        return users === 1
          ? { calls: [{ id: 'c1', name: 'weather', args: { city: 'Bern' } }] }
          : { text: `${messages.length} messages` }
      })
      const weather = tool({
        name: 'weather',
        description: 'the weather',
        parameters: z.object({ city: z.string() }),
        execute: ({ city }) => `12 in ${city}`,
      })
      const agent = new Agent({ name: 'a', instructions: 'be brief', tools: [weather], model: 'scripted' })
      const modelProvider = new OpenAIProvider({ apiKey: 'none', baseURL: server.url, useResponses: false })
      const runner = new Runner({ modelProvider, tracingDisabled: true })
      const first = new RepriseSession(await w.engine(), 'customer-7')
      expect((await runner.run(agent, 'weather in Bern?', { session: first })).finalOutput).toBe('it is 12 degrees')
      const items = await first.getItems()
      expect(items.map((item) => item.type)).toEqual(['message', 'function_call', 'function_call_result', 'message'])
      await first.close()
      const second = new RepriseSession(await w.engine(), 'customer-7')
      expect(await second.getItems()).toEqual(items)
      expect((await runner.run(agent, 'and now?', { session: second })).finalOutput).toBe('6 messages')
      expect(await second.getItems(1)).toMatchObject([{ role: 'assistant' }])
    })

    it('cleared is gone: its items are in no history, no archive, no capture that can be read', async () => {
      const w = await world()
      const rp = await w.engine()
      const session = new RepriseSession(rp, 'secret')
      await session.addItems([user('my number is 4711'), user('b')])
      await session.addItems([user('c')])
      await session.close()
      await rp.rollback({ to: { timeline: 'openai-agents/secret', seq: 1 } })
      await session.addItems([user('d')])
      await session.close()
      await rp.rollback({ to: { timeline: 'openai-agents/secret', seq: 1 } })
      await session.addItems([user('e')])
      expect((await rp.list({ prefix: 'openai-agents/secret' })).length).toBe(3)
      const other = new RepriseSession(await w.engine(), 'secret')
      expect(await other.getItems()).toHaveLength(3)
      await session.clearSession()
      expect(await rp.list({ prefix: 'openai-agents/secret' })).toEqual([])
      expect((await rp.feed(feedStart)).items).toEqual([])
      // Both continue with an empty session.
      expect(await other.getItems()).toEqual([])
      await other.addItems([user('anew')])
      expect(await session.getItems()).toEqual([user('anew')])
      await session.clearSession()
      await session.clearSession()
      expect(await other.getItems()).toEqual([])
    })

    it('cleared while a savepoint holds it is empty, and reports that it can still be read', async () => {
      const w = await world()
      const rp = await w.engine()
      const session = new RepriseSession(rp, 'held')
      await session.addItems([user('a')])
      await session.close()
      await rp.savepoint({ timeline: 'openai-agents/held', seq: 1 })
      await expect(session.clearSession()).rejects.toEqual(code('PINNED'))
      expect(await session.getItems()).toEqual([])
    })

    it('applies a transaction once, and refuses one that does not fit, changing nothing', async () => {
      const w = await world()
      const session = new RepriseSession(await w.engine(), 'tx')
      await session.addItems([user('a'), user('b')])
      const transaction = { type: 'append_items' as const, items: [user('c')] }
      await session.applyHistoryTransaction({ operationId: 'o1', transaction })
      await session.applyHistoryTransaction({ operationId: 'o1', transaction })
      expect(await session.getItems()).toEqual([user('a'), user('b'), user('c')])
      const other = { ...transaction, items: [user('d')] }
      await expect(session.applyHistoryTransaction({ operationId: 'o1', transaction: other })).rejects.toEqual(
        code('INVALID_ARGUMENT'),
      )
      const misfit = { type: 'replace_suffix' as const, expectedSuffix: [user('x')], replacement: [] }
      await expect(session.applyHistoryTransaction({ operationId: 'o2', transaction: misfit })).rejects.toEqual(
        code('INVALID_ARGUMENT'),
      )
      const fit = { ...misfit, expectedSuffix: [user('b'), user('c')], replacement: [user('z')] }
      await session.applyHistoryTransaction({ operationId: 'o2', transaction: fit })
      expect(await session.getItems()).toEqual([user('a'), user('z')])
    })

    it("is used by two processes in turns, each seeing the other's items", async () => {
      const w = await world()
      const [one, two] = [new RepriseSession(await w.engine(), 's'), new RepriseSession(await w.engine(), 's')]
      for (let i = 0; i < 4; i++) {
        await one.addItems([user(`one ${i}`)])
        await two.addItems([user(`two ${i}`)])
      }
      expect(await one.getItems()).toEqual(await two.getItems())
      expect(await one.getItems()).toHaveLength(8)
    })
  })

  it('C11 behaves as an array does, whatever is done to it in whatever order', async () => {
    const { open } = await import('../../src/index.ts')
    const command = fc.oneof(
      fc.record({ kind: fc.constant('add' as const), texts: fc.array(fc.string(), { maxLength: 3 }) }),
      fc.constant({ kind: 'pop' as const }),
      fc.constant({ kind: 'clear' as const }),
      fc.record({ kind: fc.constant('get' as const), limit: fc.option(fc.nat(5), { nil: undefined }) }),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 20 }), async (commands) => {
        await using rp = await open('memory:')
        const session = new RepriseSession(rp, 'model')
        let model: AgentInputItem[] = []
        for (const each of commands) {
          if (each.kind === 'add') {
            await session.addItems(each.texts.map(user))
            model = [...model, ...each.texts.map(user)]
          } else if (each.kind === 'pop') expect(await session.popItem()).toEqual(model.pop())
          else if (each.kind === 'clear') {
            await session.clearSession()
            model = []
          } else {
            const { limit } = each
            const expected = limit === undefined ? model : limit === 0 ? [] : model.slice(-limit)
            expect(await session.getItems(limit)).toEqual(expected)
          }
        }
      }),
      { numRuns: 40 },
    )
  })
})

runExamples('reprise/openai-agents', openAIExamples)
