// One table: the effect or the refusal of each verb of a run, for each status of a run. A tool without the code calls; another
// process works on the runs.

import { expect, it } from 'vitest'
import { RepriseError } from '../../src/core/errors.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { hostOf } from '../../src/engine/host/host.ts'
import { workflow, workflowKind } from '../../src/layers/workflow/index.ts'
import { describeTimeline } from '../../src/operations/describe.ts'
import { effectsOf } from '../../src/operations/effects.ts'
import { act, type PlainVerb } from '../../src/operations/run-verb.ts'
import { runOf, runWithCode } from '../../src/operations/runs.ts'
import { until } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

const never = () => new Promise<never>(() => undefined)

const run = workflow<string, string>('run', async (ctx, status) => {
  const seen = { total: 1 }
  ctx.onQuery('total', () => seen.total)
  ctx.onUpdate('add', (n: number) => (seen.total += n))
  await ctx.step('first', () => 1, {
    ...(status === 'stuck' && {
      compensateRetry: { attempts: 1 },
      compensate: () => {
        throw new Error('no answer')
      },
    }),
  })
  if (status === 'held') await ctx.step('pay', () => never(), { inDoubt: 'hold' })
  if (status === 'failed' || status === 'stuck') {
    await ctx.step('second', () => Promise.reject(new Error('boom')), { retry: { attempts: 1 } })
  }
  if (status === 'running') await ctx.step('slow', () => never())
  if (status === 'sleeping') await ctx.sleep('1h')
  if (status === 'completed') return 'done'
  return await ctx.signal<string>('go')
})

/** The stored status at the moment of the verb. */
const stored = {
  completed: 'completed',
  failed: 'failed',
  cancelled: 'cancelled',
  terminated: 'terminated',
  held: 'held',
  stuck: 'stuck',
  waiting: /^(waiting|running)$/,
  sleeping: /^(waiting|running)$/,
  running: 'running',
} as const
type Status = keyof typeof stored

const args: Record<string, Readonly<Record<string, unknown>>> = {
  cancel: { reason: 'asked to' },
  terminate: { reason: 'now' },
  retry: {},
  signal: { name: 'go', value: 'went' },
  settle: { step: 'pay', outcome: 'done', by: 'ann' },
}

/** The code of the refusal, or the condition afterwards: a status, or an answer. */
const table: Record<'cancel' | 'terminate' | 'retry' | 'signal' | 'settle' | 'update' | 'query', unknown[]> = {
  //          completed failed   cancelled terminated held          stuck         waiting      sleeping      running
  cancel: ['ENDED', 'ENDED', 'ENDED', 'ENDED', 'asked', 'asked', 'cancelled', 'cancelled', 'asked'],
  terminate: ['ENDED', 'ENDED', 'ENDED', 'ENDED', 'terminated', 'terminated', 'terminated', 'terminated', 'terminated'],
  retry: ['ENDED', 'failed', 'ENDED', 'ENDED', 'CONFLICT', 'CONFLICT', 'CONFLICT', 'CONFLICT', 'CONFLICT'],
  signal: ['ENDED', 'ENDED', 'ENDED', 'ENDED', 'asked', 'asked', 'completed', 'asked', 'asked'],
  settle: ['ENDED', 'ENDED', 'ENDED', 'ENDED', 'asked', 'NOT_FOUND', 'NOT_FOUND', 'NOT_FOUND', 'NOT_FOUND'],
  update: ['ENDED', 'ENDED', 'ENDED', 'ENDED', 5, 5, 5, 5, 5],
  query: [1, 1, 1, 1, 1, 1, 1, 1, 1],
}
const changesNothing = new Set<unknown>(['ENDED', 'CONFLICT', 'NOT_FOUND', 1])
const verbs = Object.keys(table) as (keyof typeof table)[]
const statuses = Object.keys(stored) as Status[]
const ended = { completed: '', failed: 'boom', cancelled: 'asked to', terminated: 'now' } as const

onEveryStore(
  'verbs of a run',
  (world) => {
    const statusOf = async (rp: Reprise, id: string) => (await rp.head(`workflow/run/${id}`))!.status

    it('act or give the reason, whatever its status', async () => {
      const w = await world()
      const before = await w.engine()
      // Read-only verbs share a run.
      const ids = statuses.flatMap((status, i) =>
        verbs.map((verb) => [status, verb, changesNothing.has(table[verb][i]) ? status : `${status}-${verb}`] as const),
      )
      for (const [status, , id] of ids) if (status === 'held') await before.run(run, status, { id })
      const began = async (id: string) => (await before.head(`workflow/run/${id}`))!.seq >= 3
      for (const [status, , id] of ids) if (status === 'held') await until(() => began(id))
      await before.close({ grace: 0 })

      const worker = await w.engine()
      worker.work([run])
      const tool = await w.engine()
      hostOf(tool).declare(workflowKind)
      const headOf = async (id: string) => (await tool.head(`workflow/run/${id}`))!
      const ask = async (verb: PlainVerb, id: string, given = args[verb]!) =>
        await act(tool, await headOf(id), verb, given)
      for (const [status, , id] of ids) if (status !== 'held') await worker.run(run, status, { id })
      await ask('cancel', 'cancelled')
      await ask('terminate', 'terminated')
      const stands = (status: Status, id: string) => async () =>
        new RegExp(stored[status]).test(await statusOf(tool, id)) && (await headOf(id)).seq >= 2
      for (const [status, , id] of ids) await until(stands(status, id))

      for (const [status, verb, id] of ids) {
        const expected = table[verb][statuses.indexOf(status)]
        const doing = async (): Promise<unknown> => {
          const head = await headOf(id)
          if (verb === 'update') return await runOf(tool, head, 'update').update('add', 4)
          if (verb === 'query') return await runWithCode(tool, head, 'query', [run])!.query('total')
          await ask(verb, id)
          if (expected === 'asked') return 'asked'
          await until(async () => (await statusOf(tool, id)) === expected)
          return expected
        }
        const refusal = (await describeTimeline(tool, await headOf(id))).shown.refuses[verb as PlainVerb]
        const outcome = await doing().catch((error: RepriseError) => error)
        const told = outcome instanceof RepriseError ? outcome.code : outcome
        expect({ status, verb, told }).toEqual({ status, verb, told: expected })
        // Tools show a button where the descriptor accepts the verb. The arguments of a verb are another matter.
        const isTaken = told !== 'ENDED' && told !== 'CONFLICT' && told !== 'NOT_FOUND'
        const isOther = status === 'stuck' && verb === 'settle'
        if (verb in args && !isOther)
          expect([status, verb, refusal ?? 'taken']).toEqual([status, verb, isTaken ? 'taken' : expect.any(String)])
        if (isTaken) expect([status, verb, refusal]).toEqual([status, verb, undefined])
        if (outcome instanceof RepriseError && told === 'ENDED') {
          expect(outcome.message).toContain(`had already ended: ${status}`)
          expect(outcome.message).toContain(ended[status as keyof typeof ended])
          expect(outcome.data).toMatchObject({ timeline: `workflow/run/${id}`, status })
          expect(await statusOf(tool, id)).toBe(status)
        }
      }
    })

    it('count as done when repeated with their key', async () => {
      const w = await world()
      const rp = await w.engine()
      await rp.run(run, 'waiting', { id: 'a' })
      const ask = async (verb: PlainVerb, key: string) =>
        await act(rp, (await rp.head('workflow/run/a'))!, verb, args[verb]!, key)
      await ask('terminate', 'k')
      await until(async () => (await statusOf(rp, 'a')) === 'terminated')
      await ask('terminate', 'k')
      await expect(ask('cancel', 'other')).rejects.toMatchObject({ code: 'ENDED' })
    })

    it('outside effects of a run are listed: done, held, failed', async () => {
      const w = await world()
      const before = await w.engine()
      await before.run(run, 'held', { id: 'h' })
      await until(async () => (await before.head('workflow/run/h'))!.seq >= 3)
      await before.close({ grace: 0 })
      const worker = await w.engine()
      worker.work([run])
      await until(async () => (await statusOf(worker, 'h')) === 'held')
      await worker
        .run(run, 'failed', { id: 'f' })
        .result()
        .catch(() => undefined)
      const tool = await w.engine()
      hostOf(tool).declare(workflowKind)
      const shown = async (id: string) => {
        const effects = await effectsOf(tool, (await tool.head(`workflow/run/${id}`))!)
        return effects.map(({ id, state, outcome }) => [id, state, outcome])
      }
      expect(await shown('h')).toEqual([
        ['first', 'done', 'done'],
        ['pay', 'held', null],
      ])
      expect(await shown('f')).toEqual([
        ['first', 'done', 'done'],
        ['second', 'failed', 'failed'],
      ])
    })
  },
  ['sqlite', 'postgres'],
)
