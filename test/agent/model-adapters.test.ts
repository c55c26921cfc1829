// The ready models against servers that speak the wire formats and refuse what the services would refuse.

import { afterEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { agent, anthropicModel, type ModelCall, openAIModel, tool } from '../../src/layers/agent/index.ts'
import { onEveryStore } from '../support/worlds.ts'
import { type Answer, type Body, startWireServer, type WireServer } from './wire-server.ts'

let server: WireServer | undefined
afterEach(async () => {
  await server?.close()
  server = undefined
})

const kinds = ['openai', 'anthropic'] as const
type Kind = (typeof kinds)[number]

async function serve(kind: Kind, script: (body: Body, count: number) => Answer): Promise<WireServer> {
  server = await startWireServer(kind, script)
  return server
}

function modelOf(kind: Kind, stream: boolean, more: object = {}) {
  const options = { model: 'm1', apiKey: 'secret', url: server!.url, stream, price: { input: 3, output: 15 }, ...more }
  return kind === 'openai' ? openAIModel<null>(options) : anthropicModel<null>(options)
}

const add = tool({
  kind: 'read-only',
  description: 'adds two numbers',
  input: z.object({ a: z.number(), b: z.number() }),
  run: ({ a, b }) => a + b,
})

const call = (id: string, json: string) => ({ id, name: 'add', json })
const quick = { retry: { backoff: 1, backoffMax: 5 } } as const

for (const kind of kinds) {
  for (const stream of [true, false]) {
    describe(`a ready model (${kind}, ${stream ? 'streamed' : 'whole'})`, () => {
      onEveryStore(
        'C11',
        (world) => {
          it('carries text, tool calls, errors of tools and usage through several turns', async () => {
            const w = await world()
            await serve(kind, (_body, count): Answer => {
              if (count === 1)
                return { text: 'Let me see. ', calls: [call('x.1', '{"a":1,"b":2}'), call('x.2', '{"a":1}')] }
              // Cut off in the middle of its arguments, where the service can do that.
              if (count === 2) return { calls: [call('x.1', kind === 'anthropic' && !stream ? '{"a":1}' : '{"a":1,')] }
              return { text: `answer ${count}` }
            })
            const model = modelOf(kind, stream)
            const definition = agent('adder', { tools: { add }, model, settings: { prompt: 'You add.' } })
            const session = await (await w.engine()).open(definition, 's')
            const first = await session.turn('1 + 2?')
            expect(first).toMatchObject({ status: 'done', content: 'answer 3' })
            expect(first.usage).toEqual({ inputTokens: 300, outputTokens: 60, cost: (300 * 3 + 60 * 15) / 1e6 })
            const results = session.messages.filter((message) => message.role === 'tool')
            results.sort((a, b) => (a.answers! < b.answers! ? -1 : 1))
            expect(results.map(({ isError = false }) => isError)).toEqual([false, true, true])
            expect(await session.turn({ more: 'please' })).toMatchObject({ content: 'answer 4' })
            // The server looks at each conversation; what it got is what was meant.
            const { body, headers } = server!.requests[3]!
            expect(body).toMatchObject({ model: 'm1' })
            expect(JSON.stringify(body)).toContain('You add.')
            expect(JSON.stringify(body)).toContain('adds two numbers')
            expect(JSON.stringify(body)).toMatch(/"required":\["a","b"\]/)
            expect(headers['idempotency-key']).toMatch(/./)
            expect(headers[kind === 'openai' ? 'authorization' : 'x-api-key']).toContain('secret')
          })

          it('is asked again when the service is busy, and not when it refuses', async () => {
            const w = await world()
            await serve(kind, (_body, count): Answer => {
              if (count === 1) return { status: 429, retryAfter: '0' }
              if (count === 2) return { status: kind === 'openai' ? 503 : 529 }
              return count === 3 ? { text: 'at last' } : { status: 401 }
            })
            const definition = agent('busy', { model: modelOf(kind, stream), modelCalls: quick })
            const session = await (await w.engine()).open(definition, 's')
            expect(await session.turn('go')).toMatchObject({ content: 'at last' })
            await expect(session.turn('again')).rejects.toMatchObject({ status: 401 })
            expect(server!.requests).toHaveLength(4)
            const keys = server!.requests.map(({ headers }) => headers['idempotency-key'])
            expect(new Set(keys.slice(0, 3)).size).toBe(1)
          })

          it('takes the settings of the session over its own', async () => {
            const w = await world()
            await serve(kind, () => ({ text: 'ok' }))
            const model = modelOf(kind, stream, { parameters: { temperature: 1, top_p: 0.5 } })
            const session = await (await w.engine()).open(agent('s', { model }), 's')
            await session.configure({ model: 'm2', parameters: { temperature: 0 } })
            await session.turn('go')
            expect(server!.requests[0]!.body).toMatchObject({ model: 'm2', temperature: 0, top_p: 0.5 })
          })
        },
        ['memory'],
      )
    })
  }

  describe(`a streamed answer (${kind})`, () => {
    onEveryStore(
      'C11',
      (world) => {
        for (const trouble of ['cutAfter', 'errorAfter'] as const) {
          it(`that ends too early (${trouble}) is asked for again, not taken for the whole`, async () => {
            const w = await world()
            const text = 'one two three four five'
            await serve(kind, (_body, count) => (count === 1 ? { text, [trouble]: 4 } : { text }))
            const definition = agent('cut', { model: modelOf(kind, true), modelCalls: quick })
            const session = await (await w.engine()).open(definition, 's')
            expect(await session.turn('go')).toMatchObject({ status: 'done', content: text })
            expect(server!.requests).toHaveLength(2)
          })
        }
      },
      ['memory'],
    )
  })
}

describe('an answer that was cut off', () => {
  const message = { role: 'user', content: 'tell', turn: 1 } as const
  const cut: ModelCall<null> = {
    ...{ messages: [message], data: null, plan: null, notes: [], settings: {}, tools: [], toolDefinitions: [] },
    ...{ key: 'k', attempt: 2, partial: 'Once upon ', isContinued: true, signal: undefined },
  }

  it('C11 is continued by Anthropic, from the last character that is not a space', async () => {
    await serve('anthropic', () => ({ text: ' a time.', thinking: 'hm' }))
    const parts: object[] = []
    for await (const part of modelOf('anthropic', true)(cut) as AsyncIterable<object>) parts.push(part)
    expect(server!.requests[0]!.body.messages.at(-1)).toEqual({
      role: 'assistant',
      content: [{ type: 'text', text: 'Once upon' }],
    })
    expect(parts).toMatchObject([{ text: 'a ' }, { text: 'time.' }, { note: 'hm', usage: { inputTokens: 100 } }])
    expect(await modelOf('anthropic', false)(cut)).toMatchObject({ content: 'a time.', note: 'hm' })
  })

  it('C11 cannot be continued by chat completions, which say so', async () => {
    await serve('openai', () => ({ text: 'x' }))
    await expect(modelOf('openai', false)(cut)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    expect(server!.requests).toHaveLength(0)
  })
})
