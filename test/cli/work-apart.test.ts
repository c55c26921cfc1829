// A module with a pipeline that only one process can run, beside definitions that any process can work on: those are worked on,
// and the command prints how to run the pipeline.

import { expect, it } from 'vitest'
import { takeUp, workable } from '../../src/cli/commands/work.ts'
import { open } from '../../src/index.ts'
import { collectSink, count, pipeline, valueSource } from '../../src/layers/pipeline/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'

const keyed = pipeline('keyed', (p) => {
  p.from('words', valueSource(['a', 'b', 'a']))
    .keyBy((word) => word)
    .aggregate('counts', count())
    .to('out', collectSink())
})
const hello = workflow('hello', async (_ctx, name: string) => `hello ${name}`)

it('skips a pipeline that cannot be shared, works on the rest, and prints how to run it', async () => {
  const rp = await open('memory:')
  const notes: string[] = []
  const taken = takeUp(rp, workable([keyed, hello, 7]), 'flows.mjs', { note: (words) => void notes.push(words) })
  expect(taken.map(({ name }) => name)).toEqual(['hello'])
  expect(notes).toEqual([
    expect.stringMatching(/^the pipeline keyed is not executed here.*reprise run flows\.mjs keyed$/),
  ])
  const run = await rp.run(hello, 'ann', { id: 'one', here: false })
  expect(await run.result()).toBe('hello ann')
  await rp.close()
})

it('does not hide other faults', async () => {
  const rp = await open('memory:')
  const broken = pipeline('broken', () => undefined)
  expect(() => takeUp(rp, workable([broken]), 'flows.mjs', { note: () => undefined })).toThrow()
  await rp.close()
})
