// Virtual time and the order of everything: a heap of events, of which the seed decides the delays. An event may belong
// to a process; then it waits while the process is paused and is dropped when it is dead. After each event the event loop
// is drained, so that all the code that became ready has run before the next one.

export class Scheduler {
  now = 0
  /** A digest of all events, for comparing two runs of a seed. */
  traceHash = 0x811c9dc5
  events = 0
  #heap = []
  #order = 0
  #print

  constructor(print = null) {
    this.#print = print
  }

  get isIdle() {
    return this.#heap.length === 0
  }

  /** Calls at now + delayMs; the returned function cancels. */
  after(delayMs, owner, run) {
    const event = { at: this.now + Math.max(0, delayMs), order: this.#order++, owner, run }
    this.#push(event)
    return () => {
      event.run = null
    }
  }

  note(text) {
    let hash = this.traceHash
    for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
    this.traceHash = hash >>> 0
    this.#print?.(`${this.now.toFixed(2).padStart(9)} ${text}`)
  }

  /** One event and everything that follows from it at once. False: nothing is left to do. */
  async step() {
    for (;;) {
      const event = this.#pop()
      if (!event) return false
      const { owner, run } = event
      if (!run || owner?.isDead) continue
      this.now = Math.max(this.now, event.at)
      if (owner && owner.pausedUntil > this.now) {
        event.at = owner.pausedUntil
        this.#push(event)
        continue
      }
      this.events += 1
      await run()
      await drain()
      return true
    }
  }

  #push(event) {
    const heap = this.#heap
    let index = heap.length
    heap.push(event)
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (!isBefore(event, heap[parent])) break
      heap[index] = heap[parent]
      index = parent
    }
    heap[index] = event
  }

  #pop() {
    const heap = this.#heap
    const first = heap[0]
    const last = heap.pop()
    if (!first || heap.length === 0) return first
    let index = 0
    for (;;) {
      let child = 2 * index + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isBefore(heap[child + 1], heap[child])) child += 1
      if (!isBefore(heap[child], last)) break
      heap[index] = heap[child]
      index = child
    }
    heap[index] = last
    return first
  }
}

function isBefore(a, b) {
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}

/** All microtasks run before the next turn of the event loop, however many follow from each other. */
export function drain() {
  return new Promise((resolve) => setImmediate(resolve))
}
