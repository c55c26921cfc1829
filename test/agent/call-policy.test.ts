// Calls that fail for a while, hang, or keep failing; and calls of one answer that run beside one another.

import { describe, expect, it, vi } from 'vitest'
import { agent, GiveUp, type LanguageModel, RetryLater, readTurn, tool } from '../../src/layers/agent/index.ts'
import { handClock } from '../support/hand-clock.ts'
import { onEveryStore } from '../support/worlds.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })
const quick = { backoff: 1, backoffMax: 5 } as const
const httpError = (status: number, headers: Record<string, string> = {}) =>
  Object.assign(new Error(`status ${status}`), { status, headers })

/** Throws these, one a call, then answers. */
function failing(...errors: unknown[]): { model: LanguageModel<null>; keys: string[] } {
  const keys: string[] = []
  const model: LanguageModel<null> = ({ key }) => {
    keys.push(key)
    const error = errors[keys.length - 1]
    if (error) throw error
    return { content: 'done' }
  }
  return { model, keys }
}

const wanting =
  (...requests: { tool: string; args: unknown }[]): LanguageModel<null> =>
  ({ messages }) =>
    messages.at(-1)!.role === 'tool' ? { content: 'done' } : { content: '', requests }

describe('calls of a session', () => {
  onEveryStore(
    'C11 a model call',
    (world) => {
      it('that fails for a while is repeated, under the same key, and the turn continues', async () => {
        const w = await world()
        const reset = new TypeError('fetch failed', { cause: Object.assign(new Error(), { code: 'ECONNRESET' }) })
        const { model, keys } = failing(httpError(429, { 'retry-after': '0' }), httpError(503), reset)
        const session = await (await w.engine()).open(
          agent('a', { model, modelCalls: { retry: { ...quick, attempts: 4 } } }),
          's',
        )
        expect(await session.turn('go')).toMatchObject({ status: 'completed', content: 'done' })
        expect(keys).toHaveLength(4)
        expect(new Set(keys).size).toBe(1)
        expect(session.state.calls.get('00000001.0000')).toMatchObject({ state: 'done', attempt: 4 })
      })

      it('that fails for good, or too often, is reported; the turn can be resumed', async () => {
        const w = await world()
        const rp = await w.engine()
        for (const [errors, calls] of [
          [[httpError(400)], 1],
          [[new GiveUp('no')], 1],
          [[httpError(529), httpError(529), httpError(529)], 3],
          [[httpError(429, { 'retry-after': '3601' })], 1],
        ] as const) {
          const { model, keys } = failing(...errors)
          const name = `a${calls}-${(errors[0] as Error).message.replaceAll(' ', '')}`
          const session = await rp.open(agent(name, { model, modelCalls: { retry: quick } }), `${Math.random()}`)
          await expect(session.turn('go')).rejects.toBe(errors[calls - 1])
          expect(keys).toHaveLength(calls)
          expect(await session.resume()).toMatchObject({ status: 'completed' })
        }
      })

      it('with a retry time is repeated then, any number of times', async () => {
        const w = await world()
        const { model, keys } = failing(...Array.from({ length: 9 }, () => new RetryLater(1)))
        const session = await (await w.engine()).open(agent('a', { model }), 's')
        expect(await session.turn('go')).toMatchObject({ status: 'completed' })
        expect(keys).toHaveLength(10)
      })

      it('that is silent for too long is given up and made again; one that streams is not silent', async () => {
        const w = await world()
        const time = handClock(1000)
        const signals: (AbortSignal | undefined)[] = []
        const definition = agent('a', {
          modelCalls: { timeout: '1m', retry: quick },
          async *model({ signal }) {
            signals.push(signal)
            if (signals.length === 1) {
              yield { text: 'cut ' }
              setTimeout(() => time.pass(60_000), 1)
              await new Promise(() => undefined)
            }
            for (let i = 0; i < 8; i++) {
              time.pass(50_000)
              yield { text: `${i} ` }
            }
          },
        })
        const rp = await w.engine({ ports: { clock: time.clock } })
        const session = await rp.open(definition, 's')
        expect(await session.turn('go')).toMatchObject({ status: 'completed', content: '0 1 2 3 4 5 6 7 ' })
        expect(signals.map((signal) => signal?.aborted)).toEqual([true, false])
        const texts: string[] = []
        for await (const event of readTurn(rp, definition, 's', { turn: 1 })) {
          if (event.kind === 'text') texts.push(event.text)
        }
        expect(texts.join('')).toBe('0 1 2 3 4 5 6 7 ')
      })

      it('is not made while its breaker is open, for all sessions, and is let through again', async () => {
        const w = await world()
        const time = handClock(1000)
        let isDown = true
        let asked = 0
        const definition = agent('a', {
          modelCalls: { retry: { ...quick, attempts: 2 }, breaker: { failures: 3, pause: '1h' } },
          model: () => {
            asked += 1
            if (isDown) throw httpError(500)
            return { content: 'up' }
          },
        })
        const rp = await w.engine({ ports: { clock: time.clock } })
        const one = await rp.open(definition, 'one')
        const two = await rp.open(definition, 'two')
        await expect(one.turn('go')).rejects.toMatchObject({ status: 500 })
        await expect(two.turn('go')).rejects.toEqual(code('CALLS_SUSPENDED'))
        await expect(one.resume()).rejects.toEqual(code('CALLS_SUSPENDED'))
        expect(asked).toBe(3)
        isDown = false
        time.pass(3_600_000)
        expect(await one.resume()).toMatchObject({ status: 'completed', content: 'up' })
        expect(await two.resume()).toMatchObject({ status: 'completed', content: 'up' })
        expect(asked).toBe(5)
      })

      it('whose pause a dead process started is made when the pause is over, and keeps counting', async () => {
        const w = await world()
        const time = handClock(1000)
        const calls: string[] = []
        const failing =
          (name: string) =>
          (_: unknown, { attempt }: { attempt: number }) => {
            calls.push(`${name} ${attempt}`)
            if (attempt === 1) throw new RetryLater('2h')
            throw httpError(503)
          }
        const definition = agent('a', {
          modelCalls: { retry: { attempts: 2, backoff: '1h', backoffMax: '1h', jitter: 0 } },
          tools: {
            pay: tool({ kind: 'irreversible', retry: { attempts: 1 }, run: failing('pay') }),
          },
          model: ({ messages, attempt }) => {
            if (messages.at(-1)!.role === 'tool') return { content: 'done' }
            calls.push(`model ${attempt}`)
            if (attempt === 1) throw httpError(503)
            if (attempt === 2) throw new RetryLater('2h')
            return { content: '', requests: [{ tool: 'pay', args: null }] }
          },
        })
        const settled = () => new Promise((resolve) => setTimeout(resolve, 20))
        for (const soFar of [['model 1'], ['model 2'], ['model 3', 'pay 1'], ['pay 2']]) {
          calls.length = 0
          const rp = await w.engine({ ports: { clock: time.clock } })
          const session = await rp.open(definition, 's', { takeover: true })
          const going = session.state.turn === 0 ? session.turn('go') : session.resume()
          going.catch(() => undefined)
          if (soFar[0] !== 'model 1') {
            // Begun by another: it is not made before its time.
            await settled()
            expect(calls).toEqual([])
            time.pass(3_600_000 * (soFar[0] === 'model 2' ? 1 : 2))
          }
          await vi.waitFor(() => expect(calls).toEqual(soFar), 120_000)
          await settled()
          if (soFar[0] === 'pay 2') expect(await going).toMatchObject({ status: 'completed' })
        }
      })

      it('that is given up in a pause ends at once', async () => {
        const w = await world()
        const controller = new AbortController()
        const definition = agent('a', {
          modelCalls: { retry: { backoff: '1h', backoffMax: '1h' } },
          model: () => {
            setTimeout(() => controller.abort(), 5)
            throw httpError(500)
          },
        })
        const session = await (await w.engine()).open(definition, 's')
        await expect(session.turn('go', { signal: controller.signal })).rejects.toEqual(code('ABORTED'))
      })
    },
    ['memory'],
  )

  onEveryStore(
    'C11 a tool call',
    (world) => {
      it('is retried as declared, under the same key, and its last failure is returned to the model', async () => {
        const w = await world()
        const keys: string[] = []
        const flaky = tool({
          kind: 'idempotent',
          retry: { ...quick, attempts: 3 },
          run: (failures: number, { key }) => {
            keys.push(key)
            if (keys.filter((one) => one === key).length <= failures) throw new Error('not yet')
            return 'ok'
          },
        })
        const definition = agent('a', {
          tools: { flaky },
          model: wanting({ tool: 'flaky', args: 2 }, { tool: 'flaky', args: 9 }),
        })
        const session = await (await w.engine()).open(definition, 's')
        expect(await session.turn('go')).toMatchObject({ status: 'completed' })
        const answers = session.messages.filter((message) => message.role === 'tool')
        expect(answers).toMatchObject([{ content: 'ok' }, { content: 'not yet', isError: true }])
        expect(keys).toHaveLength(6)
        expect(new Set(keys).size).toBe(2)
      })

      it('that hangs is in doubt when it may have happened, and reported to the model when it may be repeated', async () => {
        const w = await world()
        const hang = () => new Promise<never>(() => undefined)
        const definition = agent('a', {
          tools: {
            look: tool({ kind: 'read-only', timeout: 10, retry: quick, run: hang }),
            probed: tool({
              kind: 'irreversible',
              timeout: 10,
              run: hang,
              probe: async () => ({ happened: true as const, result: 'it did' }),
            }),
            pay: tool({ kind: 'irreversible', timeout: 10, run: hang }),
          },
          model: wanting({ tool: 'look', args: 1 }, { tool: 'probed', args: 1 }, { tool: 'pay', args: 1 }),
        })
        const session = await (await w.engine()).open(definition, 's')
        expect(await session.turn('go')).toMatchObject({ waiting: { kind: 'in-doubt', tool: 'pay' } })
        const answers = session.messages.filter((message) => message.role === 'tool')
        expect(answers).toMatchObject([{ isError: true }, { content: 'it did' }])
        await session.decide('done', 'ann', { result: 'paid' })
        expect(await session.resume()).toMatchObject({ status: 'completed' })
      })

      it('that may runs beside the others of its answer; one that acts waits for its turn', async () => {
        const w = await world()
        let running = 0
        const together: number[] = []
        const order: string[] = []
        // The earlier call is slower: the order of ends is not the order of the list.
        const acting = (name: string) => async (n: number) => {
          running += 1
          order.push(name)
          await new Promise((resolve) => setTimeout(resolve, 40 - 4 * n))
          together.push(running)
          running -= 1
          return name
        }
        const definition = agent('a', {
          tools: {
            look: tool({ kind: 'read-only', run: acting('look') }),
            note: tool({ kind: 'idempotent', parallel: true, run: acting('note') }),
            pay: tool({ kind: 'irreversible', run: acting('pay') }),
            alone: tool({ kind: 'read-only', parallel: false, run: acting('alone') }),
          },
          model: wanting(
            ...['look', 'note', 'look', 'pay', 'pay', 'look', 'look', 'alone'].map((name, i) => ({
              tool: name,
              args: i,
            })),
          ),
        })
        const session = await (await w.engine()).open(definition, 's')
        expect(await session.turn('go')).toMatchObject({ status: 'completed' })
        expect(Math.max(...together.slice(0, 3))).toBe(3)
        expect(order).toEqual(['look', 'note', 'look', 'pay', 'pay', 'look', 'look', 'alone'])
        expect(together[3]).toBe(1)
        expect(together.at(-1)).toBe(1)
        const answers = session.messages.filter((message) => message.role === 'tool')
        const places = answers.map((message) => message.answers)
        expect(places).toEqual(Array.from({ length: 8 }, (_, i) => `00000001.000${i + 1}`))
      })

      it('that fails beside others loses none of their results, and a crash repeats none of them', async () => {
        const w = await world()
        const runs: string[] = []
        const definition = agent('a', {
          tools: {
            good: tool({ kind: 'read-only', run: (n: number) => runs.push(`good ${n}`) }),
            bad: tool({
              kind: 'read-only',
              retry: quick,
              run: () => {
                throw new Error('broken')
              },
            }),
          },
          model: wanting({ tool: 'good', args: 1 }, { tool: 'bad', args: 2 }, { tool: 'good', args: 3 }),
        })
        const session = await (await w.engine()).open(definition, 's')
        expect(await session.turn('go')).toMatchObject({ status: 'completed' })
        expect(session.messages.filter((message) => message.isError)).toMatchObject([{ content: 'broken' }])
        expect(runs.sort()).toEqual(['good 1', 'good 3'])
      })
    },
    ['memory'],
  )
})
