// The tasks of one worker thread: built from the thread's own copy of the module, filled with restored state, and run until the
// main thread stops them. A thread has no store: its state leaves as encoded blocks, which the main thread writes.

import { assert } from '../../../core/assert.ts'
import { Codec } from '../../../core/codec/codec.ts'
import { RepriseError } from '../../../core/errors.ts'
import { isRetryLater } from '../../../core/retry/retry.ts'
import { systemClock, systemRandom } from '../../../engine/base/platform.ts'
import type { Graph } from '../graph.ts'
import type { OperatorContext } from '../operator.ts'
import { unpackBlock } from '../rules/state-block.ts'
import type { StateCapture } from '../rules/state-capture.ts'
import { nextBlock } from '../run/checkpoint-writer.ts'
import { Busy } from '../run/computing-time.ts'
import { isFaultyCode, noRetryLater, textOf } from '../run/letters.ts'
import { type CapturedTable, cellsPerBlock, type TableName } from '../run/named-table.ts'
import { WatermarkGate } from '../run/watermark-gate.ts'
import type { WiringPorts } from '../run/wiring.ts'
import type { Barrier, ChannelMessage, TaskOutputs } from './channel.ts'
import {
  type CapturedHere,
  type CaptureName,
  type FromThread,
  type ThreadSettings,
  type ToThread,
  toPlainError,
} from './messages.ts'
import { outlineOf, planOf, type StagePlan } from './plan.ts'
import { StageTask } from './stage-task.ts'
import { TaskLoop } from './task-loop.ts'

export class ThreadTasks {
  readonly #settings: ThreadSettings
  readonly #codec = new Codec()
  readonly #tasks = new Map<number, StageTask>()
  readonly #captures = new Map<number, { readonly checkpoint: number; readonly tables: readonly CapturedTable[] }>()
  readonly #busy = new Busy(() => systemClock.elapsed())
  readonly #loop: TaskLoop
  readonly #report: (message: FromThread) => void
  #lateRecords = 0

  /** `send` takes messages of channels, to this or another thread; `report` takes messages for the main thread. */
  constructor(
    graph: Graph,
    settings: ThreadSettings,
    send: (plan: StagePlan, message: ChannelMessage) => void,
    report: (message: FromThread) => void,
  ) {
    const { pipeline, scale, threads, thread, outline, lastCheckpoint } = settings
    this.#settings = settings
    this.#report = report
    const plan = planOf(pipeline, graph, scale, threads)
    if (plan === null || outlineOf(graph, scale) !== outline) {
      const what = `the pipeline ${pipeline} has different parts in thread ${thread}: its module must draw the same graph in every thread`
      throw new RepriseError('INVALID_ARGUMENT', what)
    }
    for (const { task } of plan.tasks.filter((each) => each.thread === thread)) {
      const made = new StageTask({
        ...{ plan, task, graph, scale, codec: this.#codec, clock: systemClock, lastCheckpoint },
        ports: (outputs) => this.#portsOf(outputs),
        send: (message) => send(plan, message),
        letter: () => assert(false, 'dead letters are stored in the main thread'),
        captured: (from, barrier, tables) => this.#captured(from, barrier, tables),
      })
      this.#tasks.set(task, made)
    }
    this.#loop = new TaskLoop(systemClock, [...this.#tasks.values()], () => this.#reportFigures())
  }

  take(message: ToThread): void {
    switch (message.kind) {
      case 'channel':
        this.receive(message.message)
        break
      case 'load':
        this.#load(message.to, message.block)
        break
      case 'start':
        this.#start()
        break
      case 'pull':
        this.#pull(message.of)
        break
      case 'settle':
        this.#settle(message.of, message.isPublished)
        break
      case 'abort':
        this.#abort(message.checkpoint)
        break
      case 'stop':
        this.#loop.stop()
        break
    }
  }

  receive(message: ChannelMessage): void {
    const task = this.#tasks.get('credit' in message ? message.from : message.to)
    assert(task !== undefined, 'a message of a channel arrives in the thread of its task')
    task.receive(message)
    this.#loop.wake()
  }

  #start(): void {
    for (const task of this.#tasks.values()) task.wiring.restored()
    this.#loop.run().catch((error) => this.#fail(error))
  }

  #load({ operator, name, index }: TableName, block: Uint8Array): void {
    const all = [...this.#tasks.values()].flatMap((task) => task.tables())
    const to = all.find((each) => each.operator === operator && each.name === name && each.index === index)
    assert(to !== undefined, 'restored state is sent to the thread of its instance')
    to.table.load(unpackBlock(this.#codec.decode(block)))
  }

  #portsOf(outputs: TaskOutputs): WiringPorts {
    return {
      make: (node, to) => node.make(to, this.#contextOf(node.name, outputs)),
      gateOf: () => new WatermarkGate(() => false),
      sinkInput: () => {
        throw new RepriseError('INVALID_ARGUMENT', 'sinks are in the main thread')
      },
      busy: this.#busy,
      isOneByOne: false,
    }
  }

  #contextOf(name: string, outputs: TaskOutputs): OperatorContext {
    return {
      ...{ name, pipeline: this.#settings.timeline, clock: systemClock, random: systemRandom, resource: null },
      poison: (record, error) => {
        if (isFaultyCode(error)) return this.#fail(error)
        if (isRetryLater(error)) return this.#fail(noRetryLater(name))
        outputs.letter(name, record, textOf(error), systemClock.now())
      },
      late: (count) => {
        this.#lateRecords += count
      },
      wait: (until) => void until.catch((error) => this.#fail(error)),
      wake: () => this.#loop.wake(),
      fail: (error) => this.#fail(error),
    }
  }

  #fail(error: unknown): void {
    this.#loop.stop()
    this.#report({ kind: 'failed', error: toPlainError(error) })
  }

  #captured({ plan }: StageTask, { checkpoint }: Barrier, tables: readonly CapturedTable[]): void {
    this.#captures.set(plan.task, { checkpoint, tables })
    const reported = tables.map(({ operator, name, index, capture }): CapturedHere => {
      const { isFull, size, builtOn, promised } = capture
      const isSmall = promised.keys + promised.deleted <= cellsPerBlock
      const blocks = isSmall ? [...this.#blocksOf(capture as StateCapture)] : null
      return { operator, name, index, isFull, size, builtOn, promised, blocks }
    })
    this.#reportFigures()
    this.#report({ kind: 'captured', task: plan.task, checkpoint, tables: reported })
  }

  *#blocksOf(capture: StateCapture) {
    for (let block = nextBlock(capture, this.#codec); block; block = nextBlock(capture, this.#codec)) yield block
  }

  #pull(of: CaptureName): void {
    const capture = this.#captureOf(of)
    // An aborted checkpoint needs no further block.
    if (capture) this.#report({ kind: 'block', of, block: nextBlock(capture, this.#codec) ?? null })
  }

  #settle(of: CaptureName, isPublished: boolean): void {
    const capture = this.#captureOf(of)
    if (isPublished) capture?.publish()
    else capture?.abandon()
  }

  #captureOf({ task, checkpoint, table }: CaptureName): StateCapture | undefined {
    const held = this.#captures.get(task)
    return held?.checkpoint === checkpoint ? (held.tables[table]!.capture as StateCapture) : undefined
  }

  #abort(checkpoint: number): void {
    for (const task of this.#tasks.values()) task.abort(checkpoint)
    for (const held of this.#captures.values()) {
      if (held.checkpoint === checkpoint) for (const { capture } of held.tables) capture.abandon()
    }
    this.#loop.wake()
  }

  #reportFigures(): void {
    const tasks = [...this.#tasks.values()].map((task) => task.counts())
    this.#report({ kind: 'figures', tasks, lateRecords: this.#lateRecords })
  }
}
