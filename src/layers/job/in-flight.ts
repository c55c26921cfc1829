// The tasks of a shard that are in flight, found by key. With millions of items, a Map would leave a chain of outgrown
// tables behind, each with its last items, and the collector would keep them all until its next full collection. Here a
// task is linked into a fixed array of buckets, and leaves nothing behind when it is removed.

export interface InFlight {
  readonly key: string
  readonly print: string
  /** The next task in the bucket; used only by this file. */
  nextInFlight: this | null
}

const firstBuckets = 64

export class Flight<Task extends InFlight> {
  #buckets: (Task | null)[] = new Array<Task | null>(firstBuckets).fill(null)
  #size = 0

  get size(): number {
    return this.#size
  }

  has(key: string, print: string): boolean {
    return this.get(key, print) !== null
  }

  get(key: string, print: string): Task | null {
    for (let task = this.#buckets[this.#bucketOf(print)]!; task !== null; task = task.nextInFlight!) {
      if (task.key === key) return task
    }
    return null
  }

  /** The caller has checked that no task has this key. */
  add(task: Task): void {
    if (this.#size >= this.#buckets.length * 2) this.#grow()
    this.#link(task)
    this.#size += 1
  }

  delete(task: Task): void {
    const at = this.#bucketOf(task.print)
    let before: Task | null = null
    for (let each = this.#buckets[at]!; each !== null; each = each.nextInFlight!) {
      if (each !== task) {
        before = each
        continue
      }
      if (before) before.nextInFlight = task.nextInFlight
      else this.#buckets[at] = task.nextInFlight
      // Otherwise a removed task would keep its successors from being collected.
      task.nextInFlight = null
      this.#size -= 1
      return
    }
  }

  /** A copy: tasks may come and go during iteration. */
  all(): Task[] {
    const tasks: Task[] = []
    for (const first of this.#buckets) {
      for (let task = first; task !== null; task = task.nextInFlight) tasks.push(task)
    }
    return tasks
  }

  #link(task: Task): void {
    const at = this.#bucketOf(task.print)
    task.nextInFlight = this.#buckets[at]!
    this.#buckets[at] = task
  }

  #grow(): void {
    const tasks = this.all()
    this.#buckets = new Array<Task | null>(this.#buckets.length * 4).fill(null)
    for (const task of tasks) this.#link(task)
  }

  #bucketOf(print: string): number {
    return (print.charCodeAt(6) | (print.charCodeAt(7) << 8) | (print.charCodeAt(8) << 16)) & (this.#buckets.length - 1)
  }
}
