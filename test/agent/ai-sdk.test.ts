// The Vercel AI SDK, the real package, against a scripted model server: recorded once, replayed after a restart.

import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, stepCountIs, streamText, tool, wrapLanguageModel } from 'ai'
import { afterEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import aiSdkExamples from '../../examples/api/ai-sdk.ts'
import { type Recorder, record } from '../../src/adapters/ai-sdk/index.ts'
import { runExamples } from '../support/examples.ts'
import { onEveryStore } from '../support/worlds.ts'
import { type ModelServer, type ScriptedAnswer, startModelServer } from './model-server.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })
const definition = record('chat')

let server: ModelServer | undefined
afterEach(async () => {
  await server?.close()
  server = undefined
})

const isAfterTool = (request: { messages: readonly { role: string }[] }) => request.messages.at(-1)?.role === 'tool'

async function serve(cents: () => number): Promise<ModelServer> {
  const script = (request: { messages: readonly { role: string }[] }): ScriptedAnswer =>
    isAfterTool(request)
      ? { text: 'refunded it' }
      : { calls: [{ id: 'call-1', name: 'refund', args: { cents: cents() } }] }
  server = await startModelServer(script)
  return server
}

function modelOf(url: string, recorder: Recorder) {
  const model = createOpenAICompatible({ name: 'scripted', baseURL: url })('scripted')
  return wrapLanguageModel({ model, middleware: recorder.middleware })
}

function toolsOf(recorder: Recorder, refunds: { cents: number; key: string }[], undone: string[] = []) {
  const refund = tool({
    inputSchema: z.object({ cents: z.number() }),
    execute: async ({ cents }, { experimental_context }) => {
      const key = (experimental_context as { idempotencyKey: string }).idempotencyKey
      refunds.push({ cents, key })
      return { id: key }
    },
  })
  const compensate = (_input: { cents: number }, output: { id: string }) => undone.push(output.id)
  return recorder.tools({ refund }, { refund: { kind: 'compensatable', compensate } })
}

describe('the AI SDK', () => {
  onEveryStore(
    'C11 a recorded run',
    (world) => {
      it('calls model and tools once, and gives the recorded answers when the program runs again', async () => {
        const w = await world()
        const { url } = await serve(() => 500)
        const refunds: { cents: number; key: string }[] = []
        const run = async () => {
          const recorder = await (await w.engine()).open(definition, 'one')
          const tools = toolsOf(recorder, refunds)
          const result = await generateText({
            model: modelOf(url, recorder),
            prompt: 'refund',
            tools,
            stopWhen: stepCountIs(4),
          })
          await recorder.close()
          return result
        }
        const first = await run()
        const second = await run()
        expect(first.text).toBe('refunded it')
        expect(second.text).toBe(first.text)
        expect(second.totalUsage).toEqual(first.totalUsage)
        expect(server!.requests).toBe(2)
        expect(refunds).toHaveLength(1)
      })

      it('refuses a call that is almost one on record instead of charging a second time, and undoes by plan', async () => {
        const w = await world()
        let cents = 500
        const { url } = await serve(() => cents)
        const refunds: { cents: number; key: string }[] = []
        const undone: string[] = []
        const first = await (await w.engine()).open(definition, 'two')
        await generateText({
          model: modelOf(url, first),
          prompt: 'refund',
          tools: toolsOf(first, refunds),
          stopWhen: stepCountIs(4),
        })
        await first.close()
        cents = 501
        const second = await (await w.engine()).open(definition, 'two')
        const tools = toolsOf(second, refunds, undone)
        // The prompt differs, so the model is called again and requests a slightly different tool call.
        const result = await generateText({
          model: modelOf(url, second),
          prompt: 'refund!',
          tools,
          stopWhen: stepCountIs(1),
        })
        const failed = result.content.find((part) => part.type === 'tool-error')
        expect(failed?.error).toEqual(code('CONFLICT'))
        expect(refunds).toHaveLength(1)
        expect((await second.undo()).undone).toHaveLength(1)
        expect(undone).toEqual([refunds[0]!.key])
      })

      it('continues after a rollback: the model is called again, undone calls are made again, kept ones are not', async () => {
        const w = await world()
        const done: string[] = []
        const toolsFor = (recorder: Recorder) => {
          const inputSchema = z.object({ to: z.string() })
          const acting = (name: string) =>
            tool({ inputSchema, execute: async ({ to }) => `${name} ${to} ${done.push(`${name} ${to}`)}` })
          return recorder.tools(
            { book: acting('book'), mail: acting('mail') },
            {
              book: { kind: 'compensatable', compensate: ({ to }: { to: string }) => done.push(`unbook ${to}`) },
              mail: { kind: 'irreversible' },
            },
          )
        }
        const { url } = await startServer()
        const run = async (recorder: Recorder) => {
          const tools = toolsFor(recorder)
          return await generateText({ model: modelOf(url, recorder), prompt: 'go', tools, stopWhen: stepCountIs(4) })
        }
        const recorder = await (await w.engine()).open(definition, 'rolled')
        await run(recorder)
        expect(done).toEqual(['book a', 'mail a'])
        expect(await recorder.undo()).toMatchObject({ undone: [expect.any(String)], cannot: [expect.any(String)] })
        // In the same process: a different booking; the mail is out, and is not sent again.
        const again = await run(recorder)
        expect(again.text).toBe('done')
        expect(done).toEqual(['book a', 'mail a', 'unbook a', 'book b'])
        expect(server!.requests).toBe(4)
        // In another one: everything from the record.
        await recorder.close()
        const second = await (await w.engine()).open(definition, 'rolled')
        expect((await run(second)).text).toBe('done')
        expect(done).toHaveLength(4)
        expect(server!.requests).toBe(4)
        // And once more.
        expect(await second.undo()).toMatchObject({ undone: [expect.any(String)], cannot: [expect.any(String)] })
        await run(second)
        expect(done.slice(4)).toEqual(['unbook b', 'book c'])

        async function startServer(): Promise<ModelServer> {
          let runs = 0
          server = await startModelServer((request) => {
            if (isAfterTool(request)) return { text: 'done' }
            const to = 'abc'[runs++]!
            const call = (name: string, where: string) => ({ id: `call-${name}`, name, args: { to: where } })
            return { calls: [call('book', to), call('mail', 'a')] }
          })
          return server
        }
      })

      it('finishes a rollback that was cut off before anything else', async () => {
        const w = await world()
        const { url } = await serve(() => 500)
        const refunds: { cents: number; key: string }[] = []
        const first = await (await w.engine()).open(definition, 'cut')
        const options = (recorder: Recorder, undone: string[]) => ({
          model: modelOf(url, recorder),
          prompt: 'refund',
          tools: toolsOf(recorder, refunds, undone),
          stopWhen: stepCountIs(4),
        })
        await generateText(options(first, []))
        first.tools(
          { refund: tool({ inputSchema: z.object({}), execute: async () => 1 }) },
          {
            refund: {
              kind: 'compensatable',
              compensate: () => {
                throw new Error('the bank is closed')
              },
            },
          },
        )
        await expect(first.undo()).rejects.toThrow('the bank is closed')
        await first.close()
        const second = await (await w.engine()).open(definition, 'cut')
        const undone: string[] = []
        const asked = options(second, undone)
        await expect(generateText({ ...asked, maxRetries: 0 })).rejects.toEqual(code('CONFLICT'))
        expect((await second.undo()).undone).toHaveLength(1)
        expect((await generateText(asked)).text).toBe('refunded it')
        expect(refunds).toHaveLength(2)
        expect(refunds[0]!.key).not.toBe(refunds[1]!.key)
      })

      it('keeps reading a stream whose client disconnected, records it completely, and replays it without a request', async () => {
        const w = await world()
        const text = Array.from({ length: 30 }, (_, i) => `word-${i} `).join('')
        server = await startModelServer(() => ({ text }))
        const { url } = server
        const first = await (await w.engine()).open(definition, 'stream')
        const started = streamText({ model: modelOf(url, first), prompt: 'go' })
        let seen = ''
        for await (const piece of started.textStream) {
          seen += piece
          if (seen.length > 20) break
        }
        await first.close()
        const second = await (await w.engine()).open(definition, 'stream')
        expect(await streamText({ model: modelOf(url, second), prompt: 'go' }).text).toBe(text)
        expect(server.requests).toBe(1)
      })
    },
    ['memory', 'sqlite', 'postgres'],
  )
})

runExamples('reprise/ai-sdk', aiSdkExamples)
