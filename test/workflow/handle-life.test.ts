// A handle belongs to one life of its id. A request to a run that has expired or was deleted is refused, and never reaches the
// next run under that id.

import { expect, it } from 'vitest'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { onEveryStore } from '../support/worlds.ts'

const gone = expect.objectContaining({ code: 'NOT_FOUND' })
const waits = workflow('waits', async (ctx) => await ctx.signal<string>('go'))
const acts = [
  (run: { cancel(): Promise<void> }) => run.cancel(),
  (run: { signal(name: string, value: unknown): Promise<void> }) => run.signal('go', 'of the first'),
  (run: { terminate(): Promise<void> }) => run.terminate(),
] as const

onEveryStore('a handle of a run that is gone', (world) => {
  it('is refused, and the next run under its id continues', async () => {
    const w = await world()
    const rp = await w.engine()
    const first = await rp.run(waits, { id: 'order-1' })
    const other = workflows(rp).of(waits).get('order-1')
    await other.signal('go', 'done')
    expect(await first.result()).toBe('done')
    await rp.delete('workflow/waits/order-1')
    for (const act of acts) await expect(act(first)).rejects.toEqual(gone)
    const unbound = workflows(rp).of(waits).get('order-1')
    await expect(unbound.cancel()).rejects.toEqual(gone)

    const second = await rp.run(waits, { id: 'order-1' })
    for (const act of acts) await expect(act(first)).rejects.toEqual(gone)
    for (const act of acts) await expect(act(other)).rejects.toEqual(gone)
    await expect(first.status()).rejects.toEqual(gone)
    expect((await second.status()).isEnded).toBe(false)
    await second.signal('go', 'of the second')
    expect(await second.result()).toBe('of the second')
    for (const old of [first, other]) await expect(old.result()).rejects.toEqual(gone)
  })

  it('mail to a run that was never there waits for it', async () => {
    const w = await world()
    const rp = await w.engine()
    await workflows(rp).of(waits).get('order-2').signal('go', 'early')
    expect(await (await rp.run(waits, { id: 'order-2' })).result()).toBe('early')
  })
})
