// Decisions about a waiting session: the first counts, a repetition is accepted, a different one is refused with the first
// decision and its author, and no decision is kept for a later wait.

import { expect, it } from 'vitest'
import { toHex } from '../../src/core/coordinate.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { agent, sendDecision, tool } from '../../src/layers/agent/index.ts'
import { effectsOf } from '../../src/operations/effects.ts'
import { declareAll, declareKinds } from '../../src/operations/known-models.ts'
import { queuesOf } from '../../src/operations/queues.ts'
import { act } from '../../src/operations/run-verb.ts'
import { until } from '../support/until.ts'
import { onEveryStore } from '../support/worlds.ts'

onEveryStore(
  'decisions',
  (world) => {
    async function waiting() {
      const paid: number[] = []
      const asks = [1, 2]
      const pay = tool({ kind: 'irreversible', approve: true, run: ({ cents }: { cents: number }) => paid.push(cents) })
      const definition = agent('payer', {
        tools: { pay },
        model: async () => {
          const cents = asks.shift()
          return cents ? { content: '', requests: [{ tool: 'pay', args: { cents } }] } : { content: 'done' }
        },
      })
      const w = await world()
      const session = await (await w.engine()).open(definition, 's')
      expect((await session.turn('pay')).status).toBe('waiting')
      const tools = await w.engine()
      await declareKinds(tools)
      const listed = async () => {
        const knowing = await w.engine()
        declareAll(knowing, [definition])
        const effects = await effectsOf(knowing, (await knowing.head('agent/payer/s'))!)
        return effects.map(({ name, state }) => `${name} ${state}`)
      }
      return { session, paid, tools, listed, definition, w }
    }
    const decide = async (rp: Reprise, verdict: string, by: string) =>
      await act(rp, (await rp.head('agent/payer/s'))!, 'decide', { verdict, by })

    it('are refused when they contradict, before and after the session took the first', async () => {
      const { session, paid, tools, listed } = await waiting()
      expect(await listed()).toEqual(['model done', 'pay waiting'])
      await decide(tools, 'approve', 'ann')
      expect(await decide(tools, 'approve', 'bob')).toMatchObject({
        text: 'agent/payer/s was decided before by ann: approve; nothing was recorded',
        facts: { by: 'ann', isRepeated: true },
      })
      const refused = { code: 'CONFLICT', data: { outcome: 'approve', by: 'ann', at: expect.any(Number) } }
      await expect(decide(tools, 'refuse', 'bob')).rejects.toMatchObject(refused)
      // One approval allows one payment: the second payment needs another.
      expect((await session.resume()).status).toBe('waiting')
      expect(paid).toEqual([1])
      await decide(tools, 'refuse', 'bob')
      expect((await session.resume()).status).toBe('completed')
      expect(paid).toEqual([1])
      expect(await listed()).toEqual(['model done', 'pay done', 'model done', 'model done', 'pay failed'])
      await decide(tools, 'refuse', 'bob')
      await expect(decide(tools, 'approve', 'ann')).rejects.toMatchObject({
        code: 'CONFLICT',
        message: expect.stringMatching(/is not waiting for a decision: it is .*made by bob/),
        data: { by: 'bob', status: 'idle' },
      })
    })

    it('are refused where the session has gone on since the person saw it', async () => {
      const { session, paid, tools } = await waiting()
      const seen = async () => {
        const { seq, digest } = (await tools.head('agent/payer/s'))!
        return { seq, digest: toHex(digest) }
      }
      const approve = async (by: string, about: Awaited<ReturnType<typeof seen>>) =>
        await act(tools, (await tools.head('agent/payer/s'))!, 'decide', { verdict: 'approve', by, about })
      const first = await seen()
      await approve('ann', first)
      expect((await session.resume()).status).toBe('waiting')
      // The person has seen the first payment, and the session waits for the second.
      await expect(approve('bob', first)).rejects.toMatchObject({ code: 'CONFLICT', data: { about: first.seq } })
      const another = { ...(await seen()), digest: first.digest }
      await expect(approve('bob', another)).rejects.toMatchObject({ code: 'CONFLICT' })
      expect((await session.resume()).status).toBe('waiting')
      expect(paid).toEqual([1])
      await approve('bob', await seen())
      await session.resume()
      expect(paid).toEqual([1, 2])
    })

    it('sent at the same moment count once: the others are refused, or were equal', async () => {
      const { session, paid, tools } = await waiting()
      const verdicts = ['approve', 'refuse', 'approve', 'refuse'] as const
      const told = await Promise.allSettled(
        verdicts.map((verdict, i) => sendDecision(tools, 'agent/payer/s', { verdict, by: `p${i}` })),
      )
      const said = verdicts.filter((_, i) => told[i]!.status === 'fulfilled')
      expect(new Set(said).size).toBe(1)
      await session.resume()
      expect(paid).toEqual(said[0] === 'approve' ? [1] : [])
    })

    it('about a session that waits for nothing are refused', async () => {
      const { session, tools } = await waiting()
      await session.approve('ann')
      await session.resume()
      await session.approve('ann')
      await session.resume()
      await session.turn('again')
      await expect(decide(tools, 'approve', 'bob')).rejects.toMatchObject({
        code: 'CONFLICT',
        message: expect.stringContaining('is not waiting for a decision'),
      })
    })

    it('are followed by a worker that has the agent, once per decision, and leave nothing due', async () => {
      const { session, paid, tools, definition, w } = await waiting()
      await session.close()
      const head = async () => (await tools.head('agent/payer/s'))!
      const stands = async () => {
        const { status, queue, mail, seq } = await head()
        return `${status} ${queue} ${mail} ${seq}`
      }
      const before = (await head()).seq
      // No worker has the agent yet: the session is due, which doctor and the page report.
      await decide(tools, 'approve', 'ann')
      expect(await stands()).toBe(`waiting agent/payer 1 ${before}`)
      expect(await queuesOf(tools)).toMatchObject([{ queue: 'agent/payer', due: 1 }])
      const worker = await w.engine()
      worker.work([definition])
      const isLeft = async (status: string) => {
        const now = await head()
        return now.status === status && now.seq > before && now.owner === null && now.queue === null
      }
      await until(async () => paid.length === 1 && (await isLeft('waiting')))
      await decide(tools, 'approve', 'ann')
      await until(() => isLeft('idle'))
      expect(paid).toEqual([1, 2])
      expect(await queuesOf(tools)).toEqual([])
    })
  },
  ['sqlite', 'postgres'],
)
