// A simulated pipeline: sources, tasks with channels, transactional sinks and the coordinator, with a seed that decides who
// moves next, which messages are delayed or lost, and when everything crashes. The protocol is the real one (core/pipeline);
// the transport of records is not. An oracle compares every published cut and every committed output with the input.

import { groupOf, groupsOf, ownerOf } from '../../src/core/key-groups.ts'
import { type Aligned, Alignment } from '../../src/layers/pipeline/rules/alignment.ts'
import {
  type CheckpointAction,
  CheckpointCoordinator,
  type TaskAttempt,
} from '../../src/layers/pipeline/rules/coordinator.ts'

export type Plant =
  | 'position-after-barrier'
  | 'no-alignment'
  | 'old-attempt-acknowledged'
  | 'commit-before-publish'
  | 'id-used-again'
  | 'prepared-forgotten'
  | 'unknown-discarded'
  | 'overtaken-lost'
  | 'abort-swallowed'
  | 'key-group-off-by-one'

interface Item {
  readonly kind: 'record' | 'barrier' | 'cancel'
  readonly source: number
  readonly position: number
  readonly id: number
}

interface Snapshot {
  readonly task: string
  /** Sources: the position. Others: the records seen from each source. Sinks also: the prepared output. */
  readonly position: number
  readonly seen: readonly (readonly number[])[]
  readonly prepared: readonly { readonly id: number; readonly records: readonly string[] }[]
}

interface Task {
  readonly name: string
  /** Among its stage: also the channel that it sends on. */
  readonly index: number
  readonly attempt: number
  readonly channels: Item[][]
  readonly alignment: Alignment | null
  outputs: readonly Task[]
  readonly seen: number[][]
  position: number
  buffer: string[]
  prepared: { id: number; records: string[] }[]
}

export interface Outcome {
  readonly published: number
  readonly crashes: number
  readonly aborted: number
}

const sources = 3
const middlesMax = 3
const sinks = 2
const keyGroups = 8
const recordsEach = 18
const stepsMax = 60_000
const groups = Array.from({ length: sources }, (_, source) =>
  Array.from({ length: 7 }, (_each, key) => groupOf(`${source}-${key}`, keyGroups)),
)
const allOutput = Array.from({ length: sources }, (_, source) =>
  Array.from({ length: recordsEach }, (_each, i) => `${source}/${i + 1}`),
)
  .flat()
  .sort()
  .join()

/** Throws with the reason if a promise of the protocol is broken. */
export function runBarriers(seed: number, plant: Plant | null = null): Outcome {
  return new World(seed, plant).run()
}

class World {
  readonly #plant: Plant | null
  #state: number
  #now = 0
  #attempt = 0
  #lastId = 0
  #tasks = new Map<string, Task>()
  #everyone: Task[] = []
  /** Sinks of an earlier life that have not noticed yet. */
  #zombies: Task[] = []
  #coordinator!: CheckpointCoordinator<Snapshot>
  /** Messages between tasks and the coordinator, delivered in any order. */
  #mail: (() => void)[] = []
  /** The store: the published cut, and what sinks have made visible. */
  #published: { id: number; snapshots: ReadonlyMap<string, Snapshot> } | null = null
  /** Outside systems: prepared transactions by sink and checkpoint. */
  readonly #open = new Map<string, readonly string[]>()
  readonly #visible: string[] = []
  readonly #discarded = new Set<Snapshot>()
  #mustCrash = false
  #requests = 0
  /** How many tasks the middle is divided into: drawn anew at every restart. */
  #middles = 2
  /** For a planted bug: the newest checkpoint that each task has captured. */
  readonly #overtaken = new Map<Task, number>()
  #count = { published: 0, crashes: 0, aborted: 0 }

  constructor(seed: number, plant: Plant | null) {
    this.#state = seed * 2654435761 + 1
    this.#plant = plant
  }

  run(): Outcome {
    this.#start()
    for (let step = 0; step < stepsMax; step++) {
      this.#now += 1
      if (this.#mustCrash || (this.#count.crashes < 4 && this.#chance(400))) this.#crash()
      else this.#move()
      if (this.#isDone()) {
        this.#checkOutput()
        return this.#count
      }
    }
    throw new Error('the pipeline is stuck')
  }

  #random(below: number): number {
    this.#state = (Math.imul(this.#state, 1664525) + 1013904223) >>> 0
    return Math.floor((this.#state / 0x1_0000_0000) * below)
  }

  #chance(oneIn: number): boolean {
    return this.#random(oneIn) === 0
  }

  #start(): void {
    this.#attempt += 1
    this.#mail = this.#mail.filter(() => this.#chance(2))
    if (this.#plant === 'id-used-again' || this.#plant === 'old-attempt-acknowledged')
      this.#lastId = this.#published?.id ?? 0
    this.#coordinator = new CheckpointCoordinator<Snapshot>({ timeoutMs: 150, failuresMax: 1000 }, this.#lastId)
    this.#zombies = this.#everyone.filter((task) => task.outputs.length === 0)
    this.#tasks = new Map()
    this.#middles = 1 + this.#random(middlesMax)
    this.#overtaken.clear()
    const cut = this.#published?.snapshots
    const make = (stage: string, index: number, channels: number): Task => {
      const name = `${stage}-${index}`
      const from = cut?.get(name)
      const task: Task = {
        name,
        index,
        attempt: this.#attempt,
        channels: Array.from({ length: channels }, () => []),
        alignment: channels === 0 ? null : new Alignment(channels, this.#published?.id ?? 0),
        outputs: [],
        seen:
          stage === 'middle'
            ? this.#divided(index)
            : from
              ? from.seen.map((seen) => [...seen])
              : Array.from({ length: sources }, () => []),
        position: from?.position ?? 0,
        buffer: [],
        prepared: [],
      }
      this.#tasks.set(name, task)
      return task
    }
    const many = (count: number, one: (index: number) => Task) => Array.from({ length: count }, (_, i) => one(i))
    const first = many(sources, (i) => make('source', i, 0))
    const middle = many(this.#middles, (i) => make('middle', i, sources))
    const last = many(sinks, (i) => make('sink', i, this.#middles))
    for (const task of first) task.outputs = middle
    for (const task of middle) task.outputs = last
    this.#everyone = [...first, ...middle, ...last]
    // Recovery of the sinks: transactions in the manifest are committed, others are aborted.
    for (let i = 0; i < sinks; i++) {
      const listed = cut?.get(`sink-${i}`)?.prepared ?? []
      for (const { id } of this.#plant === 'prepared-forgotten' ? [] : listed) this.#commit(`sink-${i}`, id)
      for (const key of [...this.#open.keys()]) if (key.startsWith(`sink-${i}:`)) this.#open.delete(key)
    }
    for (const task of this.#tasks.values()) this.#act(this.#coordinator.running(task.name, task.attempt, this.#now))
  }

  /** The state of this middle task: from the state of all middle tasks in the cut, its own key groups. */
  #divided(task: number): number[][] {
    const { first, end } = groupsOf(task, this.#middles, keyGroups)
    const last = this.#plant === 'key-group-off-by-one' ? end : end - 1
    const before = [...(this.#published?.snapshots.values() ?? [])].filter((each) => each.task.startsWith('middle'))
    return Array.from({ length: sources }, (_, source) =>
      before.flatMap(({ seen }) =>
        seen[source]!.filter((position) => {
          const group = groupOfRecord(source, position)
          return group >= first && group <= last
        }),
      ),
    )
  }

  #crash(): void {
    this.#mustCrash = false
    this.#count.crashes += 1
    this.#start()
  }

  #move(): void {
    const dice = this.#random(10)
    if (dice === 0 && this.#mail.length > 0) {
      const [message] = this.#mail.splice(this.#random(this.#mail.length), 1)
      message!()
    } else if (dice === 1) {
      if (this.#chance(3)) this.#request()
      this.#act(this.#coordinator.tick(this.#now))
    } else {
      const isZombie = this.#zombies.length > 0 && this.#chance(20)
      const tasks = isZombie ? this.#zombies : this.#everyone
      this.#step(tasks[this.#random(tasks.length)]!)
    }
  }

  #request(): void {
    const kind = (['savepoint', 'manual', 'periodic', 'periodic'] as const)[this.#random(4)]!
    this.#act(this.#coordinator.request(++this.#requests, kind, this.#now))
  }

  #step(task: Task): void {
    if (task.alignment === null) {
      if (task.position < recordsEach) this.#emit(task, task.position + 1)
      return
    }
    const channel = this.#readyChannel(task)
    if (channel === null) return
    const item = task.channels[channel]!.shift()!
    if (item.kind === 'record') this.#receive(task, item)
    else if (item.kind === 'barrier') {
      if (this.#plant === 'no-alignment' && task.alignment.isWaiting(channel)) return
      if (this.#plant === 'overtaken-lost') this.#overtake(task, item.id)
      else this.#aligned(task, task.alignment.barrier(channel, item.id))
    } else this.#abort(task, item.id)
  }

  /** Any of those that have something and do not wait. */
  #readyChannel(task: Task): number | null {
    const isReady = (channel: number) =>
      task.channels[channel]!.length > 0 && (this.#plant === 'no-alignment' || !task.alignment!.isWaiting(channel))
    let ready = 0
    for (let channel = 0; channel < task.channels.length; channel++) if (isReady(channel)) ready += 1
    if (ready === 0) return null
    let skipped = this.#random(ready)
    for (let channel = 0; ; channel++) if (isReady(channel) && skipped-- === 0) return channel
  }

  #emit(task: Task, position: number): void {
    task.position = position
    const source = task.index
    const output = task.outputs[ownerOf(groupOfRecord(source, position), this.#middles, keyGroups)]!
    this.#send(task, output, { kind: 'record', source, position, id: 0 })
  }

  #receive(task: Task, item: Item): void {
    task.seen[item.source]!.push(item.position)
    if (task.outputs.length === 0) task.buffer.push(`${item.source}/${item.position}`)
    else this.#send(task, task.outputs[(item.position + item.source) % task.outputs.length]!, item)
  }

  #send(from: Task, to: Task, item: Item): void {
    to.channels[from.index]!.push(item)
  }

  #sendAll(from: Task, kind: 'barrier' | 'cancel', id: number): void {
    for (const output of from.outputs) this.#send(from, output, { kind, source: 0, position: 0, id })
  }

  #aligned(task: Task, { cancel, capture }: Aligned): void {
    if (cancel !== null) {
      this.#decline(task, cancel)
      this.#sendAll(task, 'cancel', cancel)
    }
    if (capture !== null) this.#capture(task, capture)
  }

  /** A faulty barrier that does not wait for the others, and drops the records it overtook. */
  #overtake(task: Task, id: number): void {
    if ((this.#overtaken.get(task) ?? 0) >= id) return
    this.#overtaken.set(task, id)
    this.#capture(task, id)
  }

  #abort(task: Task, id: number): void {
    if (this.#plant !== 'abort-swallowed') this.#aligned(task, task.alignment!.abort(id))
    if (task.alignment!.pending === id) throw new Error(`${task.name} waits for checkpoint ${id}, which was called off`)
  }

  #decline(task: Task, id: number): void {
    const from: TaskAttempt = { task: task.name, attempt: task.attempt }
    this.#mail.push(() => this.#act(this.#coordinator.decline(id, from, 'gave up', this.#now)))
  }

  #capture(task: Task, id: number): void {
    // The barrier goes first; capture and barrier are one turn, so nothing comes between them.
    this.#sendAll(task, 'barrier', id)
    if (this.#plant === 'position-after-barrier' && task.alignment === null && task.position < recordsEach) {
      this.#emit(task, task.position + 1)
    }
    if (task.outputs.length === 0) {
      task.prepared.push({ id, records: task.buffer })
      this.#open.set(`${task.name}:${id}`, task.buffer)
      task.buffer = []
      if (this.#plant === 'commit-before-publish') this.#commit(task.name, id)
    }
    const snapshot: Snapshot = {
      task: task.name,
      position: task.position,
      seen: task.seen.map((seen) => [...seen]),
      prepared: task.prepared.map((each) => ({ ...each })),
    }
    const attempt = task.attempt
    this.#mail.push(() => {
      const as = this.#plant === 'old-attempt-acknowledged' ? this.#attempt : attempt
      this.#act(this.#coordinator.acknowledge(id, { task: task.name, attempt: as }, snapshot))
    })
  }

  #act(actions: readonly CheckpointAction<Snapshot>[]): void {
    for (const action of actions) {
      if (action.do === 'start') {
        // The id is in the pipeline's history before anybody hears of it.
        this.#lastId = Math.max(this.#lastId, action.id)
        for (let i = 0; i < sources; i++) this.#toTask(`source-${i}`, (task) => this.#capture(task, action.id))
      } else if (action.do === 'abort') {
        this.#count.aborted += 1
        for (const task of this.#tasks.values()) {
          if (task.alignment) this.#toTask(task.name, (each) => this.#abort(each, action.id), 8)
        }
      } else if (action.do === 'publish') this.#publish(action.id, action.snapshots)
      else if (action.do === 'complete') {
        for (let i = 0; i < sinks; i++) this.#toTask(`sink-${i}`, (task) => this.#completed(task, action.id), 8)
      } else if (action.do === 'discard') this.#discard(action.snapshots)
    }
  }

  /** One in `lostOneIn` messages is lost, if it may be: the protocol must not rely on it. */
  #toTask(name: string, what: (task: Task) => void, lostOneIn = 0): void {
    const attempt = this.#attempt
    if (lostOneIn > 0 && this.#chance(lostOneIn)) return
    this.#mail.push(() => {
      const task = this.#tasks.get(name)
      if (task?.attempt === attempt) what(task)
    })
  }

  #completed(task: Task, id: number): void {
    for (const prepared of task.prepared) if (prepared.id <= id) this.#commit(task.name, prepared.id)
    task.prepared = task.prepared.filter((prepared) => prepared.id > id)
  }

  /** Idempotent, as the contract of a sink asks. */
  #commit(sink: string, id: number): void {
    this.#visible.push(...(this.#open.get(`${sink}:${id}`) ?? []))
    this.#open.delete(`${sink}:${id}`)
  }

  #publish(id: number, snapshots: ReadonlyMap<string, Snapshot>): void {
    const outcome = this.#random(12)
    const coordinator = this.#coordinator
    if (outcome === 0) {
      this.#mail.push(() => {
        if (coordinator === this.#coordinator) this.#act(coordinator.refused(id, 'no room', this.#now))
      })
      return
    }
    // The answer to one in six is lost; whether it was applied is then for the next recovery to find out.
    const isLost = outcome < 3
    if (!isLost || this.#chance(2)) this.#apply(id, snapshots)
    this.#mail.push(() => {
      if (coordinator !== this.#coordinator) return
      if (!isLost) return this.#act(coordinator.published(id, this.#now))
      this.#act(coordinator.unknown(id, 'no answer'))
      if (this.#plant === 'unknown-discarded') this.#discard(snapshots.values())
      this.#mustCrash = true
    })
  }

  #apply(id: number, snapshots: ReadonlyMap<string, Snapshot>): void {
    if (this.#published && id <= this.#published.id) throw new Error(`checkpoint ${id} was published twice`)
    this.#checkCut(snapshots)
    this.#published = { id, snapshots }
    this.#checkNamed()
    this.#count.published += 1
  }

  /** No record's effect is in the cut without the record, and no record before the cut lacks its effect. */
  #checkCut(snapshots: ReadonlyMap<string, Snapshot>): void {
    for (const stage of ['middle', 'sink']) {
      const tasks = [...snapshots.values()].filter(({ task }) => task.startsWith(stage))
      for (let source = 0; source < sources; source++) {
        const { position } = snapshots.get(`source-${source}`)!
        const seen = tasks.flatMap((task) => task.seen[source]!).sort((a, b) => a - b)
        if (seen.length !== position || seen.some((each, i) => each !== i + 1)) {
          throw new Error(`inconsistent cut at ${stage}: ${seen} of ${position}`)
        }
      }
    }
  }

  #discard(snapshots: Iterable<Snapshot>): void {
    for (const snapshot of snapshots) this.#discarded.add(snapshot)
    this.#checkNamed()
  }

  #checkNamed(): void {
    if (this.#published && [...this.#published.snapshots.values()].some((snapshot) => this.#discarded.has(snapshot))) {
      throw new Error('a published checkpoint lost what it names')
    }
  }

  #isDone(): boolean {
    return this.#visible.length >= sources * recordsEach
  }

  #checkOutput(): void {
    if ([...this.#visible].sort().join() !== allOutput) throw new Error('output was lost or doubled')
  }
}

/** The key of a record in the middle: seven keys per source. */
function groupOfRecord(source: number, position: number): number {
  return groups[source]![position % 7]!
}
