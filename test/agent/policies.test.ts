// Settings of a session: calls from the user's own code, other settings after a rollback, interrupts, custom guardrails,
// evaluation of another prompt; and the cost of a turn.

import { describe, expect, it } from 'vitest'
import {
  agent,
  compareSessions,
  evaluateSession,
  type Guardrail,
  type ModelCall,
  type SimilarCalls,
  tool,
} from '../../src/layers/agent/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

/** Payments by key. */
function makeBank() {
  const paid = new Map<string, number>()
  const pay = tool({
    kind: 'irreversible',
    run: (args: { cents: number }, { key }) => {
      paid.set(key, (paid.get(key) ?? 0) + 1)
      return { paid: args.cents }
    },
  })
  return { paid, pay }
}

describe('the settings of a session', () => {
  onEveryStore("C11 calls of the user's own code", (world) => {
    const make = (similarCalls: SimilarCalls) => {
      const bank = makeBank()
      return { bank, definition: agent('own', { tools: { pay: bank.pay }, similarCalls }) }
    }

    it('are recorded: after a restart the same calls in the same order give the recorded results', async () => {
      const w = await world()
      const { bank, definition } = make('conflict')
      const first = await (await w.engine()).open(definition, 's')
      const one = await first.use('pay', { cents: 1 })
      expect(one).toEqual({ kind: 'result', result: { paid: 1 }, wasRecorded: false })
      await first.use('pay', { cents: 2 })
      await first.close()
      const again = await (await w.engine()).open(definition, 's')
      expect(await again.use('pay', { cents: 1 })).toEqual({ ...one, wasRecorded: true })
      expect(await again.use('pay', { cents: 2 })).toMatchObject({ result: { paid: 2 }, wasRecorded: true })
      expect(await again.use('pay', { cents: 3 })).toMatchObject({ result: { paid: 3 }, wasRecorded: false })
      expect([...bank.paid.values()]).toEqual([1, 1, 1])
    })

    for (const policy of ['conflict', 'fork', 'new'] as const) {
      it(`that differ after a restart are settled by the policy "${policy}", never charged in silence`, async () => {
        const w = await world()
        const { bank, definition } = make(policy)
        const first = await (await w.engine()).open(definition, 's')
        await first.use('pay', { cents: 1 })
        await first.close()
        const rp = await w.engine()
        const again = await rp.open(definition, 's')
        const outcome = await again.use('pay', { cents: 9 })
        if (policy === 'new') {
          expect(outcome).toMatchObject({ kind: 'result', result: { paid: 9 } })
          expect(bank.paid.size).toBe(2)
          return
        }
        expect(outcome).toMatchObject({
          kind: 'waiting',
          waiting: { kind: 'conflict', args: { cents: 9 }, standing: { args: { cents: 1 }, result: { paid: 1 } } },
        })
        expect(bank.paid.size).toBe(1)
        expect((await rp.head('agent/own/s-similar-1')) !== null).toBe(policy === 'fork')
        // The person decides that it was the same call: the recorded result is used, without a second charge.
        await again.decide('replay', 'ann')
        expect(again.state.calls.get('00000000.m0000+')).toMatchObject({ state: 'done', result: { paid: 1 } })
        expect(bank.paid.size).toBe(1)
      })
    }
  })

  onEveryStore(
    'C11 going on',
    (world) => {
      it('after a rollback are the requested prompt, model, parameters and tools', async () => {
        const w = await world()
        const seen: Pick<ModelCall<null>, 'settings' | 'tools'>[] = []
        const { pay } = makeBank()
        const look = tool({ kind: 'read-only', run: () => 'seen' })
        const definition = agent('changed', {
          tools: { pay, look },
          settings: { prompt: 'be kind' },
          model: ({ settings, tools }) => {
            seen.push({ settings, tools })
            return { content: String(settings.prompt) }
          },
        })
        const session = await (await w.engine()).open(definition, 's')
        await session.turn('hello')
        const settings = { prompt: 'be brief', model: 'small', parameters: { temperature: 0 }, tools: ['look'] }
        await session.rollback({ to: 0, settings, again: true })
        // The turn was begun anew, with its own input; resume runs it.
        expect(session.isUnfinished).toBe(true)
        expect(await session.resume()).toMatchObject({ turn: 1, status: 'completed', content: 'be brief' })
        expect(session.messages[0]).toMatchObject({ role: 'user', content: 'hello' })
        expect(seen).toEqual([
          { settings: { prompt: 'be kind' }, tools: ['pay', 'look'] },
          { settings, tools: ['look'] },
        ])
      })

      it('a tool that the settings exclude is refused, and the model gets the refusal', async () => {
        const w = await world()
        const { paid, pay } = makeBank()
        const definition = agent('narrow', {
          tools: { pay },
          model: ({ messages }) =>
            messages.at(-1)!.role === 'tool'
              ? { content: 'done' }
              : { content: '', requests: [{ tool: 'pay', args: { cents: 1 } }] },
        })
        const session = await (await w.engine()).open(definition, 's')
        await session.configure({ tools: [] })
        expect(await session.turn('pay')).toMatchObject({ status: 'completed', content: 'done' })
        expect(session.messages.at(-2)).toMatchObject({ role: 'tool', isError: true })
        expect(paid.size).toBe(0)
      })

      it('waits at its interrupt for an approval', async () => {
        const w = await world()
        let asked = 0
        const definition = agent('paused', { model: () => ({ content: `answer ${++asked}` }) })
        const session = await (await w.engine()).open(definition, 's')
        await session.turn('one')
        await session.interrupt('a person wants to look')
        await expect(session.turn('two')).rejects.toMatchObject({ code: 'CONFLICT' })
        expect(await session.resume()).toMatchObject({ turn: 1 })
        expect(asked).toBe(1)
        await session.approve('ann')
        expect(await session.turn('two')).toMatchObject({ status: 'completed', content: 'answer 2' })
      })

      it("A7 a guardrail of the user's own validates the result of a turn, and its change improves the next attempt", async () => {
        const w = await world()
        const noPromises: Guardrail<null> = {
          name: 'no-promises',
          check: ({ messages }) => messages.some(({ content }) => content === 'I promise') && 'it promised',
          change: (attempt, reason) => ({ prompt: `attempt ${attempt}: ${reason}` }),
        }
        const definition = agent('valid', {
          guardrails: [noPromises],
          model: ({ settings }) => ({ content: settings.prompt ? 'I will see' : 'I promise' }),
        })
        const session = await (await w.engine()).open(definition, 's')
        expect(await session.turn('really?')).toMatchObject({ turn: 1, status: 'completed', content: 'I will see' })
        expect(session.state.settings.prompt).toBe('attempt 1: it promised')
        expect(session.messages.map(({ content }) => content)).toEqual(['really?', 'I will see'])
      })

      it("branches are compared by cost and outcome too, and neither reads the other's entries", async () => {
        const w = await world()
        const definition = agent('branches', {
          initial: () => ({ n: 0 }),
          model: ({ settings }) => ({ content: 'ok', usage: { cost: settings.model === 'small' ? 1 : 10 } }),
        })
        const rp = await w.engine()
        const main = await rp.open(definition, 'main')
        await main.turn('one')
        await main.fork('cheap')
        const cheap = await rp.open(definition, 'cheap')
        await cheap.configure({ model: 'small' })
        await Promise.all([main.turn('two'), cheap.turn('two')])
        await Promise.all([main.edit(() => ({ n: 1 })), cheap.edit(() => ({ n: 2 }))])
        await cheap.interrupt('look at this')
        expect([main.data, cheap.data]).toEqual([{ n: 1 }, { n: 2 }])
        const { a, b } = await compareSessions(rp, definition, 'main', 'cheap')
        expect([a.usage.cost, b.usage.cost]).toEqual([20, 11])
        expect([a.status, b.status]).toEqual(['idle', 'waiting: look at this'])
        const forkAgain = await rp.open(definition, 'main')
        expect(forkAgain.state.settings).toEqual({})
      })

      it('evaluates another prompt on the recorded inputs: messages, notes, plan, data and settings of each question', async () => {
        const w = await world()
        const seen: unknown[] = []
        const record = ({ messages, notes, plan, data, settings, tools }: ModelCall<{ n: number }>) => {
          seen.push({ messages: messages.length, notes, plan, data, settings, tools })
          return {
            content: `says ${String(settings.prompt)}`,
            note: `note ${messages.length}`,
            plan: [messages.length],
          }
        }
        const look = tool({ kind: 'read-only', run: () => 'seen' })
        const definition = agent('judged', { initial: () => ({ n: 0 }), model: record, tools: { look } })
        const rp = await w.engine()
        const session = await rp.open(definition, 's')
        await session.configure({ parameters: { temperature: 1 } })
        await session.turn('one')
        await session.edit(() => ({ n: 1 }))
        await session.configure({ tools: [] })
        await session.turn('two')
        const asked = seen.splice(0)
        const evaluation = await evaluateSession(rp, definition, 's', { model: record, settings: { prompt: 'other' } })
        expect(evaluation.steps.map((step) => step.candidate.content)).toEqual(['says other', 'says other'])
        const withPrompt = asked.map((each) => ({
          ...(each as object),
          settings: { ...(each as { settings: object }).settings, prompt: 'other' },
        }))
        expect(seen).toEqual(withPrompt)
      })
    },
    ['memory', 'sqlite'],
  )

  it('C11 the cost of a turn is its change: 200 turns write less than three times what they add, and the cost does not grow', async () => {
    const { open } = await import('../../src/index.ts')
    await using rp = await open('memory:')
    const { store } = hostOf(rp).kernel
    const commit = store.commit.bind(store)
    let bytes = 0
    store.commit = (commits) => {
      for (const { run, publish = [] } of commits) {
        bytes += run?.bytes.length ?? 0
        for (const { body, addedBytes } of publish) bytes += body.length + addedBytes
      }
      return commit(commits)
    }
    const text = (n: number) =>
      Array.from({ length: 100 }, (_, i) => ((n * 7919 + i * 104_729) % 1e9).toString(36)).join('-')
    const definition = agent('costs', { model: ({ messages }) => ({ content: text(messages.length) }) })
    const session = await rp.open(definition, 's')
    const added = async (turns: number) => {
      const before = { bytes, length: session.messages.reduce((sum, each) => sum + String(each.content).length, 0) }
      for (let turn = 0; turn < turns; turn++) await session.turn('go on')
      const length = session.messages.reduce((sum, each) => sum + String(each.content).length, 0)
      return (bytes - before.bytes) / (length - before.length)
    }
    const early = await added(100)
    const late = await added(100)
    expect(early).toBeLessThan(3)
    expect(late).toBeLessThan(3)
    expect((await rp.checkpoints('agent/costs/s')).length).toBeGreaterThan(0)
  })
})
