// The tokens of one model call: older turns are summarized in a recorded call, and what does not fit waits for a person.

import { expect, it } from 'vitest'
import { agent, type Message, type ModelCall, replaySession } from '../../src/layers/agent/index.ts'
import { onEveryStore } from '../support/worlds.ts'

const longText = 'x'.repeat(300)

/** Answers at length, and records the texts of each request. */
function makeModel() {
  const requests: string[][] = []
  const summaries: string[] = []
  const model = ({ messages, key }: ModelCall<null>) => {
    const texts = messages.map(({ content }: Message) => String(content))
    const isSummary = texts.at(-1)!.startsWith('Summarize the conversation')
    if (isSummary) summaries.push(key)
    else requests.push(texts)
    const usage = { inputTokens: 10, outputTokens: 1, cost: 1 }
    return { content: isSummary ? `in short: ${texts.length - 1} messages` : longText, usage }
  }
  return { model, requests, summaries }
}

onEveryStore('C11 the context of a model call', (world) => {
  it('has at most the given tokens: older turns are summarized once, and stay in the session', async () => {
    const w = await world()
    const { model, requests, summaries } = makeModel()
    const definition = agent('clerk', { model, context: { tokensMax: 350, keepTurns: 1 } })
    const session = await (await w.engine()).open(definition, 's')
    for (let n = 1; n <= 5; n++) await session.turn(`question ${n}`)
    // 100 tokens for each answer: the fifth question, with four answers before it, would be too large.
    expect(requests[4]).toEqual([
      'Summary of the conversation so far:\nin short: 6 messages',
      ...['question 4', longText, 'question 5'],
    ])
    expect(summaries).toHaveLength(1)
    expect(session.messages).toHaveLength(10)
    expect(session.usage).toMatchObject({ cost: 6 })
    await session.close()
    const rp = await w.engine()
    const again = await rp.open(definition, 's')
    await again.turn('question 6')
    expect(summaries).toHaveLength(1)
    expect(requests[5]![0]).toBe(requests[4]![0])
    // A rollback to before the summary sends the original messages again.
    await again.rollback({ to: 2 })
    await again.turn('another')
    expect(requests[6]).toEqual(['question 1', longText, 'question 2', longText, 'another'])
    expect(await replaySession(rp, definition, 's')).toMatchObject({ isExact: true })
  })

  it('is handed over to a person, without a call, if the summary does not make it small enough', async () => {
    const w = await world()
    const { model, requests, summaries } = makeModel()
    const definition = agent('clerk', { model, context: { tokensMax: 250, keepTurns: 0 } })
    const session = await (await w.engine()).open(definition, 's')
    await session.turn('question 1')
    const { status, waiting } = await session.turn('y'.repeat(900))
    expect({ status, waiting }).toMatchObject({
      status: 'waiting',
      waiting: { kind: 'handover', reason: expect.stringMatching(/about \d+ tokens of at most 250/) },
    })
    expect([requests.length, summaries.length]).toEqual([1, 1])
    // The person may overrule it for this turn.
    await session.approve('ann')
    expect(await session.resume()).toMatchObject({ status: 'completed' })
    expect([requests.length, summaries.length]).toEqual([2, 1])
  })

  it('repeats a summary whose outcome a crash left unknown, under the same key', async () => {
    const w = await world()
    const { model, summaries } = makeModel()
    const keys: string[] = []
    let answerLate = () => {}
    const definition = agent('clerk', {
      model,
      context: {
        tokensMax: 200,
        keepTurns: 0,
        summarize(call) {
          keys.push(call.key)
          if (keys.length > 1) return { content: 'short' }
          return new Promise((resolve) => {
            answerLate = () => resolve({ content: 'late' })
          })
        },
      },
    })
    const engine = await w.engine()
    const session = await engine.open(definition, 's')
    for (let n = 1; n <= 2; n++) await session.turn(`question ${n}`)
    void session.turn('question 3').catch(() => undefined)
    await expect.poll(() => keys.length, { timeout: 20_000 }).toBe(1)
    const next = await (await w.engine()).open(definition, 's', { takeover: true })
    expect(await next.resume()).toMatchObject({ turn: 3, status: 'completed' })
    expect(keys).toEqual([keys[0], keys[0]])
    expect(summaries).toEqual([])
    // The first process was fenced: its answer counts no more.
    answerLate()
    expect(next.state.summary?.content).toBe('short')
  })
})

it('C11 a wrong context is refused with what it must be', () => {
  const make = (context: unknown) => () => agent('clerk', { context } as never)
  expect(make({})).toThrow(/tokensMax must be a whole number of at least 1/)
  expect(make({ tokensMax: 0 })).toThrow(/tokensMax/)
  expect(make({ tokensMax: 9, keepTurns: -1 })).toThrow(/keepTurns/)
  expect(make({ tokensMax: 9, summarize: 5 })).toThrow(/summarize/)
  expect(make({ tokensMax: 9, other: 5 })).toThrow(/other/)
  expect(make({ tokensMax: 9, summarize: false })).not.toThrow()
})
