// The ways to wait: for a time, for work with a time limit, for a signal, for a condition, for a value that is set
// once, for a turn. Each takes the clock that its caller runs on, so that virtual time reaches it.

/** The part of a clock that a wait needs. With `isAwaited` the program does not end before the call; without, it may. */
export interface Timer {
  after(delayMs: number, call: () => void, isAwaited?: boolean): () => void
}

/** The timers of Node.js. */
export const realTime: Timer = {
  after(delayMs, call, isAwaited = false) {
    const timer = setTimeout(call, delayMs)
    if (!isAwaited) timer.unref()
    return () => clearTimeout(timer)
  },
}

/** Resolves after this time, or as soon as the signal fires. */
export function sleep(
  clock: Timer,
  ms: number,
  { signal, isAwaited = true }: { readonly signal?: AbortSignal | undefined; readonly isAwaited?: boolean } = {},
): Promise<void> {
  if (signal?.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    const end = () => {
      cancel()
      forget?.()
      resolve()
    }
    const cancel = clock.after(ms, end, isAwaited)
    const forget = signal && onAbort(signal, end)
  })
}

/** The result of the work, or 'late' after this time. The work itself continues. */
export function within<T>(clock: Timer, ms: number, work: Promise<T>): Promise<T | 'late'> {
  let cancel = () => {}
  const late = new Promise<'late'>((resolve) => {
    cancel = clock.after(ms, () => resolve('late'), true)
  })
  // A remaining timer would keep a finished program alive.
  return Promise.race([work, late]).finally(cancel)
}

/** The result of the work, or the error of `late` after this time. The work itself continues. */
export function withinOrFail<T>(clock: Timer, ms: number, work: Promise<T>, late: () => Error): Promise<T> {
  let cancel = () => {}
  const over = new Promise<never>((_, reject) => {
    cancel = clock.after(ms, () => reject(late()), true)
  })
  return Promise.race([work, over]).finally(cancel)
}

/** All waiters of one signal share one listener. Node.js warns of a leak when a signal has more than ten listeners. */
class AbortWaiters {
  readonly #signal: AbortSignal
  readonly #all = new Set<() => void>()

  constructor(signal: AbortSignal) {
    this.#signal = signal
  }

  add(waiter: () => void): void {
    if (this.#all.size === 0) this.#signal.addEventListener('abort', this.#fire)
    this.#all.add(waiter)
  }

  delete(waiter: () => void): void {
    if (this.#all.delete(waiter) && this.#all.size === 0) this.#signal.removeEventListener('abort', this.#fire)
  }

  readonly #fire = () => {
    for (const waiter of [...this.#all]) {
      this.delete(waiter)
      waiter()
    }
  }
}

const waitersOf = new WeakMap<AbortSignal, AbortWaiters>()

/** Calls the listener once, when the signal fires. Returns the function that stops listening. */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  const waiters = waitersOf.get(signal) ?? new AbortWaiters(signal)
  waitersOf.set(signal, waiters)
  // A new function per call, so that the same listener can be registered twice.
  const waiter = () => listener()
  waiters.add(waiter)
  return () => waiters.delete(waiter)
}

/** An interruptible sleep for one sleeper: it ends after its time, or at the next ring. */
export class Alarm {
  readonly #clock: Timer
  readonly #isAwaited: boolean
  #hasRung = false
  #end: (() => void) | null = null

  constructor(clock: Timer, { isAwaited = false } = {}) {
    this.#clock = clock
    this.#isAwaited = isAwaited
  }

  ring(): void {
    this.#hasRung = true
    this.#end?.()
  }

  /** Call it before reading: any later ring ends the next wait. */
  hush(): void {
    this.#hasRung = false
  }

  /** Resolves at once if it has rung since the last `hush`. */
  async wait(ms: number): Promise<void> {
    if (!this.#hasRung) await this.sleep(ms)
  }

  /** Like `wait`, for callers that do not `hush`: each ring ends one nap, the current or the next. */
  async nap(ms: number): Promise<void> {
    if (!this.#hasRung) await this.sleep(ms, () => this.hush())
    else this.hush()
  }

  /** Resolves at the next ring, however often it has rung before. */
  sleep(ms: number, onEnd?: () => void): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#clock.after(ms, () => this.#end?.(), this.#isAwaited)
      this.#end = () => {
        cancel()
        this.#end = null
        onEnd?.()
        resolve()
      }
    })
  }
}

/** A condition variable: every change notifies, and the waiters check again. */
export class Condition {
  readonly #checks = new Set<() => void>()

  changed(): void {
    for (const check of this.#checks) check()
  }

  until(isMet: () => boolean): Promise<void> {
    if (isMet()) return Promise.resolve()
    return new Promise((resolve) => {
      const check = () => {
        if (!isMet()) return
        this.#checks.delete(check)
        resolve()
      }
      this.#checks.add(check)
    })
  }
}

/** An event that happens once, with waiters. Nothing is allocated before the first waiter: some callers keep many instances. */
export class Latch<T = void> {
  #happened: { readonly value: T } | null = null
  #waiting: ((value: T) => void)[] | null = null

  get isSet(): boolean {
    return this.#happened !== null
  }

  /** Only the first call counts. */
  set(value: T): void {
    if (this.#happened) return
    this.#happened = { value }
    for (const resolve of this.#waiting ?? []) resolve(value)
    this.#waiting = null
  }

  wait(): Promise<T> {
    if (this.#happened) return Promise.resolve(this.#happened.value)
    return new Promise((resolve) => {
      this.#waiting ??= []
      this.#waiting.push(resolve)
    })
  }
}

/** Runs pieces of work one after another, in call order. A failure does not stop the next piece. */
export class Mutex {
  #last: Promise<unknown> | null = null

  /** No work runs or waits: work before the next await runs alone. */
  get isFree(): boolean {
    return this.#last === null
  }

  /** Starts at once if the mutex is free; work that returns no promise then leaves it free. */
  run<T>(work: () => T | Promise<T>): Promise<T> {
    if (this.#last) return this.#hold(this.#last.then(work, work))
    const result = work()
    return result instanceof Promise ? this.#hold(result) : Promise.resolve(result)
  }

  #hold<T>(pending: Promise<T>): Promise<T> {
    this.#last = pending
    const free = () => {
      if (this.#last === pending) this.#last = null
    }
    pending.then(free, free)
    return pending
  }
}

/** One task at a time for each key; tasks of different keys run concurrently. @example await mutexes.run(id, () => write(id)) */
export class Mutexes {
  readonly #last = new Map<string, Promise<unknown>>()

  run<T>(key: string, task: () => Promise<T>): Promise<T> {
    const next = (this.#last.get(key) ?? Promise.resolve()).then(task)
    const settled = next
      .catch(() => undefined)
      .finally(() => {
        if (this.#last.get(key) === settled) this.#last.delete(key)
      })
    this.#last.set(key, settled)
    return next
  }
}

/** Limits concurrency; further callers wait in call order. */
export class Slots {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(count: number) {
    this.#free = count
  }

  async use<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1
    else await new Promise<void>((resolve) => void this.#waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#free += 1
    }
  }
}

/**
 * A read that callers share, one at a time. A read in progress may have begun before a new call: one more read
 * then serves all callers that arrive meanwhile.
 */
export class SharedRead {
  readonly #read: () => Promise<void>
  #current: Promise<void> | null = null
  #next: Promise<void> | null = null

  constructor(read: () => Promise<void>) {
    this.#read = read
  }

  /** Null: no read is in progress. */
  get current(): Promise<void> | null {
    return this.#current
  }

  get hasNext(): boolean {
    return this.#next !== null
  }

  run(): Promise<void> {
    if (!this.#current) return this.#start()
    this.#next ??= this.#current.catch(() => undefined).then(() => this.#start())
    return this.#next
  }

  #start(): Promise<void> {
    this.#next = null
    const read = this.#read()
    this.#current = read
    const done = () => {
      if (this.#current === read) this.#current = null
    }
    read.then(done, done)
    return read
  }
}
