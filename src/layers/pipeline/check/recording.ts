// A recording of a pipeline's input, read from the position of a checkpoint and kept in memory, so that it can be replayed any
// number of times: the same records, one at a time, in the same order. Nothing is acknowledged, and no position moves.

import type { Clock } from '../../../core/store/ports.ts'
import type { Engine } from '../../../engine/model/definition.ts'
import { within } from '../../../lib/waiting.ts'
import type { Graph } from '../graph.ts'
import type { PipelineState } from '../run/state.ts'
import type { Source, SourceBatch, SourceReader } from '../source.ts'

export interface RecordedInput {
  readonly source: string
  readonly partition: string
  /** The value as read from the source, before it is decoded. */
  readonly value: unknown
}

export interface Recording {
  readonly inputs: readonly RecordedInput[]
  /** The clock time of the recording. All records share it, so that a slow machine records the same input. */
  readonly at: number
  /** The existing partitions of each source, with or without records. */
  readonly partitions: ReadonlyMap<string, readonly string[]>
}

export interface RecordingOf {
  readonly engine: Engine
  readonly clock: Clock
  readonly pipeline: string
  readonly graph: Graph
  /** The state to read from; null: the beginning. */
  readonly state: PipelineState | null
  readonly storedAs: (name: string) => string | null
  readonly only: readonly string[] | null
  /** Substitutes for sources of the pipeline. */
  readonly inputs: ReadonlyMap<string, Source<unknown>>
  readonly records: number
  readonly quietMs: number
}

/** The number of records read from each source in turn. */
const turnRecords = 256

export async function recordInput(of: RecordingOf): Promise<Recording> {
  const ending = new AbortController()
  const readers = new Map<string, SourceReader<unknown>>()
  try {
    for (const { name, source } of of.graph.sources) {
      const given = of.inputs.get(name)
      const stored = given ? null : of.storedAs(name)
      const positions = stored === null ? undefined : of.state?.sources[stored]
      const context = { engine: of.engine, pipeline: of.pipeline, name, signal: ending.signal, partitions: of.only }
      readers.set(name, await (given ?? source).open(positions ? new Map(positions) : null, context))
    }
    return await readAll(of, readers)
  } finally {
    ending.abort()
    await Promise.allSettled([...readers.values()].map((reader) => reader.close()))
  }
}

async function readAll(of: RecordingOf, readers: ReadonlyMap<string, SourceReader<unknown>>): Promise<Recording> {
  const inputs: RecordedInput[] = []
  const at = of.clock.now()
  const open = new Set(readers.keys())
  while (open.size > 0 && inputs.length < of.records) {
    for (const name of [...open]) {
      const batch = await readOne(of, readers.get(name)!, Math.min(turnRecords, of.records - inputs.length))
      if (batch === null) open.delete(name)
      else for (const value of batch.values) inputs.push({ source: name, partition: batch.partition, value })
      if (inputs.length >= of.records) break
    }
  }
  return { inputs, at, partitions: new Map([...readers].map(([name, reader]) => [name, reader.partitions()])) }
}

/** Null: the source ended or is silent. */
async function readOne(
  { clock, quietMs }: RecordingOf,
  reader: SourceReader<unknown>,
  max: number,
): Promise<SourceBatch<unknown> | null> {
  const reading = reader.read(max)
  if (!(reading instanceof Promise)) return reading
  // A read abandoned at the end may reject later.
  reading.catch(() => undefined)
  const batch = await within(clock, quietMs, reading)
  return batch === 'late' ? null : batch
}
