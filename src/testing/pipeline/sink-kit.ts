// The contract of a two-phase pipeline sink as tests: a process is killed at each step, checkpoints fail, commits are
// repeated, and a replaced owner keeps writing. In every case outsiders see exactly the records of published checkpoints:
// none is lost, and in a sink that is exactly-once, none is duplicated. It needs no particular test runner.

import assert from 'node:assert/strict'
import type { Engine } from '../../engine/model/definition.ts'
import type { Prepared, Sink, SinkWriter } from '../../layers/pipeline/index.ts'
import type { Runner } from '../conformance/suite.ts'
import { inWorld } from './source-kit.ts'

/** The world of one test: an outside system, and the sink that writes to it. */
export interface SinkWorld<T> {
  /** A new sink each time, as another process would create it. */
  sink(): Sink<T>
  /** The nth record. */
  value(n: number): T
  /** The numbers of the records that an outsider sees now, in order. */
  visible(): Promise<readonly number[]>
  /** False: at least once. Published records must be visible; others may be too, and records may be doubled. */
  readonly isExactlyOnce: boolean
  /** The engine with which the sink is opened. Default: an engine in memory. */
  readonly engine?: Engine
  destroy(): Promise<void>
}

export interface SinkHarness<T> {
  readonly name: string
  create(): Promise<SinkWorld<T>>
  /** Seeds of the random histories. Default: three seeds. */
  readonly seeds?: readonly number[]
}

/** @example sinkConformance({ describe, it }, { name: 'my queue', create: async () => ({ … }) }) */
export function sinkConformance<T>(runner: Runner, harness: SinkHarness<T>): void {
  const test = (title: string, body: (kit: SinkKit<T>) => Promise<void>) =>
    runner.it(title, () => inWorld(harness, (world, engine) => new SinkKit<T>(world, engine), body))
  runner.describe(`the sink ${harness.name}`, () => {
    test('shows records when their checkpoint is committed, and no others', (kit) => kit.commits())
    test('shows records once when a commit is repeated', (kit) => kit.commitsAgain())
    test('passes the records of a failed checkpoint to the next one', (kit) => kit.rejoins())
    test('commits, after a kill, the transactions of a published checkpoint', (kit) => kit.recovers())
    test('aborts, after a kill, transactions that no published checkpoint lists', (kit) => kit.givesUp())
    test('takes checkpoints without records', (kit) => kit.takesNothing())
    test('is not disturbed by an owner that was replaced', (kit) => kit.fences())
    for (const seed of harness.seeds ?? [1, 2, 3]) {
      test(`holds through a random history (seed ${seed})`, (kit) => kit.random(seed))
    }
  })
}

/** One process that runs the sink. */
interface Process {
  readonly writer: SinkWriter
  readonly epoch: number
  /** Records that are not in a cut yet. */
  written: number[]
}

interface Cut {
  readonly numbers: readonly number[]
  readonly prepare: () => Promise<Prepared>
}

class SinkKit<T> {
  readonly #world: SinkWorld<T>
  readonly #engine: Engine
  readonly #processes: Process[] = []
  #epoch = 0
  #checkpoint = 0
  #number = 0
  /** The `Prepared` of the newest published checkpoint. */
  #listed: Prepared | null = null
  /** All records of published checkpoints. */
  readonly #published: number[] = []

  constructor(world: SinkWorld<T>, engine: Engine) {
    this.#world = world
    this.#engine = engine
  }

  async commits(): Promise<void> {
    const process = await this.#start()
    await this.#write(process, this.#new(3))
    const cut = this.#cut(process)
    await this.#write(process, this.#new(2))
    const prepared = await cut.prepare()
    await this.#assertVisible('before anything is published')
    this.#publish(cut, prepared)
    await process.writer.commit(prepared)
    await this.#assertVisible('after the first commit')
    await this.#checkpointOf(process)
    await this.#assertVisible('after the second commit')
    if (this.#world.isExactlyOnce) assert.deepEqual(await this.#world.visible(), this.#published, 'in order')
  }

  async commitsAgain(): Promise<void> {
    const process = await this.#start()
    await this.#write(process, this.#new(3))
    const prepared = await this.#checkpointOf(process)
    await process.writer.commit(prepared)
    await this.#assertVisible('after a repeated commit')
    const next = await this.#start()
    await this.#assertVisible('after the next process committed it again')
    await this.#write(next, this.#new(1))
    await this.#checkpointOf(next)
    await (await this.#start()).writer.close()
    await this.#assertVisible('in the end')
  }

  async rejoins(): Promise<void> {
    const process = await this.#start()
    for (const isPrepared of [true, false, true]) {
      await this.#write(process, this.#new(2))
      const cut = this.#cut(process)
      await this.#write(process, this.#new(1))
      if (isPrepared) await cut.prepare()
      this.#rejoin(process, cut)
    }
    await this.#assertVisible('before anything is published')
    await this.#checkpointOf(process)
    await this.#assertVisible('after the checkpoint that went through')
    if (this.#world.isExactlyOnce) assert.deepEqual(await this.#world.visible(), this.#published, 'in order')
  }

  async recovers(): Promise<void> {
    const killed = await this.#start()
    await this.#write(killed, this.#new(3))
    const cut = this.#cut(killed)
    await this.#write(killed, this.#new(2))
    this.#publish(cut, await cut.prepare())
    const again = killed.written
    for (let n = 0; n < 2; n++) {
      await this.#start()
      await this.#assertVisible('after a kill between publish and commit')
    }
    const next = await this.#start()
    await this.#write(next, again)
    await this.#checkpointOf(next)
    await this.#assertVisible('after the next checkpoint')
  }

  async givesUp(): Promise<void> {
    const first = await this.#start()
    await this.#write(first, this.#new(2))
    await this.#checkpointOf(first)
    await this.#write(first, this.#new(2))
    const cut = this.#cut(first)
    await cut.prepare()
    // Killed before the publication: the records are read again.
    const next = await this.#start()
    await this.#assertVisible('after a kill between prepare and publish')
    await this.#write(next, cut.numbers)
    // Killed in the middle of writing.
    const last = await this.#start()
    await this.#write(last, cut.numbers)
    await this.#checkpointOf(last)
    await this.#assertVisible('after the checkpoint of the next run')
  }

  async takesNothing(): Promise<void> {
    const process = await this.#start()
    await this.#checkpointOf(process)
    await this.#checkpointOf(process)
    const next = await this.#start()
    await this.#write(next, this.#new(1))
    await this.#checkpointOf(next)
    await this.#checkpointOf(next)
    const last = await this.#start()
    await this.#checkpointOf(last)
    await this.#assertVisible('in the end')
  }

  async fences(): Promise<void> {
    const old = await this.#start()
    await this.#write(old, this.#new(2))
    const cut = this.#cut(old)
    const prepared = await cut.prepare()
    this.#publish(cut, prepared)
    await this.#write(old, this.#new(2))
    const lost = old.written
    const owner = await this.#start()
    // The old owner wakes up: it commits the published results, and continues until its next checkpoint is refused.
    await old.writer.commit(prepared).catch(() => undefined)
    await this.#zombie(old)
    await this.#write(owner, lost)
    await this.#checkpointOf(owner)
    await this.#zombie(old)
    await this.#assertVisible('while an old owner still works')
    await this.#write(owner, this.#new(1))
    await this.#checkpointOf(owner)
    await (await this.#start()).writer.close()
    await this.#assertVisible('in the end')
  }

  async random(seed: number): Promise<void> {
    const chance = randomOf(seed)
    let process = await this.#start()
    for (let step = 0; step < 24; step++) {
      await this.#write(process, this.#new(Math.floor(chance() * 4)))
      const what = chance()
      if (what < 0.2) {
        const cut = this.#cut(process)
        if (chance() < 0.5) await this.#write(process, this.#new(1))
        if (chance() < 0.5) await cut.prepare()
        this.#rejoin(process, cut)
      } else if (what < 0.6) {
        const prepared = await this.#checkpointOf(process, this.#new(Math.floor(chance() * 3)))
        if (chance() < 0.3) await process.writer.commit(prepared)
      } else {
        const old = process
        const again = await this.#kill(old, what)
        process = await this.#start()
        if (chance() < 0.5) await this.#zombie(old)
        await this.#write(process, again)
      }
      if (step % 4 === 3) await this.#assertVisible(`after step ${step} of seed ${seed}`)
    }
    await this.#checkpointOf(process)
    await this.#assertVisible(`at the end of seed ${seed}`)
  }

  async end(): Promise<void> {
    for (const { writer } of this.#processes) await writer.close().catch(() => undefined)
  }

  /** Takes over: every earlier process is dead, or does not know yet that it was replaced. */
  async #start(): Promise<Process> {
    const context = { engine: this.#engine, pipeline: 'pipeline/kit', name: 'out' }
    const sink = this.#world.sink()
    const writer = await sink.open(context, structuredClone(this.#listed))
    assert.ok(
      !writer.apply,
      'a sink that writes in the commit of the checkpoint has one phase: test it with a pipeline',
    )
    const process = { writer, epoch: ++this.#epoch, written: [] }
    this.#processes.push(process)
    return process
  }

  #new(count: number): number[] {
    return Array.from({ length: count }, () => this.#number++)
  }

  async #write(process: Process, numbers: readonly number[]): Promise<void> {
    process.written.push(...numbers)
    const values = numbers.map((n) => this.#world.value(n))
    if (values.length > 0) await process.writer.write({ values, times: null, keys: null })
  }

  #cut(process: Process): Cut {
    const prepare = process.writer.cut({ checkpoint: ++this.#checkpoint, epoch: process.epoch })
    const numbers = process.written
    process.written = []
    return { numbers, prepare }
  }

  #rejoin(process: Process, cut: Cut): void {
    process.writer.rejoin()
    process.written = [...cut.numbers, ...process.written]
  }

  #publish(cut: Cut, prepared: Prepared): void {
    this.#listed = structuredClone(prepared) ?? null
    this.#published.push(...cut.numbers)
  }

  async #checkpointOf(process: Process, meanwhile: readonly number[] = []): Promise<Prepared> {
    const cut = this.#cut(process)
    await this.#write(process, meanwhile)
    const prepared = await cut.prepare()
    this.#publish(cut, prepared)
    await process.writer.commit(prepared)
    return prepared
  }

  /** Kills the process before it cuts, publishes or commits, or after; returns the records to write again. */
  async #kill(process: Process, when: number): Promise<readonly number[]> {
    if (when < 0.7) return process.written
    const cut = this.#cut(process)
    if (when < 0.8) {
      await cut.prepare()
      return cut.numbers
    }
    const prepared = await cut.prepare()
    this.#publish(cut, prepared)
    if (when > 0.9) await process.writer.commit(prepared)
    return process.written
  }

  /** A replaced owner continues until its checkpoint is refused. Any step may refuse it as fenced. */
  async #zombie({ writer, epoch }: Process): Promise<void> {
    try {
      await writer.write({ values: [this.#world.value(999_999)], times: null, keys: null })
      await writer.cut({ checkpoint: this.#checkpoint + 1, epoch })()
      writer.rejoin()
    } catch {
      // Refused, which is even better.
    }
  }

  async #assertVisible(when: string): Promise<void> {
    const visible = await this.#world.visible()
    if (this.#world.isExactlyOnce) {
      assert.deepEqual([...visible].sort(byNumber), [...this.#published].sort(byNumber), `visible ${when}`)
      return
    }
    const there = new Set(visible)
    const lost = this.#published.filter((n) => !there.has(n))
    assert.deepEqual(lost, [], `lost ${when}`)
  }
}

function byNumber(a: number, b: number): number {
  return a - b
}

/** Returns the same numbers for the same seed. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
