// The built-in models against servers that implement the wire formats and refuse the same requests as the real services.

import { afterEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { open } from '../../src/index.ts'
import { agent, anthropicModel, type ModelCall, openAIModel, tool } from '../../src/layers/agent/index.ts'
import { usageOf } from '../../src/layers/agent/models/http.ts'
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
            expect(first).toMatchObject({ status: 'completed', content: 'answer 3' })
            // 40 of each 100 tokens of input come from the prompt cache of the service, which has a price of its own.
            const read = kind === 'anthropic' ? 0.3 : 3
            expect(first.usage).toEqual({
              ...{ inputTokens: 300, outputTokens: 60, cacheReadTokens: 120 },
              cost: expect.closeTo((180 * 3 + 120 * read + 60 * 15) / 1e6, 12),
            })
            const results = session.messages.filter((message) => message.role === 'tool')
            results.sort((a, b) => (a.answers! < b.answers! ? -1 : 1))
            expect(results.map(({ isError = false }) => isError)).toEqual([false, true, true])
            expect(await session.turn({ more: 'please' })).toMatchObject({ content: 'answer 4' })
            // The server checks each conversation that it receives.
            const { body, headers } = server!.requests[3]!
            expect(body).toMatchObject({ model: 'm1' })
            expect(JSON.stringify(body)).toContain('You add.')
            expect(JSON.stringify(body)).toContain('adds two numbers')
            expect(JSON.stringify(body)).toMatch(/"required":\["a","b"\]/)
            expect(headers['idempotency-key']).toMatch(/./)
            expect(headers[kind === 'openai' ? 'authorization' : 'x-api-key']).toContain('secret')
          })

          it('is called again when the service is busy, and not when it refuses', async () => {
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
          it(`that ends too early (${trouble}) is requested again, not taken for the whole`, async () => {
            const w = await world()
            const text = 'one two three four five'
            await serve(kind, (_body, count) => (count === 1 ? { text, [trouble]: 4 } : { text }))
            const definition = agent('cut', { model: modelOf(kind, true), modelCalls: quick })
            const session = await (await w.engine()).open(definition, 's')
            expect(await session.turn('go')).toMatchObject({ status: 'completed', content: text })
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

  it('C11 cannot be continued by chat completions, which refuse it', async () => {
    await serve('openai', () => ({ text: 'x' }))
    await expect(modelOf('openai', false)(cut)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    expect(server!.requests).toHaveLength(0)
  })
})

describe('tokens of the prompt cache', () => {
  const counts = { input: 1000, output: 100, cacheRead: 10_000, cacheWrite: 2000, cacheWriteHour: 500 }
  const price = { input: 3, output: 15 }
  const shares = { read: 0.1, write: 1.25, writeHour: 2 }

  it('C11 have their own prices: those of the definition, else those of the service', () => {
    const tokens = { inputTokens: 13_500, outputTokens: 100, cacheReadTokens: 10_000, cacheWriteTokens: 2500 }
    expect(usageOf(counts, undefined)).toEqual(tokens)
    const cost = (given: object, of: typeof shares | null) => usageOf(counts, { ...price, ...given }, of).cost! * 1e6
    expect(cost({}, shares)).toBeCloseTo(1000 * 3 + 100 * 15 + 10_000 * 0.3 + 2000 * 3.75 + 500 * 6)
    expect(cost({}, null)).toBeCloseTo(13_500 * 3 + 100 * 15)
    const named = { cacheRead: 0.5, cacheWrite: 4, cacheWriteHour: 7 }
    for (const of of [shares, null]) {
      expect(cost(named, of)).toBeCloseTo(1000 * 3 + 100 * 15 + 10_000 * 0.5 + 2000 * 4 + 500 * 7)
    }
  })

  it.each([true, false])('C11 are read from the report of each service (streamed: %s)', async (stream) => {
    const message = { role: 'user', content: 'tell', turn: 1 } as const
    const asked: ModelCall<null> = {
      ...{ messages: [message], data: null, plan: null, notes: [], settings: {}, tools: [], toolDefinitions: [] },
      ...{ key: 'k', attempt: 1, partial: '', isContinued: false, signal: undefined },
    }
    for (const kind of kinds) {
      await server?.close()
      await serve(kind, () => ({ text: 'x' }))
      const own = { input: 3, output: 15, cacheRead: 1 }
      const answer = await modelOf(kind, stream, { price: own })(asked)
      const parts: object[] = []
      if (stream) for await (const part of answer as AsyncIterable<object>) parts.push(part)
      else parts.push(answer as object)
      const { usage } = parts.at(-1) as { usage: { cost: number; cacheReadTokens: number } }
      expect(usage).toMatchObject({ inputTokens: 100, cacheReadTokens: 40 })
      expect(usage.cost * 1e6).toBeCloseTo(60 * 3 + 40 * 1 + 20 * 15)
    }
  })
})

it('C11: each call of Anthropic marks tools, prompt and the last two turns, so that the next reads them from the cache', async () => {
  await serve('anthropic', (_body, count) => (count === 1 ? { calls: [call('x1', '{"a":1,"b":2}')] } : { text: 'yes' }))
  const rp = await open('memory:')
  const marked = async (name: string, more: object) => {
    const model = modelOf('anthropic', true, more)
    const session = await rp.open(agent(name, { tools: { add }, model, settings: { prompt: 'You add.' } }), 's')
    await session.turn('1 + 2?')
    await session.turn('and now?')
    const { tools, system, messages } = server!.requests.at(-1)!.body
    const marks = (blocks: readonly { cache_control?: object }[]) =>
      blocks.map(({ cache_control }) => cache_control ?? null)
    const ends = messages.filter(({ role }: { role: string }) => role === 'user')
    return { tools: marks(tools), system, ends: ends.map(({ content }: { content: [] }) => marks(content).at(-1)) }
  }
  const mark = { type: 'ephemeral' }
  const usual = await marked('usual', {})
  expect(usual.tools.at(-1)).toEqual(mark)
  expect(usual.system).toEqual([{ type: 'text', text: 'You add.', cache_control: mark }])
  expect(usual.ends).toEqual([null, mark, mark])
  const hour = await marked('hour', { promptCache: '1h' })
  expect(hour.ends.at(-1)).toEqual({ ...mark, ttl: '1h' })
  const none = await marked('none', { promptCache: false })
  expect([none.system, none.ends.at(-1), none.tools.at(-1)]).toEqual(['You add.', null, null])
  await rp.close()
})
