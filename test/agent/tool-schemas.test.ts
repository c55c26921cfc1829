// Tools with Standard Schemas for their arguments: invalid arguments are returned to the model and never reach the tool.

import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { agent, type LanguageModel, type StandardSchema, tool } from '../../src/layers/agent/index.ts'
import { onEveryStore } from '../support/worlds.ts'

/** Requests the tool with these arguments, one after another, then returns the last result as text. */
function asking(name: string, ...args: unknown[]): LanguageModel<null> {
  return ({ messages }) => {
    const answered = messages.filter((message) => message.role === 'tool').length
    if (answered < args.length) return { content: '', requests: [{ tool: name, args: args[answered] }] }
    return { content: messages.at(-1)!.content }
  }
}

describe('the schema of a tool', () => {
  onEveryStore(
    'C11 arguments',
    (world) => {
      it('that do not fit are reported to the model, and the tool is not called; those that fit are passed as the schema returns them', async () => {
        const w = await world()
        const seen: { cents: number; at: Date }[] = []
        const refund = tool({
          kind: 'irreversible',
          input: z.object({ cents: z.number().int().positive(), at: z.string().transform((text) => new Date(text)) }),
          run: (args) => {
            seen.push(args)
            return args.cents
          },
        })
        const at = '2026-01-01T00:00:00.000Z'
        const definition = agent('a', {
          tools: { refund },
          model: asking('refund', { cents: '5', at }, 'not even an object', { cents: 5, at }),
        })
        const session = await (await w.engine()).open(definition, 's')
        expect(await session.turn('go')).toMatchObject({ status: 'completed', content: 5 })
        const answers = session.messages.filter((message) => message.role === 'tool')
        expect(answers.map(({ isError = false }) => isError)).toEqual([true, true, false])
        expect(String(answers[0]!.content)).toMatch(/refund are not valid: cents: /)
        expect(seen).toEqual([{ cents: 5, at: new Date(at) }])
        // The validated arguments are recorded, and used to undo and probe the call.
        expect(session.state.calls.get('00000001.0005')).toMatchObject({ args: { at: new Date(at) } })
      })

      it("is checked before a person is, and again after the person's changes", async () => {
        const w = await world()
        const runs: unknown[] = []
        const mail = tool({
          kind: 'irreversible',
          approve: (args) => args.to.endsWith('.org'),
          input: z.object({ to: z.email() }),
          run: (args) => runs.push(args.to),
        })
        const definition = agent('a', { tools: { mail }, model: asking('mail', { to: 'nobody' }, { to: 'a@b.org' }) })
        const session = await (await w.engine()).open(definition, 's')
        expect(await session.turn('go')).toMatchObject({ waiting: { kind: 'approval', args: { to: 'a@b.org' } } })
        await session.approve('ann', { args: { to: 'wrong' } })
        expect(await session.resume()).toMatchObject({
          status: 'completed',
          content: expect.stringContaining('not valid'),
        })
        expect(runs).toEqual([])
      })

      it('may be of any library, and may take its time', async () => {
        const w = await world()
        const even: StandardSchema<unknown, number> = {
          '~standard': {
            version: 1,
            vendor: 'mine',
            validate: async (value) =>
              typeof value === 'number' && value % 2 === 0 ? { value } : { issues: [{ message: 'must be even' }] },
          },
        }
        const half = tool({ kind: 'read-only', input: even, run: (n) => n / 2 })
        const definition = agent('a', { tools: { half }, model: asking('half', 3, 4) })
        const session = await (await w.engine()).open(definition, 's')
        expect(await session.turn('go')).toMatchObject({ content: 2 })
        expect(session.messages[2]).toMatchObject({ isError: true, content: expect.stringContaining('must be even') })
      })

      it('is sent to the model as JSON Schema', async () => {
        const w = await world()
        const seen: unknown[] = []
        const definition = agent('a', {
          tools: {
            look: tool({
              kind: 'read-only',
              description: 'looks',
              input: z.object({ order: z.string() }),
              run: () => 1,
            }),
            raw: tool({ kind: 'read-only', parameters: { type: 'object', required: ['x'] }, run: () => 1 }),
            any: tool({ kind: 'read-only', run: () => 1 }),
          },
          model: ({ toolDefinitions }) => {
            seen.push(...toolDefinitions)
            return { content: 'done' }
          },
        })
        await (await (await w.engine()).open(definition, 's')).turn('go')
        expect(seen).toMatchObject([
          { name: 'look', description: 'looks', parameters: { type: 'object', required: ['order'] } },
          { name: 'raw', parameters: { type: 'object', required: ['x'] } },
          { name: 'any', parameters: { type: 'object' } },
        ])
      })
    },
    ['memory'],
  )
})
