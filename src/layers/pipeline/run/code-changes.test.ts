import { expect, it } from 'vitest'
import { type Aggregation, average, count, list, sum } from '../aggregate.ts'
import { Graph } from '../graph.ts'
import { collectSink } from '../sinks/collect.ts'
import type { Source } from '../source.ts'
import { entrySource } from '../sources/entries.ts'
import { jsonLineSource, lineSource } from '../sources/files.ts'
import { generatedSource, iterableSource, valueSource } from '../sources/values.ts'
import { type KeyedStream, PipelineBuilder } from '../stream.ts'
import { session, sliding, tumbling } from '../windows.ts'
import { matchNames, namedParts } from './code-changes.ts'
import { emptyState, type PipelineState } from './state.ts'

type Draw = (keyed: KeyedStream<number>) => { to(name: string, sink: ReturnType<typeof collectSink>): void }

function graphOf(draw: Draw): Graph {
  const graph = new Graph()
  const builder = new PipelineBuilder(graph)
  const keyed = builder.from('numbers', valueSource([1]), { time: (n) => n }).keyBy((n) => n)
  draw(keyed).to('out', collectSink())
  return graph
}

function storedOf(draw: Draw): PipelineState {
  const operators = graphOf(draw).operators.flatMap(({ name, state }) => (state === null ? [] : [[name, state]]))
  return { ...emptyState, sources: { numbers: [] }, sinks: { out: null }, operators: Object.fromEntries(operators) }
}

const own = (kind?: string): Aggregation<number, number, number> => {
  const { kind: _, ...rest } = sum((n: number) => n)
  return kind === undefined ? rest : { ...rest, kind }
}
const add =
  (aggregation: Aggregation<number, unknown, unknown>): Draw =>
  (keyed) =>
    keyed.aggregate('a', aggregation)

it('continues with the state of the same operator, and with state that an earlier version stored without its kind', () => {
  const draws: readonly Draw[] = [
    add(count() as never),
    add(own() as never),
    add(own('mine/1') as never),
    (keyed) => keyed.window('a', tumbling(10)).aggregate(list()),
    (keyed) => keyed.window('a', session(10)).aggregate(count()),
    (keyed) => keyed.joinWindow('a', keyed, tumbling(5), (a) => a),
    (keyed) => keyed.dedupe('a', { within: 5 }),
  ]
  for (const draw of draws) {
    const stored = storedOf(draw)
    expect(matchNames(graphOf(draw), stored).get('a')).toBe('a')
    const bare = Object.fromEntries(Object.entries(stored.operators).map(([name, kind]) => [name, kind.split('(')[0]!]))
    expect(matchNames(graphOf(draw), { ...stored, operators: bare }).get('a')).toBe('a')
  }
})

it('refuses another aggregation, another version of it, and windows of another length under one name', () => {
  const windows = (length: number, step = length): Draw => {
    return (keyed) => keyed.window('a', sliding(length, step)).aggregate(count())
  }
  const changed: readonly (readonly [Draw, Draw])[] = [
    [add(count() as never), add(sum((n: number) => n) as never)],
    [add(sum((n: number) => n) as never), add(average((n: number) => n) as never)],
    [add(sum((n: number) => n) as never), add(own() as never)],
    [add(own('mine/1') as never), add(own('mine/2') as never)],
    [windows(10), windows(20)],
    [windows(20, 10), windows(20, 5)],
    [
      (keyed) => keyed.joinWindow('a', keyed, tumbling(5), (a) => a),
      (keyed) => keyed.joinWindow('a', keyed, tumbling(6), (a) => a),
    ],
    [
      (keyed) => keyed.window('a', tumbling(10)).aggregate(count()),
      (keyed) => keyed.window('a', session(10)).aggregate(count()),
    ],
  ]
  for (const [before, now] of changed) {
    expect(() => matchNames(graphOf(now), storedOf(before))).toThrow(/under that name, not .*add: \['a'\]/)
    expect(matchNames(graphOf(now), storedOf(before), { add: ['a'], drop: ['a'] }).get('a')).toBeNull()
  }
})

function reading(source: Source<unknown>): Graph {
  const graph = new Graph()
  new PipelineBuilder(graph).from('numbers', source).to('out', collectSink())
  return graph
}

it('refuses a source of another kind under one name, and reads checkpoints that have no kinds of sources', () => {
  const own: Source<unknown> = { open: () => Promise.reject(new Error('not opened')) }
  const sources = [
    valueSource([1]),
    generatedSource((n) => n),
    iterableSource(() => [1]),
    lineSource('a'),
    entrySource([{ prefix: 'a/' }]),
    own,
  ]
  for (const before of sources) {
    const positions = new Map([['numbers', new Map([['', 2]])]])
    const stored: PipelineState = { ...emptyState, ...namedParts(reading(before), positions), sinks: { out: null } }
    const { sourceKinds: _, ...older } = stored
    for (const now of sources) {
      const graph = reading(now)
      expect(matchNames(graph, older).get('numbers')).toBe('numbers')
      if (now === before) expect(matchNames(graph, stored).get('numbers')).toBe('numbers')
      else expect(() => matchNames(graph, stored)).toThrow(/under that name, not .*add: \['numbers'\].*drop: /)
      expect(matchNames(graph, stored, { add: ['numbers'], drop: ['numbers'] }).has('numbers')).toBe(true)
    }
  }
  const file = {
    ...emptyState,
    ...namedParts(reading(lineSource('a')), new Map()),
    sources: { numbers: [] },
    sinks: { out: null },
  }
  expect(matchNames(reading(jsonLineSource('a')), file).get('numbers')).toBe('numbers')
})
