import { expect, it } from 'vitest'
import type { Engine } from '../../../engine/model/definition.ts'
import { generatedSource } from './values.ts'

const context = { engine: {} as Engine, pipeline: 'pipeline/p', name: 'n', signal: new AbortController().signal }

it('a generated source emits only the requested partitions of a task, with their numbers among all', async () => {
  const source = generatedSource((n, partition) => `${partition}/${n}`, { count: 2, partitions: 4 })
  expect(await source.partitions!(context)).toEqual(['0', '1', '2', '3'])
  const reader = await source.open(new Map([['3', 1]]), { ...context, partitions: ['1', '3'] })
  expect(reader.partitions()).toEqual(['1', '3'])
  const read = []
  for (let batch = await reader.read(10); batch; batch = await reader.read(10)) read.push(batch)
  expect(read).toEqual([
    { partition: '1', values: ['1/0', '1/1'], position: 2 },
    { partition: '3', values: ['3/1'], position: 2 },
  ])
})
