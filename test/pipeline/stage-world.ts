// A simulated run on several threads: the real tasks, channels, frames, alignment and state tables of src/layers/pipeline, in one
// thread. A seed decides who moves next, how long messages wait between threads, which threads are slow, when checkpoints begin
// and are aborted, when everything crashes, and with how many threads and instances it starts again. An oracle compares every
// published checkpoint and every visible result with a plain loop.

import { Codec } from '../../src/core/codec/codec.ts'
import { groupOf, keyGroupsDefault, ownerOf } from '../../src/core/key-groups.ts'
import type { Batch, Output } from '../../src/layers/pipeline/batch.ts'
import { draws } from '../../src/layers/pipeline/definition.ts'
import type { Graph } from '../../src/layers/pipeline/graph.ts'
import { carries, pipeline, type Source, valueState } from '../../src/layers/pipeline/index.ts'
import type { OperatorContext, PoisonRecord } from '../../src/layers/pipeline/operator.ts'
import { unpackBlock } from '../../src/layers/pipeline/rules/state-block.ts'
import type { StateCapture } from '../../src/layers/pipeline/rules/state-capture.ts'
import { StateTable } from '../../src/layers/pipeline/rules/state-table.ts'
import { nextBlock } from '../../src/layers/pipeline/run/checkpoint-writer.ts'
import { Busy } from '../../src/layers/pipeline/run/computing-time.ts'
import { type CapturedTable, type NamedTable, partName } from '../../src/layers/pipeline/run/named-table.ts'
import { WatermarkGate } from '../../src/layers/pipeline/run/watermark-gate.ts'
import { type Scale, Wiring, type WiringPorts } from '../../src/layers/pipeline/run/wiring.ts'
import { type ChannelMessage, TaskOutputs } from '../../src/layers/pipeline/stages/channel.ts'
import { nodesOf, planOf, type StagePlan } from '../../src/layers/pipeline/stages/plan.ts'
import { StageTask } from '../../src/layers/pipeline/stages/stage-task.ts'

/** A fault of the world around the tasks, which the oracle must find. */
export type Plant =
  | 'barrier-overtakes-frames'
  | 'position-after-barrier'
  | 'captured-late'
  | 'frame-lost'
  | 'frame-doubled'
  | 'frames-swapped'
  | 'credit-lost'
  | 'letters-cut-late'
  | 'results-cut-late'
  | 'key-to-another-instance'

export interface Outcome {
  readonly published: number
  readonly crashes: number
  readonly aborted: number
  /** How often a source or task had to wait for credits. */
  readonly full: number
}

interface Order {
  readonly n: number
  readonly user: string
  readonly item: number
}

interface Numbered extends Order {
  readonly nth: number
}

const records = 160
const stepsMax = 60_000
const orders = Array.from({ length: records }, (_, n): Order => ({ n, user: `user-${(n * 7) % 11}`, item: n % 5 }))
const isFaulty = ({ n }: Order) => n % 13 === 5

const drawn = pipeline('world', (p) => {
  p.from('orders', { open: () => Promise.reject(new Error('the world emits the records')) } as Source<Order>)
    .keyBy(({ user }) => user)
    .process('numbered', {
      emits: carries<Numbered>(),
      state: { count: valueState<number>() },
      onRecord(order: Order, { state, emit }) {
        if (isFaulty(order)) throw new Error('not this one')
        const nth = (state.count.get() ?? 0) + 1
        state.count.set(nth)
        emit({ ...order, nth })
      },
    })
    .keyBy(({ item }) => item)
    .process('summed', {
      emits: carries<Numbered>(),
      state: { sum: valueState<number>() },
      onRecord(order: Numbered, { state, emit }) {
        state.sum.set((state.sum.get() ?? 0) + order.nth)
        emit(order)
      },
    })
    .to('out', { open: () => Promise.reject(new Error('the world takes the results')) })
})

/** Throws with the reason if a record is lost or doubled, or a checkpoint is no consistent cut. */
export function runStages(seed: number, plant: Plant | null = null): Outcome {
  return new World(seed, plant).run()
}

interface Stored {
  readonly id: number
  readonly position: number
  readonly parallelism: number
  /** The encoded blocks of each table, and the number of their cells. */
  readonly tables: ReadonlyMap<string, { readonly blocks: readonly Uint8Array[]; readonly cells: number }>
  readonly letters: readonly number[]
}

interface Attempt {
  readonly id: number
  readonly position: number
  readonly stored: Readonly<Record<string, number>>
  readonly missing: Set<number>
  readonly captures: {
    readonly name: string
    readonly capture: StateCapture
    readonly table: StateTable<unknown>
    readonly thread: number
  }[]
  letters: readonly number[] | null
  results: readonly Numbered[] | null
}

/** A message from one thread to another. */
type Message =
  | { readonly channel: ChannelMessage }
  | { readonly abort: number }
  | { readonly captured: () => void }
  | { readonly settle: () => void }

class World {
  readonly #plant: Plant | null
  readonly #codec = new Codec()
  #state: number
  #now = 0
  #graph!: Graph
  #scale!: Scale
  #plan!: StagePlan
  #outputs!: TaskOutputs
  #first!: Wiring
  #source!: Output
  #tasks = new Map<number, StageTask>()
  /** Messages in transit, in order, by 'from/to' of threads. */
  #links = new Map<string, Message[]>()
  #slow = new Set<number>()
  #position = 0
  #letters: number[] = []
  #results: Numbered[] = []
  /** What each task has captured last, in its thread. */
  readonly #held = new Map<number, { readonly checkpoint: number; readonly captures: readonly CapturedTable[] }>()
  readonly #visible: Numbered[] = []
  #attempt: Attempt | null = null
  /** The blocks on which the next checkpoint may build; null: it is written in full. */
  #base: Stored['tables'] | null = null
  #published: Stored | null = null
  #lastId = 0
  #count = { published: 0, crashes: 0, aborted: 0, full: 0 }

  constructor(seed: number, plant: Plant | null) {
    this.#state = seed * 2654435761 + 1
    this.#plant = plant
  }

  run(): Outcome {
    this.#start()
    for (let step = 0; step < stepsMax; step++) {
      this.#now += 1
      if (this.#count.crashes < 4 && this.#chance(900)) this.#crash()
      else this.#move()
      if (this.#published?.position === records && this.#attempt === null) {
        this.#checkEnd()
        return this.#count
      }
    }
    const missing = [...(this.#attempt?.missing ?? [])].map((task) => this.#plan.tasks[task]!.name)
    throw new Error(`the pipeline is stuck at ${this.#position}, waiting for ${missing.join() || 'credits'}`)
  }

  #random(below: number): number {
    this.#state = (Math.imul(this.#state, 1664525) + 1013904223) >>> 0
    return Math.floor((this.#state / 0x1_0000_0000) * below)
  }

  #chance(oneIn: number): boolean {
    return this.#random(oneIn) === 0
  }

  #crash(): void {
    this.#count.crashes += 1
    this.#start()
  }

  #start(): void {
    const parallelism = 2 + this.#random(3)
    this.#scale = { parallelism, keyGroups: keyGroupsDefault }
    this.#graph = drawn[draws]()
    this.#plan = planOf('world', this.#graph, this.#scale, 1 + this.#random(3))!
    this.#links = new Map()
    this.#slow = new Set([this.#random(6)])
    this.#attempt = null
    this.#held.clear()
    this.#results = []
    this.#letters = [...(this.#published?.letters ?? [])]
    this.#position = this.#published?.position ?? 0
    const nodes = new Map(nodesOf(this.#graph).map((node, i) => [node, i]))
    const clock = { elapsed: () => this.#now }
    const own = { plan: this.#plan, codec: this.#codec, clock, send: (message: ChannelMessage) => this.#send(message) }
    this.#outputs = new TaskOutputs({ ...own, task: 0, nodes })
    this.#first = new Wiring(this.#graph, this.#scale, { ...this.#portsOf(this.#outputs), placement: this.#outputs })
    this.#source = this.#first.outputOf(this.#graph.sources[0]!.outlet)
    this.#tasks = new Map(
      this.#plan.tasks.slice(1).map(({ task }) => [
        task,
        new StageTask({
          ...{ ...own, task, graph: this.#graph, scale: this.#scale, lastCheckpoint: this.#lastId },
          ports: (outputs) => this.#portsOf(outputs),
          letter: (_, { value }) => void this.#letters.push((value as Order).n),
          captured: (of, { checkpoint }, captures) => this.#captured(of, checkpoint, captures),
        }),
      ]),
    )
    this.#restore()
  }

  #portsOf(outputs: TaskOutputs): WiringPorts {
    return {
      make: (node, to) => node.make(to, this.#contextOf(node.name, outputs)),
      gateOf: () => new WatermarkGate(() => false),
      sinkInput: () => ({
        batch: ({ values }: Batch) => void this.#results.push(...(values as Numbered[])),
        watermark() {},
        idle() {},
      }),
      busy: new Busy(() => this.#now),
      isOneByOne: false,
    }
  }

  #contextOf(name: string, outputs: TaskOutputs): OperatorContext {
    const never = () => {
      throw new Error('no operator of this world does that')
    }
    return {
      ...{ name, pipeline: 'world', resource: null, random: { bytes: never } as never },
      clock: { now: () => this.#now, elapsed: () => this.#now } as never,
      poison: (record: PoisonRecord) => outputs.letter(name, record, 'not this one', this.#now),
      ...{ late: never, wait: never, wake() {} },
      fail: (error) => {
        throw error
      },
    }
  }

  #tables(): NamedTable[] {
    return [...this.#tasks.values()].flatMap((task) => task.tables())
  }

  /** Each key goes to the instance that owns its group, as in run/restore.ts. */
  #restore(): void {
    const stored = this.#published
    this.#base = null
    if (!stored) return
    const tables = this.#tables()
    const { parallelism, keyGroups } = this.#scale
    const isSame = stored.parallelism === parallelism
    for (const [part, { blocks }] of stored.tables) {
      const before = new StateTable<unknown>()
      for (const block of blocks) before.load(unpackBlock(this.#codec.decode(block)))
      for (const named of tables) {
        if (isSame ? partName(named) !== part : partName({ ...named, index: null }) !== part.split(':')[0]) continue
        for (const space of before.spaces()) {
          for (const [key, value] of space.entries()) {
            const owner = ownerOf(groupOf(key, keyGroups), parallelism, keyGroups)
            const wrong = this.#plant === 'key-to-another-instance' ? (owner + 1) % parallelism : owner
            if (wrong === named.index) named.table.adopt(space.id, key, value)
          }
        }
      }
    }
    for (const task of this.#tasks.values()) task.wiring.restored()
  }

  #move(): void {
    const dice = this.#random(40)
    if (dice < 9) this.#emit()
    else if (dice < 20) this.#deliver()
    else if (dice < 36) this.#step()
    else if (dice < 38) this.#flush()
    else if (dice === 38) this.#cut()
    else if (this.#chance(20)) this.#abort()
  }

  #emit(): void {
    if (this.#position >= records) return
    if (this.#outputs.isFull) {
      this.#count.full += 1
      return
    }
    const values = orders.slice(this.#position, this.#position + 1 + this.#random(4))
    this.#position += values.length
    this.#source.batch({ values, times: null, keys: null })
    if (this.#chance(2)) this.#outputs.flush()
  }

  #step(): void {
    const tasks = [...this.#tasks.values()]
    const task = tasks[this.#random(tasks.length)]!
    if (this.#slow.has(task.plan.task) && !this.#chance(8)) return
    if (task.outputs.isFull) this.#count.full += 1
    task.step()
  }

  #flush(): void {
    this.#outputs.flush()
    for (const { outputs } of this.#tasks.values()) outputs.flush()
  }

  #send(message: ChannelMessage): void {
    const isCredit = 'credit' in message
    const [from, to] = isCredit ? [message.to, message.from] : [message.from, message.to]
    if (isCredit && this.#plant === 'credit-lost' && this.#chance(6)) return
    this.#post(this.#plan.tasks[from]!.thread, this.#plan.tasks[to]!.thread, { channel: message })
  }

  #post(from: number, to: number, message: Message): void {
    if (from === to) {
      this.#take(to, message)
      return
    }
    const name = `${from}/${to}`
    const link = this.#links.get(name) ?? []
    this.#links.set(name, link)
    const isFrame = 'channel' in message && 'frame' in message.channel
    if (isFrame && this.#plant === 'frame-lost' && this.#chance(30)) return
    if ('channel' in message && 'barrier' in message.channel && this.#plant === 'barrier-overtakes-frames') {
      link.unshift(message)
      return
    }
    link.push(message)
    if (isFrame && this.#plant === 'frame-doubled' && this.#chance(30)) link.push(message)
    if (isFrame && this.#plant === 'frames-swapped' && link.length > 1) link.push(...link.splice(link.length - 2, 1))
  }

  #deliver(): void {
    const full = [...this.#links].filter(([, link]) => link.length > 0)
    if (full.length === 0) return
    const [name, link] = full[this.#random(full.length)]!
    this.#take(Number(name.split('/')[1]), link.shift()!)
  }

  #take(thread: number, message: Message): void {
    if ('captured' in message) message.captured()
    else if ('settle' in message) message.settle()
    else if ('abort' in message) this.#abortIn(thread, message.abort)
    else {
      const task = 'credit' in message.channel ? message.channel.from : message.channel.to
      if (task === 0) this.#outputs.credit(message.channel.to)
      else this.#tasks.get(task)!.receive(message.channel)
    }
  }

  /** As ThreadTasks does. */
  #abortIn(thread: number, checkpoint: number): void {
    for (const [number, task] of this.#tasks) {
      if (task.plan.thread !== thread) continue
      task.abort(checkpoint)
      const held = this.#held.get(number)
      if (held?.checkpoint === checkpoint) for (const { capture } of held.captures) capture.abandon()
    }
  }

  /** Begins a checkpoint, as Flow.cut does. */
  #cut(): void {
    if (this.#attempt) return
    const id = ++this.#lastId
    if (this.#plant === 'position-after-barrier' && this.#position > 0 && this.#position < records) this.#position -= 1
    const stored = Object.fromEntries([...(this.#base ?? [])].map(([name, { cells }]) => [name, cells]))
    const missing = new Set(this.#tasks.keys())
    const own = { id, position: this.#position, stored, missing, captures: [], letters: null, results: null }
    this.#attempt = own
    if (this.#plant === 'position-after-barrier' && this.#position > 0 && this.#position < records) this.#position += 1
    this.#outputs.barrier({ checkpoint: id, stored })
  }

  /** Runs in the turn in which a task is captured. */
  #captured(task: StageTask, checkpoint: number, captures: readonly CapturedTable[]): void {
    const { task: number, thread } = task.plan
    const isHere = thread === 0
    this.#held.set(number, { checkpoint, captures })
    const letters = number === this.#plan.last ? [...this.#letters] : null
    const results = number === this.#plan.last ? this.#results.splice(0) : null
    const tables = new Map(task.tables().map((named) => [partName(named), named.table]))
    const add = () => {
      const attempt = this.#attempt
      if (attempt?.id !== checkpoint) {
        if (results) this.#results.unshift(...results)
        return
      }
      attempt.missing.delete(number)
      for (const each of captures) {
        const name = partName(each)
        attempt.captures.push({ name, capture: each.capture as StateCapture, table: tables.get(name)!, thread })
      }
      attempt.letters ??= letters
      attempt.results ??= results
      if (attempt.missing.size === 0) this.#publish(attempt)
    }
    if (isHere) add()
    else this.#post(thread, 0, { captured: add })
  }

  #abort(): void {
    const attempt = this.#attempt
    if (!attempt) return
    this.#count.aborted += 1
    this.#attempt = null
    if (attempt.results) this.#results.unshift(...attempt.results)
    for (let thread = 0; thread <= this.#plan.threads; thread++) this.#post(0, thread, { abort: attempt.id })
  }

  #publish(attempt: Attempt): void {
    const { id, position, captures } = attempt
    this.#attempt = null
    const tables = new Map<string, { blocks: readonly Uint8Array[]; cells: number }>()
    for (const { name, capture, table, thread } of captures) {
      if (this.#plant === 'captured-late') capture.publish()
      const taken = this.#plant === 'captured-late' ? table.capture(true) : capture
      const before = taken.isFull ? undefined : this.#base?.get(name)
      const [blocks, cells] = [[...(before?.blocks ?? [])], { sum: before?.cells ?? 0 }]
      for (let block = nextBlock(taken, this.#codec); block; block = nextBlock(taken, this.#codec)) {
        blocks.push(block.bytes)
        cells.sum += block.keys + block.deleted
      }
      tables.set(name, { blocks, cells: cells.sum })
      this.#post(0, thread, { settle: () => taken.publish() })
    }
    const { parallelism } = this.#scale
    const letters = this.#plant === 'letters-cut-late' ? [...this.#letters] : attempt.letters!
    this.#visible.push(...attempt.results!)
    if (this.#plant === 'results-cut-late') this.#visible.push(...this.#results.splice(0))
    this.#published = { id, position, parallelism, tables, letters }
    this.#base = tables
    this.#count.published += 1
    this.#checkCut(this.#published)
  }

  /** State, letters and results are those of exactly the records before the position. */
  #checkCut({ id, position, tables, letters }: Stored): void {
    const { counts, sums, results, faulty } = plain(position)
    const found = { counts: new Map<string, number>(), sums: new Map<number, number>() }
    for (const [name, { blocks }] of tables) {
      const table = new StateTable<unknown>()
      for (const block of blocks) table.load(unpackBlock(this.#codec.decode(block)))
      if (!name.includes('/state.')) continue
      const into = (name.startsWith('numbered/') ? found.counts : found.sums) as Map<unknown, unknown>
      for (const space of table.spaces())
        for (const [key, cell] of space.entries()) {
          into.set(key, (cell as { readonly value: unknown }).value)
        }
    }
    const at = `checkpoint ${id} at ${position}`
    same(`${at}: letters`, [...letters].sort(byNumber), faulty)
    same(`${at}: counts`, sorted(found.counts), sorted(counts))
    same(`${at}: sums`, sorted(found.sums), sorted(sums))
    same(`${at}: results`, this.#visible.map(resultOf).sort(), results)
  }

  #checkEnd(): void {
    same('results at the end', this.#visible.map(resultOf).sort(), plain(records).results)
  }
}

function plain(position: number) {
  const [counts, sums] = [new Map<string, number>(), new Map<number, number>()]
  const [results, faulty]: [string[], number[]] = [[], []]
  for (const order of orders.slice(0, position)) {
    if (isFaulty(order)) {
      faulty.push(order.n)
      continue
    }
    const nth = (counts.get(order.user) ?? 0) + 1
    counts.set(order.user, nth)
    sums.set(order.item, (sums.get(order.item) ?? 0) + nth)
    results.push(resultOf({ ...order, nth }))
  }
  return { counts, sums, results: results.sort(), faulty: faulty.sort(byNumber) }
}

function resultOf({ n, nth }: Numbered): string {
  return `${n} is ${nth}`
}

function byNumber(a: number, b: number): number {
  return a - b
}

function sorted(map: ReadonlyMap<unknown, unknown>): string[] {
  return [...map].map(([key, value]) => `${key}: ${JSON.stringify(value)}`).sort()
}

function same(what: string, found: readonly unknown[], wanted: readonly unknown[]): void {
  if (found.length === wanted.length && found.every((each, i) => each === wanted[i])) return
  throw new Error(`${what}: ${found.join()} instead of ${wanted.join()}`)
}
