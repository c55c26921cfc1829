// Whether a held step or stuck compensation waits for a decision, on a store in memory.

import { afterEach, expect, it } from 'vitest'
import { timelineId } from '../../../core/coordinate.ts'
import { open } from '../../../engine/api/open.ts'
import { type Host, hostOf } from '../../../engine/host/host.ts'
import { workflowFold } from '../history/fold.ts'
import { checkSettleable } from './settle.ts'

const id = timelineId('workflow/w/r')
const engines: Host[] = []

async function engineWith(entries: readonly { readonly type: string; readonly data: object }[]): Promise<Host> {
  const engine = hostOf(await open('memory:'))
  engines.push(engine)
  const timeline = await engine.openTimeline(id, workflowFold)
  await timeline.write([{ type: 'started', data: { seed: 1, behaviour: 2 } }, ...entries])
  await timeline.close()
  return engine
}

afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.close()
})

const error = { name: 'Error', message: 'no' }

it('lets a held step and a stuck undo be settled', async () => {
  const engine = await engineWith([
    { type: 'held', data: { id: 'charge' } },
    { type: 'stuck', data: { id: 'ship', error } },
  ])
  await checkSettleable(engine, id, 'charge')
  await checkSettleable(engine, id, 'ship')
})

it('refuses anything else, and names the waiting steps', async () => {
  const engine = await engineWith([
    { type: 'held', data: { id: 'a%2fb' } },
    { type: 'held', data: { id: 'over' } },
    { type: 'settled', data: { id: 'over' } },
    { type: 'began', data: { id: 'running' } },
  ])
  for (const step of ['over', 'running']) {
    await expect(checkSettleable(engine, id, step)).rejects.toMatchObject({
      code: 'CONFLICT',
      data: { waiting: ['a/b'] },
    })
  }
  for (const step of ['unknown', 'toString']) {
    await expect(checkSettleable(engine, id, step)).rejects.toMatchObject({
      code: 'NOT_FOUND',
      data: { steps: ['a/b', 'over', 'running'] },
    })
  }
  await expect(checkSettleable(engine, timelineId('workflow/w/none'), 'a')).rejects.toMatchObject({ code: 'NOT_FOUND' })
})
