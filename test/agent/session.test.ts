// Sessions on every store: turns, tools, replay after a crash, rollback, forks, approvals, guardrails.

import { describe, expect, it } from 'vitest'
import {
  agent,
  compareSessions,
  evaluateSession,
  type ModelCall,
  mergeBranch,
  noLoops,
  readTurn,
  replaySession,
  sendDecision,
  tool,
  withinBudget,
} from '../../src/layers/agent/index.ts'
import { pause } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

/** An outside service that remembers every request by its key. */
function makeBank() {
  const done = new Map<string, { cents: number; calls: number; isUndone: boolean }>()
  return {
    done,
    refund(cents: number, key: string) {
      const known = done.get(key)
      done.set(key, { cents, calls: (known?.calls ?? 0) + 1, isUndone: false })
      return { id: key, cents }
    },
    undo(id: string) {
      done.set(id, { ...done.get(id)!, isUndone: true })
    },
    get standing() {
      return [...done.values()].filter((one) => !one.isUndone).map((one) => one.cents)
    },
  }
}

type Script = (call: ModelCall<{ order: string }>) => { content: string; requests?: { tool: string; args: unknown }[] }

function makeAgent(bank: ReturnType<typeof makeBank>, script: Script, extra: object = {}) {
  let asked = 0
  const definition = agent('support', {
    initial: () => ({ order: 'none' }),
    model: (call: ModelCall<{ order: string }>) => {
      asked += 1
      return { ...script(call), usage: { inputTokens: 10, outputTokens: 5, cost: 0.01 } }
    },
    tools: {
      look: tool({ kind: 'read-only', run: (args: { order: string }) => ({ order: args.order, cents: 500 }) }),
      refund: tool({
        kind: 'compensatable',
        run: (args: { cents: number }, { key }) => bank.refund(args.cents, key),
        compensate: (_args, result) => bank.undo(result.id),
      }),
      mail: tool({
        kind: 'irreversible',
        run: (args: { text: string }, { key }) => bank.refund(args.text.length, key),
      }),
    },
    ...extra,
  })
  return { definition, asked: () => asked }
}

const last = (call: { messages: readonly { role: string; content: unknown }[] }) => call.messages.at(-1)!

/** Looks up, refunds, and reports the refund. */
const refunding: Script = (call) => {
  const { role, content } = last(call)
  if (role === 'user') return { content: '', requests: [{ tool: 'look', args: { order: String(content) } }] }
  const count = call.messages.filter((message) => message.role === 'tool').length
  if (count % 2 === 1) return { content: '', requests: [{ tool: 'refund', args: { cents: 500 } }] }
  return { content: 'refunded' }
}

describe('sessions', () => {
  onEveryStore('C11 a session', (world) => {
    it('runs turns with tools, accounts tokens and cost, and comes back whole', async () => {
      const w = await world()
      const bank = makeBank()
      const { definition, asked } = makeAgent(bank, refunding)
      const first = await w.engine()
      const session = await first.open(definition, 'ticket')
      expect(await session.turn('order-1')).toMatchObject({ turn: 1, status: 'completed', content: 'refunded' })
      await session.edit((data) => ({ ...data, order: 'order-1' }))
      await session.note('the customer is kind')
      await session.setPlan(['wait'])
      const before = session.messages
      expect(session.usage).toEqual({ inputTokens: 30, outputTokens: 15, cost: 0.03 })
      await session.checkpoint()
      await session.close()
      const again = await (await w.engine()).open(definition, 'ticket')
      expect(again.messages).toEqual(before)
      expect(again.data).toEqual({ order: 'order-1' })
      expect([...again.state.notes.values()]).toEqual(['the customer is kind'])
      expect(again.state.plan).toEqual(['wait'])
      expect(again.recovery.checkpoint).not.toBeNull()
      expect(asked()).toBe(3)
      expect(bank.standing).toEqual([500])
    })

    it('gives the same turn again for the same key, without asking or paying twice', async () => {
      const w = await world()
      const bank = makeBank()
      const { definition, asked } = makeAgent(bank, refunding)
      const session = await (await w.engine()).open(definition, 'twice')
      const first = await session.turn('order-1', { key: 'request-1' })
      expect(await session.turn('order-1', { key: 'request-1' })).toEqual(first)
      expect(session.state.turn).toBe(1)
      expect(asked()).toBe(3)
    })

    it('A9.2 rolls back by a plan: undoes in reverse what can be undone, names what cannot, and does not repeat that', async () => {
      const w = await world()
      const bank = makeBank()
      const script: Script = (call) => {
        if (last(call).role === 'tool') return { content: 'done' }
        return {
          content: '',
          requests: [
            { tool: 'refund', args: { cents: 100 } },
            { tool: 'mail', args: { text: 'sorry' } },
            { tool: 'refund', args: { cents: 200 } },
          ],
        }
      }
      const { definition } = makeAgent(bank, script)
      const session = await (await w.engine()).open(definition, 'back')
      await session.turn('hello')
      await session.turn('again')
      const undone: string[] = []
      const plan = session.planRollback({ to: 1 })
      expect(plan.compensate.map((call) => call.args)).toEqual([{ cents: 200 }, { cents: 100 }])
      expect(plan.cannot.map((call) => call.tool)).toEqual(['mail'])
      const { archive } = await session.rollback({ to: 1, settings: { prompt: 'be careful' }, reason: 'wrong' })
      undone.push(...[...bank.done.values()].filter((one) => one.isUndone).map((one) => String(one.cents)))
      expect(undone).toEqual(['100', '200'])
      expect(archive).toBe('agent/support/back~1')
      expect(session.state).toMatchObject({ turn: 1, settings: { prompt: 'be careful' } })
      const calls = bank.done.size
      await session.turn('again')
      // The mail is kept: its recorded result is used, and it is not sent a second time. The refunds are made again.
      expect(bank.done.size).toBe(calls + 2)
      expect(session.state.standing).toEqual([])
      expect(session.messages.filter((message) => message.turn === 2 && message.role === 'tool')).toHaveLength(3)
    })

    it("requests a person's decision when a restored session repeats almost the same call", async () => {
      const w = await world()
      const bank = makeBank()
      let text = 'sorry'
      const script: Script = (call) =>
        last(call).role === 'tool' ? { content: 'done' } : { content: '', requests: [{ tool: 'mail', args: { text } }] }
      const { definition } = makeAgent(bank, script)
      const session = await (await w.engine()).open(definition, 'similar')
      await session.turn('hello')
      await session.rollback({ to: 0 })
      text = 'so sorry'
      const waiting = await session.turn('hello')
      expect(waiting).toMatchObject({ status: 'waiting', waiting: { kind: 'conflict', tool: 'mail' } })
      expect(bank.done.size).toBe(1)
      await session.decide('replay', 'ann')
      expect(await session.resume()).toMatchObject({ status: 'completed', content: 'done' })
      expect(bank.done.size).toBe(1)
    })

    it('continues in a fork when the policy requires it, and the parent stays unchanged', async () => {
      const w = await world()
      const bank = makeBank()
      let text = 'sorry'
      const script: Script = (call) =>
        last(call).role === 'tool' ? { content: 'done' } : { content: '', requests: [{ tool: 'mail', args: { text } }] }
      const { definition } = makeAgent(bank, script, { similarCalls: 'fork' })
      const rp = await w.engine()
      const session = await rp.open(definition, 'forking')
      await session.turn('hello')
      await session.rollback({ to: 0 })
      text = 'so sorry'
      expect(await session.turn('hello')).toMatchObject({ status: 'waiting', waiting: { kind: 'conflict' } })
      const fork = await rp.open(definition, 'forking-similar-1')
      expect(await fork.resume()).toMatchObject({ status: 'completed' })
      expect(bank.done.size).toBe(2)
      expect(session.state.status).toBe('waiting')
    })

    it('waits for an approval, also from another process, and accepts a refusal', async () => {
      const w = await world()
      const bank = makeBank()
      const script: Script = (call) =>
        last(call).role === 'tool'
          ? { content: 'done' }
          : { content: '', requests: [{ tool: 'pay', args: { cents: 7 } }] }
      const pay = tool({
        kind: 'irreversible',
        approve: (args: { cents: number }) => args.cents > 5,
        run: (args: { cents: number }, { key }) => bank.refund(args.cents, key),
      })
      const { definition } = makeAgent(bank, script, { tools: { pay } })
      const rp = await w.engine()
      const session = await rp.open(definition, 'approve')
      expect(await session.turn('pay')).toMatchObject({ status: 'waiting', waiting: { kind: 'approval', tool: 'pay' } })
      expect(bank.done.size).toBe(0)
      await expect(session.turn('more')).rejects.toEqual(code('CONFLICT'))
      await sendDecision(await w.engine(), 'agent/support/approve', { verdict: 'approve', by: 'ann' })
      expect(await session.resume()).toMatchObject({ status: 'completed', content: 'done' })
      expect(bank.standing).toEqual([7])
      expect((await session.turn('pay')).status).toBe('waiting')
      await session.refuse('bob', 'too much')
      expect(await session.resume()).toMatchObject({ status: 'completed' })
      expect(session.messages.at(-2)).toMatchObject({ role: 'tool', isError: true, content: 'too much' })
      expect(bank.standing).toEqual([7])
    })

    it('A7 a guardrail rolls a loop back a bounded number of times, with changed settings, then hands over', async () => {
      const w = await world()
      const bank = makeBank()
      const looping: Script = (call) =>
        call.settings.prompt === 'stop' && last(call).role !== 'user'
          ? { content: 'stopped' }
          : { content: '', requests: [{ tool: 'refund', args: { cents: 9 } }] }
      const guardrails = [
        noLoops({ repeatsMax: 2, rollbacksMax: 2, change: (n) => ({ prompt: n === 2 ? 'stop' : 'try' }) }),
      ]
      const { definition } = makeAgent(bank, looping, { guardrails })
      const rp = await w.engine()
      const session = await rp.open(definition, 'loop')
      expect(await session.turn('go')).toMatchObject({ turn: 1, status: 'completed', content: 'stopped' })
      expect(session.state.rollbacks).toEqual({ 'no-loops': 2 })
      // Three refunds in each looping attempt, all undone; one in the attempt that ended well.
      expect(bank.standing).toEqual([9])
      expect(bank.done.size).toBe(7)
      const stubborn = makeAgent(bank, () => ({ content: '', requests: [{ tool: 'look', args: {} }] }), {
        guardrails: [noLoops({ repeatsMax: 1, rollbacksMax: 1 })],
      })
      const second = await rp.open(stubborn.definition, 'stubborn')
      expect(await second.turn('go')).toMatchObject({ status: 'waiting', waiting: { kind: 'handover' } })
    })

    it('A9.1 forks at a turn, edits, compares and merges the chosen branch back; branches never mix', async () => {
      const w = await world()
      const bank = makeBank()
      const script: Script = (call) =>
        last(call).role === 'tool'
          ? { content: `done ${String(call.settings.prompt)}` }
          : { content: '', requests: [{ tool: 'refund', args: { cents: call.messages.length } }] }
      const { definition } = makeAgent(bank, script)
      const rp = await w.engine()
      const session = await rp.open(definition, 'main')
      await session.turn('one')
      await session.turn('two')
      await session.fork('gentle', { turn: 1 })
      const branch = await rp.open(definition, 'gentle')
      await branch.configure({ prompt: 'gentle' })
      await branch.edit(() => ({ order: 'changed' }))
      await branch.turn('two, gently')
      expect(session.data).toEqual({ order: 'none' })
      expect(session.messages.at(-1)!.content).toBe('done undefined')
      const compared = await compareSessions(rp, definition, 'main', 'gentle')
      expect(compared.differences).toEqual([{ path: 'order', a: 'none', b: 'changed' }])
      expect(compared.b.messages[0]).toMatchObject({ content: 'two, gently' })
      expect(compared.a.messages).toHaveLength(4)
      const { messages } = branch
      await session.close()
      await branch.close()
      const merged = await mergeBranch(rp, definition, 'main', 'gentle')
      expect(merged.undone).toBe(1)
      const after = await rp.open(definition, 'main')
      expect(after.messages).toEqual(messages)
      expect(after.data).toEqual({ order: 'changed' })
      // Its effects are the session's own now: they can be undone from here.
      expect(after.planRollback({ to: 1 }).compensate).toHaveLength(1)
    })

    it('replays a session exactly, and evaluates another model on the recorded questions without touching tools', async () => {
      const w = await world()
      const bank = makeBank()
      const { definition } = makeAgent(bank, refunding)
      const rp = await w.engine()
      const session = await rp.open(definition, 'audit')
      await session.turn('order-1')
      await session.turn('order-2')
      const replay = await replaySession(rp, definition, 'audit')
      expect(replay.isExact).toBe(true)
      expect(replay.steps.map((step) => step.tool)).toEqual([
        'model',
        'look',
        'model',
        'refund',
        'model',
        'model',
        'look',
        'model',
        'refund',
        'model',
      ])
      const calls = bank.done.size
      const same = await evaluateSession(rp, definition, 'audit', { model: refunding as never })
      expect(same.sameActions).toBe(6)
      const other = await evaluateSession(rp, definition, 'audit', {
        model: () => ({ content: 'no', usage: { cost: 1 } }),
      })
      expect(other.sameActions).toBe(2)
      expect(other.usage.candidate.cost).toBe(6)
      expect(bank.done.size).toBe(calls)
      expect(session.state.turn).toBe(2)
    })

    it('hands over when a budget is spent', async () => {
      const w = await world()
      const { definition } = makeAgent(makeBank(), () => ({ content: '', requests: [{ tool: 'look', args: {} }] }), {
        guardrails: [withinBudget({ turnCost: 0.025, rollbacksMax: 0 })],
      })
      const session = await (await w.engine()).open(definition, 'budget')
      expect(await session.turn('go')).toMatchObject({ status: 'waiting', waiting: { kind: 'handover' } })
      expect(session.usage.cost).toBeCloseTo(0.03)
    })

    it('streams a turn that survives a disconnect: a client comes back with its position and gets the rest once', async () => {
      const w = await world()
      let generated = 0
      const definition = agent('streamer', {
        model: async function* () {
          for (let i = 0; i < 40; i++) {
            generated += 1
            yield { text: `word-${i} ` }
            await pause(3)
          }
          yield { usage: { outputTokens: 40 } }
        },
      })
      const rp = await w.engine()
      const session = await rp.open(definition, 'live')
      const turn = session.turn('go', { key: 'one' })
      await pause(40)
      const reader = await w.engine()
      let text = ''
      let position: Parameters<typeof readTurn>[3]['after']
      for await (const event of readTurn(reader, definition, 'live', { turn: 1 })) {
        if (event.kind !== 'text') break
        text += event.text
        position = event.position
        if (text.length > 60) break
      }
      await pause(30)
      for await (const event of readTurn(reader, definition, 'live', {
        turn: 1,
        ...(position && { after: position }),
      })) {
        if (event.kind === 'text') text += event.text
      }
      expect(text).toBe(Array.from({ length: 40 }, (_, i) => `word-${i} `).join(''))
      expect((await turn).content).toBe(text)
      expect(await session.turn('go', { key: 'one' })).toMatchObject({ content: text })
      expect(generated).toBe(40)
    })
  })
})
