// The lines of a workflow's log: with run, step and attempt, and each once, however often its code is replayed.

import { expect, it } from 'vitest'
import { createEngine } from '../../src/engine/api/open.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { type Logger, logOf, workflow, workflows } from '../../src/layers/workflow/index.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'

it('each line is written once, over attempts and a restart, with where it comes from', async () => {
  const lines: unknown[] = []
  const keep = (level: string) => (message: string, fields?: object) => void lines.push([level, message, fields])
  const logger: Logger = { debug: keep('debug'), info: keep('info'), warn: keep('warn'), error: keep('error') }
  const flow = workflow('spoken', async (ctx) => {
    const log = logOf(ctx, logger)
    log.info('begins')
    await ctx.step(
      'charge',
      ({ attempt }) => {
        log.debug('calls', { cents: 5 })
        if (attempt === 1) throw new Error('busy')
      },
      { retry: { attempts: 2, backoff: '1ms' } },
    )
    await ctx.signal('go')
    log.warn('goes')
    await ctx.step('done', () => log.error('ends'))
  })
  const world = createWorld()
  const engine = () =>
    createEngine({ store: openMemory({ namespace: 'default', hash: sha256, world }) }, { worker: 'w' })
  const first = engine()
  await first.run(flow, { id: 'a' })
  await expect.poll(() => lines.length).toBe(3)
  await first.close()
  const second = engine()
  second.work([flow])
  const run = workflows(second).of(flow).get('a')
  await run.signal('go')
  await run.result()
  await second.close()
  const of = { workflow: 'spoken', run: 'a' }
  expect(lines).toEqual([
    ['info', 'begins', of],
    ['debug', 'calls', { ...of, step: 'charge', attempt: 1, cents: 5 }],
    ['debug', 'calls', { ...of, step: 'charge', attempt: 2, cents: 5 }],
    ['warn', 'goes', of],
    ['error', 'ends', { ...of, step: 'done', attempt: 1 }],
  ])
})
