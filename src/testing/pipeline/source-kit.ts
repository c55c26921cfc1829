// The contract of a pipeline source as tests: the behaviour that a pipeline needs from any source to be exactly-once. It
// needs no particular test runner: pass it describe and it.

import assert from 'node:assert/strict'
import { isReprise } from '../../core/errors.ts'
import { open as openEngine } from '../../engine/api/open.ts'
import type { Engine } from '../../engine/model/definition.ts'
import type { Source, SourceContext, SourceReader } from '../../layers/pipeline/index.ts'
import { realTime, withinOrFail } from '../../lib/waiting.ts'
import type { Runner } from '../conformance/suite.ts'

/** The world of one test: a source with records, and operations to change the system behind it. */
export interface SourceWorld<T> {
  /** A new source each time, as another process would create it. */
  source(): Source<T>
  /** The expected values after `decode`, by partition; the name of an only partition is ''. At least four records. */
  expected(): ReadonlyMap<string, readonly T[]>
  /** Whether the source ends after the last record; otherwise it waits for more. */
  readonly ends: boolean
  /** The engine with which the source is opened. Default: an engine in memory. */
  readonly engine?: Engine
  /** Adds records during reading: `expected` then includes them. */
  add?(): Promise<void>
  /** Adds a partition with records during reading: `expected` then includes it. */
  addPartition?(): Promise<void>
  /** Makes the system behind the source forget all records before its newest one. */
  forget?(): Promise<void>
  destroy(): Promise<void>
}

export interface SourceHarness<T> {
  readonly name: string
  create(): Promise<SourceWorld<T>>
}

type Given<T> = Map<string, T[]>

interface Opened<T> {
  readonly reader: SourceReader<T>
  readonly decode: ((value: never) => T) | undefined
  readonly positions: Map<string, unknown>
  readonly given: Given<T>
  readonly abort: AbortController
}

/** How long a test waits for an expected event. */
const patienceMs = 30_000
/** Number of positions from which a source is opened again. */
const placesMax = 12

/** @example sourceConformance({ describe, it }, { name: 'my queue', create: async () => ({ … }) }) */
export function sourceConformance<T>(runner: Runner, harness: SourceHarness<T>): void {
  const test = (title: string, body: (kit: SourceKit<T>) => Promise<void>) =>
    runner.it(title, () => inWorld(harness, (world, engine) => new SourceKit<T>(world, engine), body))
  runner.describe(`the source ${harness.name}`, () => {
    test('returns every record once, in the order of its partition', (kit) => kit.everything())
    test('continues after any position, without gap or repetition', (kit) => kit.resumes())
    test('has positions that are plain data, and names its partitions before it emits their records', (kit) =>
      kit.plain())
    test('ends, or waits until it is aborted; closed twice, nothing happens', (kit) => kit.ends())
    test('returns records that are added while it is read', (kit) => kit.grows())
    test('finds a partition that appears', (kit) => kit.finds())
    test('reads only the partitions that it receives', (kit) => kit.shares())
    test('stays where it is when checkpoints are published', (kit) => kit.acknowledges())
    test('refuses a position of another source', (kit) => kit.refuses())
    test('refuses a position that is gone', (kit) => kit.gone())
  })
}

interface PipelineWorld {
  readonly engine?: Engine
  destroy(): Promise<void>
}

/** One test in a world of its own, which is removed afterwards. */
export async function inWorld<World extends PipelineWorld, Kit extends { end(): Promise<void> }>(
  harness: { create(): Promise<World> },
  kitOf: (world: World, engine: Engine) => Kit,
  body: (kit: Kit) => Promise<void>,
): Promise<void> {
  const world = await harness.create()
  const engine = world.engine ?? (await openEngine('memory:'))
  const kit = kitOf(world, engine)
  try {
    await body(kit)
  } finally {
    await kit.end()
    await world.destroy()
    if (!world.engine) await (engine as { close(): Promise<void> } & Engine).close()
  }
}

class SourceKit<T> {
  readonly #world: SourceWorld<T>
  readonly #engine: Engine
  readonly #open = new Set<Opened<T>>()

  constructor(world: SourceWorld<T>, engine: Engine) {
    this.#world = world
    this.#engine = engine
  }

  async everything(): Promise<void> {
    for (const max of [1, 3, 1000]) {
      const opened = await this.#begin(null)
      await this.#readAll(opened, max)
      this.#assertGiven(opened.given, new Map())
      await this.#close(opened)
    }
  }

  async resumes(): Promise<void> {
    const places: { readonly positions: Map<string, unknown>; readonly given: Given<T> }[] = []
    const first = await this.#begin(null)
    await this.#readAll(first, 2, () => {
      places.push({ positions: clone(first.positions), given: copy(first.given) })
    })
    await this.#close(first)
    const step = Math.max(1, Math.ceil(places.length / placesMax))
    const chosen = places.filter((_, i) => i % step === 0 || i === places.length - 1)
    for (const [i, { positions, given }] of chosen.entries()) {
      const again = await this.#begin(positions)
      await this.#readAll(again, 1 + (i % 5), () => undefined, given)
      this.#assertGiven(again.given, given)
      await this.#close(again)
    }
  }

  async plain(): Promise<void> {
    const opened = await this.#begin(null)
    const names = new Set(opened.reader.partitions())
    for (const partition of this.#world.expected().keys()) {
      assert.ok(names.has(partition), `partitions() must name '${partition}' as soon as it is open`)
    }
    await this.#readAll(opened, 2, () => void assertPlain(opened.positions))
    for (const partition of opened.positions.keys()) {
      assert.ok(
        opened.reader.partitions().includes(partition),
        `it returned records of '${partition}', which it does not name`,
      )
    }
    await this.#close(opened)
  }

  async ends(): Promise<void> {
    const opened = await this.#begin(null)
    await this.#readAll(opened, 100)
    if (this.#world.ends) {
      assert.equal(await this.#next(opened, 100), null, 'it must return null at its end')
      const again = await this.#begin(clone(opened.positions))
      for (let read = await this.#next(again, 10); read !== null; read = await this.#next(again, 10)) {
        assert.equal(read.values.length, 0, 'nothing follows its end')
      }
      await this.#close(again)
    }
    const settled = within(Promise.resolve(opened.reader.read(100)), 'a read must settle when the signal fires')
    opened.abort.abort(new Error('the test is over'))
    // Null, an empty batch or an error are all fine: the read must not wait forever.
    await settled.then(
      () => undefined,
      (error) => assert.ok(!(error instanceof assert.AssertionError), String(error)),
    )
    await within(opened.reader.close(), 'close must settle')
    await within(
      opened.reader.close().catch(() => undefined),
      'a second close must settle',
    )
    this.#open.delete(opened)
  }

  async grows(): Promise<void> {
    if (!this.#world.add) return
    const opened = await this.#begin(null)
    await this.#readAll(opened, 10)
    await this.#world.add()
    await this.#readAll(opened, 10)
    this.#assertGiven(opened.given, new Map())
    await this.#close(opened)
  }

  async finds(): Promise<void> {
    if (!this.#world.addPartition) return
    const opened = await this.#begin(null)
    await this.#readAll(opened, 10)
    await this.#world.addPartition()
    await this.#readAll(opened, 10)
    this.#assertGiven(opened.given, new Map())
    const again = await this.#begin(clone(opened.positions))
    await this.#readAll(again, 10, () => undefined, opened.given)
    await this.#close(opened)
    await this.#close(again)
  }

  /** For a source that several tasks share: each reads only its own partitions and names no other. */
  async shares(): Promise<void> {
    const source = this.#world.source()
    if (!source.partitions) return
    const context = { engine: this.#engine, pipeline: 'pipeline/kit', name: 'in', signal: new AbortController().signal }
    const found = await source.partitions(context)
    const names = [...this.#world.expected().keys()]
    for (const name of names) assert.ok(found.includes(name), `partitions() of the source must find '${name}'`)
    const opened = await this.#begin(null, [names[0]!])
    await this.#readAll(opened, 10, () => undefined, new Map(), [names[0]!])
    assert.deepEqual([...opened.reader.partitions()], [names[0]], 'it names only the partitions that it received')
    assert.deepEqual(opened.given.get(names[0]!), this.#world.expected().get(names[0]!))
    await this.#close(opened)
  }

  async acknowledges(): Promise<void> {
    const opened = await this.#begin(null)
    let published = new Map<string, unknown>()
    let atPublished: Given<T> = new Map()
    let batches = 0
    await this.#readAll(opened, 2, async () => {
      if (batches++ % 2 === 0) {
        published = clone(opened.positions)
        atPublished = copy(opened.given)
        await opened.reader.published?.(published)
        await opened.reader.published?.(published)
      }
    })
    await this.#close(opened)
    const again = await this.#begin(published)
    await this.#readAll(again, 3, () => undefined, atPublished)
    this.#assertGiven(again.given, atPublished)
    await this.#close(again)
  }

  async refuses(): Promise<void> {
    const partitions = [...this.#world.expected().keys()]
    const foreign = new Map<string, unknown>(partitions.map((name) => [name, { kind: 'of another source' }]))
    const begun = this.#begin(foreign).then((opened) => this.#next(opened, 1))
    await assert.rejects(within(begun, 'it must refuse, or return a record'), (error) =>
      isReprise(error, 'INVALID_ARGUMENT'),
    )
  }

  async gone(): Promise<void> {
    if (!this.#world.forget) return
    const first = await this.#begin(null)
    await this.#next(first, 1)
    const early = clone(first.positions)
    await this.#close(first)
    await this.#world.forget()
    const again = this.#begin(early).then((opened) => this.#next(opened, 1))
    await assert.rejects(within(again, 'it must refuse'), (error) => isReprise(error, 'POSITION_GONE'))
  }

  async end(): Promise<void> {
    for (const opened of [...this.#open]) await this.#close(opened).catch(() => undefined)
  }

  async #begin(from: Map<string, unknown> | null, partitions: readonly string[] | null = null): Promise<Opened<T>> {
    const abort = new AbortController()
    const source = this.#world.source()
    const context: SourceContext = {
      ...{ engine: this.#engine, pipeline: 'pipeline/kit', name: 'in', signal: abort.signal, partitions },
    }
    const reader = await within(source.open(from, context), 'open must settle')
    const opened = { reader, decode: source.decode, positions: new Map(from), given: new Map(), abort }
    this.#open.add(opened)
    return opened
  }

  async #close(opened: Opened<T>): Promise<void> {
    this.#open.delete(opened)
    opened.abort.abort(new Error('closed'))
    await within(opened.reader.close(), 'close must settle')
  }

  /** Reads until all expected records arrived. */
  async #readAll(
    opened: Opened<T>,
    max: number,
    onBatch: () => void | Promise<void> = () => undefined,
    before: Given<T> = new Map(),
    partitions: readonly string[] = [...this.#world.expected().keys()],
  ): Promise<void> {
    const isDone = () =>
      partitions.every((name) => {
        const wanted = this.#world.expected().get(name)!.length - (before.get(name)?.length ?? 0)
        return (opened.given.get(name)?.length ?? 0) >= wanted
      })
    while (!isDone()) {
      const read = await this.#next(opened, max)
      assert.ok(read !== null, `it ended before every record was returned: ${JSON.stringify([...opened.given])}`)
      await onBatch()
    }
  }

  async #next(opened: Opened<T>, max: number) {
    const read = await within(Promise.resolve(opened.reader.read(max)), 'a read must return the available records')
    if (read === null) return null
    opened.positions.set(read.partition, read.position)
    const values = read.values.flatMap((value) => decoded(value, opened.decode))
    const given = opened.given.get(read.partition) ?? []
    given.push(...values)
    opened.given.set(read.partition, given)
    return read
  }

  #assertGiven(given: Given<T>, before: Given<T>): void {
    for (const [partition, expected] of this.#world.expected()) {
      const rest = expected.slice(before.get(partition)?.length ?? 0)
      assert.deepEqual(given.get(partition) ?? [], rest, `records of partition '${partition}'`)
    }
  }
}

/** Empty: the record is a dead letter. */
function decoded<T>(value: unknown, decode: ((value: never) => T) | undefined): T[] {
  if (!decode) return [value as T]
  try {
    return [decode(value as never)]
  } catch {
    return []
  }
}

function clone(positions: ReadonlyMap<string, unknown>): Map<string, unknown> {
  return structuredClone(new Map(positions))
}

function copy<T>(given: Given<T>): Given<T> {
  return new Map([...given].map(([name, values]) => [name, [...values]]))
}

/** Positions are stored: no functions, no classes, nothing that can change after it was handed over. */
function assertPlain(value: unknown): void {
  if (value === null || typeof value !== 'object') {
    assert.ok(['string', 'number', 'bigint', 'boolean', 'undefined', 'object'].includes(typeof value), 'plain data')
    return
  }
  if (value instanceof Map) for (const each of value.values()) assertPlain(each)
  else if (Array.isArray(value)) value.forEach(assertPlain)
  else {
    assert.equal(Object.getPrototypeOf(value), Object.prototype, 'a position is plain data')
    Object.values(value).forEach(assertPlain)
  }
}

function within<R>(promise: Promise<R>, what: string): Promise<R> {
  const late = () => new assert.AssertionError({ message: `${what} (waited ${patienceMs} ms)` })
  return withinOrFail(realTime, patienceMs, promise, late)
}
