// Where branches of a stream meet again, records are in the order that one record at a time would produce. A whole batch
// passes through each branch with the position of every record (`order`). The operators where branches meet keep arriving
// records until all branches have processed the batch, then take them record by record. Their results continue as one batch
// again.

import { assert } from '../../../core/assert.ts'
import type { PipelineKey } from '../../../core/key-groups.ts'
import { type Batch, type Output, slice, toAll } from '../batch.ts'
import type { Operator } from '../operator.ts'

/** Sends a batch through branches, and onward from the operators where they meet. */
export function throughBranches(branches: readonly Output[], meetings: readonly Meeting[]): Output {
  const all = toAll(branches)
  return {
    batch(batch) {
      const count = batch.values.length
      if (count === 1) return all.batch(batch)
      for (const meeting of meetings) meeting.begin()
      branches.forEach((branch, b) => {
        const order = new Array<number>(count)
        for (let i = 0; i < count; i++) order[i] = i * branches.length + b
        branch.batch({ values: batch.values, times: batch.times, keys: batch.keys, order })
      })
      for (const meeting of meetings) meeting.end(meeting === meetings.at(-1))
    },
    watermark: (time) => all.watermark(time),
    idle: () => all.idle(),
  }
}

interface Arrived {
  readonly number: number
  readonly input: Output
  readonly batch: Batch
}

/** An operator in which branches meet: all of its instances. */
export class Meeting {
  readonly #spend: (work: () => void) => void
  readonly #arrived = new Map<Operator, Arrived[]>()
  readonly #gathered: Gathered[] = []
  #isOpen = false

  /** `spend` counts the operator's computing time. */
  constructor(spend: (work: () => void) => void) {
    this.#spend = spend
  }

  /** Wraps the input with this number of an instance. */
  before(operator: Operator, number: number, input: Output): Output {
    return {
      batch: (batch) => {
        if (!this.#isOpen) return input.batch(batch)
        const arrived = this.#arrived.get(operator)
        if (arrived) arrived.push({ number, input, batch })
        else this.#arrived.set(operator, [{ number, input, batch }])
      },
      watermark: (time) => input.watermark(time),
      idle: () => input.idle(),
    }
  }

  behind(output: Output): Output {
    const gathered = new Gathered(output)
    this.#gathered.push(gathered)
    return gathered
  }

  begin(): void {
    this.#isOpen = true
  }

  /** Every branch has processed the batch. After the last merge, records need no order. */
  end(isLast: boolean): void {
    this.#isOpen = false
    if (this.#arrived.size === 0) return
    const all = [...this.#arrived]
    this.#arrived.clear()
    for (const gathered of this.#gathered) gathered.begin()
    this.#spend(() => {
      for (const [operator, arrived] of all) take(operator, arrived)
    })
    for (const gathered of this.#gathered) gathered.end(isLast)
  }
}

function take(operator: Operator, arrived: readonly Arrived[]): void {
  const [first] = arrived
  if (arrived.length === 1) first!.input.batch(first!.batch)
  else if (operator.mixed) {
    const inputs: number[] = []
    const batch = arrived.length === 2 ? mergeTwo(first!, arrived[1]!, inputs) : mergeAll(arrived, inputs)
    operator.mixed(batch, inputs)
  } else inOrder(arrived, ({ input, batch }, from, to) => input.batch(slice(batch, from, to)))
}

function mergeAll(arrived: readonly Arrived[], inputs: number[]): Batch {
  const columns = new Columns()
  inOrder(arrived, ({ number, batch }, from, to) => {
    columns.add(batch, from, to)
    for (let i = from; i < to; i++) inputs.push(number)
  })
  return columns.batch()
}

/** The same for two batches, which is most of them: the records often alternate, and a call for each of them would cost most. */
function mergeTwo(one: Arrived, other: Arrived, inputs: number[]): Batch {
  const [a, b] = [orderOf(one.batch), orderOf(other.batch)]
  const count = a.length + b.length
  const values = new Array<unknown>(count)
  const order = new Array<number>(count)
  const times = one.batch.times && other.batch.times && new Array<number>(count)
  const keys = one.batch.keys && other.batch.keys && new Array<PipelineKey>(count)
  inputs.length = count
  for (let i = 0, j = 0, at = 0; at < count; at++) {
    const isOne = j >= b.length || (i < a.length && a[i]! <= b[j]!)
    const { batch, number } = isOne ? one : other
    const from = isOne ? i++ : j++
    values[at] = batch.values[from]
    order[at] = (isOne ? a : b)[from]!
    inputs[at] = number
    if (times) times[at] = batch.times![from]!
    if (keys) keys[at] = batch.keys![from]!
  }
  return { values, times, keys, order }
}

/** Calls back for the longest stretches of consecutive records within one of the batches. */
function inOrder(arrived: readonly Arrived[], call: (from: Arrived, start: number, end: number) => void): void {
  const orders = arrived.map(({ batch }) => orderOf(batch))
  const places = orders.map(() => 0)
  for (;;) {
    // Find the batch with the lowest next position, and the end of its stretch. Equal positions are results of one record that
    // were sent to several instances: the first instance is used.
    let first = -1
    let place = Number.POSITIVE_INFINITY
    let limit = Number.POSITIVE_INFINITY
    for (let b = 0; b < orders.length; b++) {
      const next = orders[b]![places[b]!]
      if (next === undefined) continue
      if (next < place) {
        limit = place
        place = next
        first = b
      } else if (next < limit) limit = next
    }
    if (first < 0) return
    const order = orders[first]!
    const start = places[first]!
    let end = start + 1
    while (end < order.length && (order[end]! < limit || order[end] === place)) end += 1
    places[first] = end
    call(arrived[first]!, start, end)
  }
}

function orderOf({ order }: Batch): readonly number[] {
  assert(order !== undefined, 'records that meet have an order')
  return order
}

/** Collects the output of an operator that takes records one by one into one batch. */
class Gathered implements Output {
  readonly #next: Output
  #isOpen = false
  /** The only batch so far: it is passed on unchanged. */
  #first: Batch | null = null
  #columns: Columns | null = null

  constructor(next: Output) {
    this.#next = next
  }

  begin(): void {
    this.#isOpen = true
  }

  end(isLast: boolean): void {
    const batch = this.#columns?.batch() ?? this.#first
    this.#isOpen = false
    this.#first = null
    this.#columns = null
    if (batch === null) return
    const { values, times, keys } = batch
    this.#next.batch(isLast ? { values, times, keys } : batch)
  }

  batch(batch: Batch): void {
    if (!this.#isOpen) this.#next.batch(batch)
    else if (this.#first === null) this.#first = batch
    else {
      if (this.#columns === null) {
        this.#columns = new Columns()
        this.#columns.add(this.#first, 0, this.#first.values.length)
      }
      this.#columns.add(batch, 0, batch.values.length)
    }
  }

  watermark(time: number): void {
    this.#next.watermark(time)
  }

  idle(): void {
    this.#next.idle()
  }
}

class Columns {
  readonly #values: unknown[] = []
  readonly #times: number[] = []
  readonly #keys: PipelineKey[] = []
  readonly #order: number[] = []

  add({ values, times, keys, order }: Batch, from: number, to: number): void {
    for (let i = from; i < to; i++) {
      this.#values.push(values[i])
      if (times) this.#times.push(times[i]!)
      if (keys) this.#keys.push(keys[i]!)
      if (order) this.#order.push(order[i]!)
    }
  }

  batch(): Batch {
    const given = <T>(column: T[]) => (column.length > 0 ? column : null)
    const [times, keys, order] = [given(this.#times), given(this.#keys), given(this.#order)]
    return { values: this.#values, times, keys, ...(order && { order }) }
  }
}
