// Entries must be plain objects. A listener gets its own copy.

import { expect, it } from 'vitest'
import { open, timeline } from '../../src/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'

const notes = timeline('notes', {
  initial: () => ({ list: [] as unknown[] }),
  apply: (state: { list: unknown[] }, entry: { type: string; items?: number[] }) => ({ list: [...state.list, entry] }),
})

class Paid {
  readonly type = 'paid'
  readonly amount = 5
}

it('instances of classes, Errors, Dates and lists are refused as entries', async () => {
  const rp = await open('memory:')
  const handle = await rp.open(notes, 'x')
  const instances = [new Paid(), new Error('x'), new Date(), [], new Map()]
  for (const entry of instances) {
    const given = Array.isArray(entry) ? [Object.assign(entry, { type: 'odd' })] : Object.assign(entry, { type: 'odd' })
    await expect(handle.append(given as never)).rejects.toMatchObject({ code: 'UNSERIALIZABLE' })
  }
  expect(handle.state.list).toEqual([])
  await handle.append(Object.assign(Object.create(null), { type: 'bare' }))
  await expect(handle.append({ type: 'plain' }, null as never)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  expect(handle.state.list).toHaveLength(1)
  await rp.close()
})

it('a listener cannot change the state through its argument', async () => {
  const rp = await open('memory:')
  for (const options of [{}, { shared: true }]) {
    const handle = await rp.open(notes, options.shared ? 'shared' : 'own', options)
    handle.watch((entries) => {
      for (const entry of entries) entry.items?.push(99)
    })
    await handle.append({ type: 'noted', items: [1] })
    expect(handle.state.list).toEqual([{ type: 'noted', items: [1] }])
    await handle.close()
  }
  await rp.close()
})

it('one AbortSignal serves 10,000 waits without a warning, and keeps none of them', async () => {
  const warnings: string[] = []
  const hear = ({ message }: Error) => warnings.push(message)
  process.on('warning', hear)
  const rp = await open('memory:')
  const handle = await rp.open(notes, 'x')
  const { signal } = new AbortController()
  let listeners = 0
  const [add, remove] = [signal.addEventListener.bind(signal), signal.removeEventListener.bind(signal)]
  signal.addEventListener = (...args: never) => {
    listeners += 1
    return add(...(args as Parameters<typeof add>))
  }
  signal.removeEventListener = (...args: never) => {
    listeners -= 1
    return remove(...(args as Parameters<typeof remove>))
  }
  await Promise.all(Array.from({ length: 10_000 }, () => handle.append({ type: 'a' }, { signal })))
  await new Promise((resolve) => setImmediate(resolve))
  process.off('warning', hear)
  expect([warnings, listeners]).toEqual([[], 0])
  await rp.close()
})

it('one AbortSignal ends the waits for the results of 1,000 runs, without a warning', async () => {
  const warnings: string[] = []
  const hear = ({ message }: Error) => warnings.push(message)
  process.on('warning', hear)
  const rp = await open('memory:')
  const waiting = workflow('waiting', async (ctx) => await ctx.signal('never'))
  rp.work([waiting])
  const runs = await Promise.all(Array.from({ length: 1000 }, (_, i) => rp.run(waiting, { id: `r${i}` })))
  const stop = new AbortController()
  const results = runs.map((run) => run.result({ signal: stop.signal }).catch(({ code }) => code))
  await new Promise((resolve) => setImmediate(resolve))
  stop.abort()
  expect(new Set(await Promise.all(results))).toEqual(new Set(['ABORTED']))
  process.off('warning', hear)
  expect(warnings).toEqual([])
  await rp.close()
})
