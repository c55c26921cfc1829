// A pipeline in several threads of one process: each is a worker that shares only the store with the others, and takes its
// share of the partitions, like a process. The guarantees for several processes therefore hold for threads: tasks are fenced
// by epochs, and none waits for another. This thread only supervises them.

import { Worker } from 'node:worker_threads'
import { RepriseError } from '../core/errors.ts'
import type { PipelineWorkOptions } from '../layers/pipeline/index.ts'
import type { TasksStatus } from '../layers/pipeline/run/tasks.ts'
import type { StoreOptions } from './store.ts'

export interface ThreadOf {
  readonly file: string
  readonly name: string
  readonly number: number
  readonly store: StoreOptions
  readonly options: PipelineWorkOptions
}

export type ThreadMessage =
  | { readonly status: TasksStatus; readonly waits: readonly string[] }
  | { readonly problem: string }

export type ThreadCommand = 'stop' | 'abandon'

const path = new URL(`./thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url)

export class Threads {
  readonly #workers: readonly Worker[]
  readonly #status = new Map<number, TasksStatus>()
  readonly #waits = new Map<number, readonly string[]>()
  /** Resolves when all threads have ended by themselves; rejects if one failed, after the others were stopped. */
  readonly ended: Promise<void>

  constructor(count: number, of: Omit<ThreadOf, 'number'>, onProblem: (words: string) => void) {
    this.#workers = Array.from({ length: count }, (_, number) => {
      const worker = new Worker(path, { workerData: { ...of, number } satisfies ThreadOf })
      worker.on('message', (message: ThreadMessage) => {
        if ('status' in message) {
          this.#status.set(number, message.status)
          this.#waits.set(number, message.waits)
        } else onProblem(`thread ${number}: ${message.problem}`)
      })
      return worker
    })
    this.ended = this.#end()
    this.ended.catch(() => undefined)
  }

  /** The combined status of all threads. */
  get status(): TasksStatus {
    const all = [...this.#status.values()]
    const sum = (of: (status: TasksStatus) => number) => all.reduce((total, each) => total + of(each), 0)
    const most = (of: (status: TasksStatus) => number) => Math.max(0, ...all.map(of))
    return {
      running: sum(({ running }) => running),
      records: sum(({ records }) => records),
      // One of the threads knows first that a partition is done.
      done: most(({ done }) => done),
      partitions: most(({ partitions }) => partitions),
    }
  }

  /** The calls in progress in each thread. */
  get waits(): readonly string[] {
    return [...this.#waits].flatMap(([number, waits]) => waits.map((what) => `thread ${number}: ${what}`))
  }

  /**
   * Ends at once, without progress after the last checkpoints. Each thread closes its store and exits by itself: terminating
   * a thread with an open database from outside aborts the process (SIGABRT).
   */
  async abandon(): Promise<void> {
    for (const worker of this.#workers) worker.postMessage('abandon' satisfies ThreadCommand)
    await this.ended.catch(() => undefined)
  }

  /** Each thread ends with savepoints; see `ended`. */
  stop(): void {
    for (const worker of this.#workers) worker.postMessage('stop' satisfies ThreadCommand)
  }

  async #end(): Promise<void> {
    const failures: unknown[] = []
    await Promise.all(
      this.#workers.map(
        (worker, number) =>
          new Promise<void>((resolve) => {
            worker.once('error', (error) => {
              failures.push(error)
              // Its partitions are free when this process ends, or when its lease expires.
              this.stop()
            })
            worker.once('exit', (code) => {
              if (code !== 0 && failures.length === 0) {
                failures.push(new RepriseError('RUN_FAILED', `thread ${number} ended with code ${code}`))
                this.stop()
              }
              resolve()
            })
          }),
      ),
    )
    if (failures.length > 0) throw failures[0]
  }
}
