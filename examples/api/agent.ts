// Examples of `reprise/agent`. The models here answer by rule, so that the examples run without a service.

import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  agent,
  anthropicModel,
  compareSessions,
  evaluateSession,
  GiveUp,
  groupRecoveryLine,
  logOf,
  ModelHttpError,
  mergeBranch,
  noLoops,
  openAIModel,
  RetryLater,
  readCut,
  readTurn,
  replaySession,
  restoreCut,
  sendDecision,
  tool,
  withinBudget,
} from 'reprise/agent'
import { example } from './example.ts'

const echo = agent('echo', { initial: () => ({ order: '' }), model: () => ({ content: 'Hello' }) })

/** Requests a refund, and reports its completion. */
const undone: string[] = []
const refund = tool({
  kind: 'compensatable',
  approve: ({ cents }: { cents: number }) => cents > 1000,
  run: ({ cents }: { cents: number }, { key }) => ({ id: `${key}-${cents}` }),
  compensate: (_args, result) => void undone.push(result.id),
})
const support = agent('support', {
  tools: { refund },
  model: ({ messages }) => {
    const last = messages.at(-1)!
    if (last.role === 'tool') return { content: 'It is refunded.' }
    return { content: '', requests: [{ tool: 'refund', args: { cents: Number(last.content) } }] }
  },
})

export default [
  example(['agent', 'Session.turn', 'Session.close'], async (rp) => {
    const session = await rp.open(echo, 'ticket-42')
    const result = await session.turn('Hi')
    assert.equal(result.status, 'completed')
    assert.equal(session.messages.length, 2)
    await session.close()
  }),
  example(['tool', 'Session.use', 'Session.planRollback', 'Session.rollback'], async (rp) => {
    const session = await rp.open(support, 'ticket-1')
    await session.turn('500')
    await session.use('refund', { cents: 700 })
    console.assert(session.planRollback({ to: 0 }).compensate.length > 0)
    await session.rollback({ to: 0 })
    assert.ok(undone.length > 0)
    await session.rollback({ to: { seq: session.coordinate.seq } })
  }),
  example(['logOf'], async (rp) => {
    const told: unknown[] = []
    const keep = (message: string, fields?: object) => void told.push({ message, ...fields })
    const look = tool({
      kind: 'read-only',
      run: (_: object, call) => logOf(call, { debug: keep, info: keep, warn: keep, error: keep }).info('looks'),
    })
    const session = await rp.open(agent('looker', { tools: { look } }), 'one')
    await session.use('look', {})
    assert.deepEqual(told, [{ message: 'looks', session: 'agent/looker/one', turn: 0, tool: 'look', attempt: 1 }])
    await session.close()
  }),
  example(['Session.approve', 'Session.refuse', 'Session.decide', 'Session.resume', 'sendDecision'], async (rp) => {
    const session = await rp.open(support, 'ticket-1')
    assert.equal((await session.turn('5000')).status, 'waiting')
    await session.approve('ann')
    assert.equal((await session.resume()).status, 'completed')
    await session.turn('6000')
    await session.refuse('ann', 'too much')
    await session.resume()
    await session.turn('7000')
    await session.decide('refuse', 'ann', { reason: 'too much' })
    await session.resume()
    // From any process that can reach the store, also while another process has the session open.
    await session.turn('8000')
    await sendDecision(rp, 'agent/support/ticket-1', { verdict: 'refuse', by: 'ann' })
    await session.resume()
  }),
  example(
    ['Session.edit', 'Session.note', 'Session.setPlan', 'Session.configure', 'Session.interrupt', 'Session.checkpoint'],
    async (rp) => {
      const session = await rp.open(echo, 'ticket-42')
      await session.edit((data) => ({ ...data, order: 'o-7' }))
      await session.note('the customer is in a hurry')
      await session.setPlan(['look', 'refund'])
      await session.configure({ prompt: 'Be brief.' })
      await session.interrupt('a person takes over')
      await session.checkpoint()
      assert.equal(session.data.order, 'o-7')
    },
  ),
  example(['Session.fork', 'compareSessions', 'mergeBranch'], async (rp) => {
    const main = await rp.open(echo, 'main')
    await main.turn('Hi')
    await main.fork('gentle')
    const gentle = await rp.open(echo, 'gentle')
    await gentle.turn('Please')
    await gentle.close()
    await main.close()
    const { a, b } = await compareSessions(rp, echo, 'main', 'gentle')
    assert.deepEqual([a.turns, b.turns], [1, 2])
    await mergeBranch(rp, echo, 'main', 'gentle')
    assert.equal((await rp.open(echo, 'main')).messages.length, 4)
  }),
  example(['replaySession', 'evaluateSession', 'readTurn'], async (rp) => {
    const session = await rp.open(echo, 'ticket-42')
    await session.turn('Hi')
    await session.close()
    assert.equal((await replaySession(rp, echo, 'ticket-42')).isExact, true)
    const other = await evaluateSession(rp, echo, 'ticket-42', { model: () => ({ content: 'Good day' }) })
    assert.equal(other.steps[0]!.isSameContent, false)
    for await (const event of readTurn(rp, echo, 'ticket-42', { turn: 1 })) if (event.kind === 'end') break
  }),
  example(
    ['Session.send', 'Session.receive', 'Session.captureCut', 'readCut', 'restoreCut', 'groupRecoveryLine'],
    async (rp) => {
      const [a, b] = [await rp.open(echo, 'a'), await rp.open(echo, 'b')]
      await a.send('b', 'Look at order 7')
      assert.equal((await b.receive())[0]!.content, 'Look at order 7')
      await a.captureCut('before', ['a', 'b'])
      assert.equal((await readCut(rp, echo, 'before')).isComplete, true)
      await a.close()
      await b.close()
      await restoreCut(rp, echo, 'before')
      console.assert((await groupRecoveryLine(rp, echo, ['a', 'b'])) !== null)
    },
  ),
  example(['Session.captureWorkspace', 'Session.restoreWorkspace'], async (rp, folder) => {
    const directory = join(folder, 'work')
    mkdirSync(directory)
    writeFileSync(join(directory, 'draft.md'), '# Draft')
    const session = await rp.open(echo, 'writer')
    await session.captureWorkspace({ directory })
    writeFileSync(join(directory, 'draft.md'), '# Broken')
    await session.restoreWorkspace({ directory })
  }),
  example(['withinBudget', 'noLoops'], async (rp) => {
    const careful = agent('careful', {
      model: () => ({ content: 'Hello', usage: { inputTokens: 10, outputTokens: 5, cost: 0.01 } }),
      guardrails: [withinBudget({ turnCost: 0.5 }), noLoops({ repeatsMax: 3 })],
    })
    assert.equal((await rp.open(careful, 'c').turn('Hi')).status, 'completed')
  }),
  example(['RetryLater', 'GiveUp'], async (rp) => {
    let calls = 0
    const busy = agent('busy', {
      model: () => {
        calls += 1
        if (calls === 1) throw new RetryLater('1ms', 'the service asked us to slow down')
        if (calls > 5) throw new GiveUp('no model is there')
        return { content: 'Hello' }
      },
    })
    assert.equal((await rp.open(busy, 'b').turn('Hi')).status, 'completed')
  }),
  example(
    ['anthropicModel', 'openAIModel', 'ModelHttpError'],
    async (rp) => {
      const key = process.env.MODEL_KEY!
      const claude = agent('claude', { model: anthropicModel({ model: 'claude-sonnet-4-5', apiKey: key }) })
      const gpt = agent('gpt', { model: openAIModel({ model: 'gpt-5', apiKey: key }) })
      await rp.open(gpt, 's').turn('Hi')
      try {
        await rp.open(claude, 's').turn('Hi')
      } catch (error) {
        if (error instanceof ModelHttpError) console.error(error.status, error.body)
      }
    },
    'compiled',
  ),
]
