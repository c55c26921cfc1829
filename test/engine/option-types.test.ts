// Options that need each other, or exclude each other, in adapters, memos, the server and tools: the compiler reports it, and
// so does the call for programs without a type checker. Models: types.test.ts.

import type { Tool } from 'ai'
import { expect, it } from 'vitest'
import { type EffectTool, type Recorder, record } from '../../src/adapters/ai-sdk/index.ts'
import { natsSink, natsSource } from '../../src/adapters/nats/index.ts'
import { namesOf } from '../../src/core/options.ts'
import { open, type Reprise } from '../../src/index.ts'
import { memo } from '../../src/layers/memo/index.ts'
import { type ServeOptions, serve } from '../../src/server/index.ts'

const look = {} as Tool
const undo = async () => undefined
const token = { name: 'me', token: 'x'.repeat(40), role: 'read' } as const
const principal = { name: 'me', role: 'read', scopes: [] } as const

/** Never called: it only has to compile, except for the marked lines. */
async function unchecked(rp: Reprise, recorder: Recorder): Promise<void> {
  recorder.tools({ look }, { look: { kind: 'compensatable', compensate: undo } })
  recorder.tools({ look }, { look: { kind: 'idempotent', compensate: undo, inDoubt: 'hold' } })
  recorder.tools({ look }, { look: { kind: 'irreversible' } })
  // @ts-expect-error a compensatable tool has a compensation
  recorder.tools({ look }, { look: { kind: 'compensatable' } })
  // @ts-expect-error what is irreversible has none
  recorder.tools({ look }, { look: { kind: 'irreversible', compensate: undo } })
  // @ts-expect-error what only reads has none
  recorder.tools({ look }, { look: { kind: 'read-only', compensate: undo } })
  // @ts-expect-error every tool has a kind
  recorder.tools({ look }, {})

  serve(rp, { tokens: [token], readOnly: true })
  serve(rp, { authorize: () => principal })
  // @ts-expect-error a server without either would be open
  serve(rp, {})
  // @ts-expect-error a declaration that no process writes does not suffice either
  serve(rp, { readOnly: true })
  // @ts-expect-error one of them decides
  serve(rp, { tokens: [token], authorize: () => principal })

  await rp.verify({ repair: true, from: 'sqlite:copy.db', timelines: ['a'] })
  await rp.verify({ repair: true })
  // @ts-expect-error copies are for a repair
  await rp.verify({ from: 'sqlite:copy.db' })
  // @ts-expect-error which was not asked for
  await rp.verify({ repair: false, from: 'sqlite:copy.db' })

  natsSource({ servers: 'nats://localhost', stream: 's', filter: 'a.>' })
  natsSource({ servers: 'nats://localhost', stream: 's', partitions: ['a', 'b'] })
  // @ts-expect-error partitions are the subjects
  natsSource({ servers: 'nats://localhost', stream: 's', partitions: ['a', 'b'], filter: 'a.>' })
  // @ts-expect-error it must be reached somehow
  natsSource({ stream: 's' })
  // @ts-expect-error it must be reached somehow
  natsSink({ stream: 's', message: 'totals' })

  memo('page', { version: 1, ttl: '1h', stale: '1d', run: (url: string) => url })
  // @ts-expect-error without a ttl nothing grows old
  memo('page', { version: 1, stale: '1d', run: (url: string) => url })
  // @ts-expect-error a result counts for one version of the code
  memo('page', { run: (url: string) => url })
}

it('the call refuses the same as the compiler', async () => {
  const rp = await open('memory:')
  const recorder = await rp.open(record('chat'), 'a')
  const tools = (kind: unknown) => () =>
    recorder.tools({ look: { execute: undo } as never }, { look: kind as EffectTool })
  expect(tools({ kind: 'compensatable' })).toThrow(/a compensatable tool must have a compensation/)
  expect(tools({ kind: 'irreversible', compensate: undo })).toThrow(/has nothing to compensate/)
  expect(tools({ kind: 'read-only', compensate: undo })).toThrow(/has nothing to compensate/)
  const both = { tokens: [token], authorize: () => principal } as unknown as ServeOptions
  for (const options of [{} as ServeOptions, both]) expect(() => serve(rp, options)).toThrow(/tokens or authorize/)
  await expect(rp.verify({ from: 'sqlite:copy.db' } as never)).rejects.toThrow(/set repair/)
  const reading = { servers: 's', stream: 's', partitions: ['a'], filter: 'b' } as never
  expect(() => natsSource(reading)).toThrow(/either filter or partitions/)
  expect(() => natsSource({ stream: 's' } as never)).toThrow(/either .* servers/)
  expect(() => natsSink({ stream: 's', message: 'm' } as never)).toThrow(/either .* servers/)
  expect(() => memo('page', { version: 1, stale: '1d', run: () => 1 } as never)).toThrow(/stale needs a ttl/)
  await recorder.close()
  await rp.close()
})

it('lines that must not compile are looked at by the compiler', () => {
  expect(typeof unchecked).toBe('function')
})

it('a list of option names is complete, or does not compile', () => {
  type Two = { readonly id?: string; readonly label?: string }
  expect([...namesOf<Two>()('id label')]).toEqual(['id', 'label'])
  // @ts-expect-error label is missing.
  namesOf<Two>()('id')
  // @ts-expect-error There is no option name.
  namesOf<Two>()('id label name')
})
