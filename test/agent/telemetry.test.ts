// What agents did, exported from history as spans: once over restarts, outages of the receiver and kills of the exporter.

import { spawn } from 'node:child_process'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { exportSessions } from '../../src/adapters/otel/index.ts'
import { open } from '../../src/index.ts'
import { agent, tool } from '../../src/layers/agent/index.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { programPath } from '../support/programs.ts'

interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: readonly { key: string; value: Record<string, unknown> }[]
  readonly events: readonly { name: string }[]
  readonly status: { code?: number; message?: string }
}

const ends: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

/** A receiver of OTLP over HTTP. `answer` returns the status of the next answer; `onBatch` is called before it. */
async function startReceiver() {
  const batches: Span[][] = []
  const receiver = { batches, answer: () => 200, onBatch: () => {}, url: '' }
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (piece) => {
      body += piece
    })
    request.on('end', () => {
      const status = receiver.answer()
      if (status === 200) batches.push(JSON.parse(body).resourceSpans[0].scopeSpans[0].spans)
      receiver.onBatch()
      response.writeHead(status).end('{}')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  ends.push(() => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(resolve))
  })
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces`
  return receiver
}

const attributeOf = (span: Span, key: string) => {
  const found = span.attributes.find((each) => each.key === key)
  return found && Object.values(found.value)[0]
}
const idsOf = (spans: readonly Span[]) => spans.map(({ spanId }) => spanId)

it('C11 the turns, calls, tools, rollbacks and cost of a session are spans, each exported once over restarts', async () => {
  const folder = temporaryFolder('telemetry')
  const receiver = await startReceiver()
  let isBroken = false
  const clerk = agent('clerk', {
    model: ({ messages }) =>
      messages.at(-1)!.role === 'tool'
        ? { content: 'done', usage: { inputTokens: 20, outputTokens: 2, cacheReadTokens: 15, cost: 0.2 } }
        : {
            content: '',
            requests: [{ tool: 'look', args: {} }],
            usage: { inputTokens: 10, outputTokens: 1, cost: 0.1 },
          },
    tools: {
      look: tool({
        kind: 'read-only',
        retry: { attempts: 1 },
        run: () => {
          if (isBroken) throw new Error('the shop is closed')
          return 'seen'
        },
      }),
    },
  })
  const url = `sqlite:${join(folder, 'a.db')}`
  const first = await open(url)
  const session = await first.open(clerk, 's')
  await session.turn('look')
  const before = await exportSessions(first, { url: receiver.url })
  await before.catchUp()
  isBroken = true
  await session.turn('look again')
  await session.rollback({ to: 1 })
  await before.close()
  await session.close()
  await first.close()

  const second = await open(url)
  ends.push(() => second.close())
  // The receiver is away, then busy: the export waits, and loses nothing.
  const answers = [503, 429]
  receiver.answer = () => answers.shift() ?? 200
  const after = await exportSessions(second, { url: receiver.url })
  await after.catchUp()
  isBroken = false
  const again = await second.open(clerk, 's')
  await again.turn('third')
  await after.catchUp()

  const spans = receiver.batches.flat()
  expect(new Set(idsOf(spans)).size).toBe(spans.length)
  const named = (name: string) => spans.filter((span) => span.name === name)
  expect(named('invoke_agent clerk').length).toBeGreaterThanOrEqual(2)
  expect(named('rollback clerk')).toHaveLength(1)
  const [turn] = named('invoke_agent clerk')
  expect(attributeOf(turn!, 'gen_ai.conversation.id')).toBe('agent/clerk/s')
  expect([attributeOf(turn!, 'gen_ai.usage.input_tokens'), attributeOf(turn!, 'gen_ai.usage.output_tokens')]).toEqual([
    '30',
    '3',
  ])
  expect(attributeOf(turn!, 'gen_ai.usage.cache_read.input_tokens')).toBe('15')
  expect(Number(attributeOf(turn!, 'reprise.cost'))).toBeCloseTo(0.3)
  const below = spans.filter(({ parentSpanId }) => parentSpanId === turn!.spanId)
  expect(below.map(({ name }) => name)).toEqual(['chat', 'execute_tool look', 'chat'])
  for (const span of below) {
    expect(span.traceId).toBe(turn!.traceId)
    expect(BigInt(span.startTimeUnixNano) >= BigInt(turn!.startTimeUnixNano)).toBe(true)
    expect(BigInt(span.endTimeUnixNano) <= BigInt(turn!.endTimeUnixNano)).toBe(true)
  }
})

it('C11 an exporter that is killed before its position moves repeats one batch, with the same spans', async () => {
  const folder = temporaryFolder('telemetry')
  const receiver = await startReceiver()
  const url = `sqlite:${join(folder, 'a.db')}`
  const run = async (args: readonly string[], started?: (kill: () => void) => void) => {
    const child = spawn(process.execPath, [programPath('agent-telemetry'), url, ...args], {
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    started?.(() => child.kill('SIGKILL'))
    return await new Promise((resolve) => child.on('exit', (code, signal) => resolve(signal ?? code)))
  }
  expect(await run(['turns', '3'])).toBe(0)
  const killed = await run(['export', receiver.url], (kill) => {
    receiver.onBatch = kill
  })
  expect(killed).toBe('SIGKILL')
  receiver.onBatch = () => {}
  const seen = idsOf(receiver.batches.flat())
  expect(await run(['turns', '1'])).toBe(0)
  expect(await run(['export', receiver.url])).toBe(0)
  const all = receiver.batches.flat()
  const names = new Map(all.map(({ spanId, name }) => [spanId, name]))
  // Four turns of four spans: none is missing, and only those of the killed batch came twice, unchanged.
  expect(names.size).toBe(16)
  const twice = idsOf(all).filter((id, i) => idsOf(all).indexOf(id) !== i)
  expect(twice.every((id) => seen.includes(id))).toBe(true)
  for (const id of twice) {
    const [one, two] = all.filter(({ spanId }) => spanId === id)
    expect(two).toEqual(one)
  }
  // Nothing is left to export.
  expect(await run(['export', receiver.url])).toBe(0)
  expect(receiver.batches.flat()).toHaveLength(all.length)
})

it('C11 a receiver that refuses is named, and nothing is lost', async () => {
  const receiver = await startReceiver()
  receiver.answer = () => 401
  const rp = await open('memory:')
  ends.push(() => rp.close())
  const session = await rp.open(agent('clerk', { model: () => ({ content: 'hi' }) }), 's')
  await session.turn('hello')
  const telemetry = await exportSessions(rp, { url: receiver.url })
  await expect(telemetry.catchUp()).rejects.toMatchObject({
    code: 'QUEUE_REFUSED',
    message: expect.stringContaining('401'),
  })
  receiver.answer = () => 200
  await telemetry.catchUp().catch(() => telemetry.catchUp())
  expect(receiver.batches.flat().map(({ name }) => name)).toEqual(['chat', 'invoke_agent clerk'])
  await expect(exportSessions(rp, { url: 'nowhere' })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  await expect(exportSessions(rp, null as never)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
})
