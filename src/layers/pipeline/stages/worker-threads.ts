// Starts the worker threads of a pipeline and connects each with every other. A thread that ends by itself is reported once.

import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads'
import { type FromThread, fromPlainError, ThreadDied, type ThreadSettings, type ToThread } from './messages.ts'

/** The program is part of the command line, which can load modules in TypeScript. */
const path = new URL(`../../../cli/stage-thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url)

export interface ThreadEvents {
  onMessage(thread: number, message: Exclude<FromThread, { readonly kind: 'ready' | 'failed' }>): void
  onFailed(error: Error): void
}

export class WorkerThreads {
  readonly #workers: readonly Worker[]
  readonly #events: ThreadEvents
  readonly #timeline: string
  #isClosed = false

  /** Resolves when every thread has built its tasks. */
  static async start(settings: Omit<ThreadSettings, 'thread'>, events: ThreadEvents): Promise<WorkerThreads> {
    const started: Promise<void>[] = []
    const threads = new WorkerThreads(settings, events, started)
    try {
      await Promise.all(started)
      return threads
    } catch (error) {
      await threads.close()
      throw error
    }
  }

  private constructor(settings: Omit<ThreadSettings, 'thread'>, events: ThreadEvents, started: Promise<void>[]) {
    this.#events = events
    this.#timeline = settings.timeline
    const ports = Array.from({ length: settings.threads }, () => new Map<number, MessagePort>())
    for (let a = 0; a < settings.threads; a++) {
      for (let b = a + 1; b < settings.threads; b++) {
        const { port1, port2 } = new MessageChannel()
        ports[a]!.set(b + 1, port1)
        ports[b]!.set(a + 1, port2)
      }
    }
    this.#workers = ports.map((own, i) => {
      const thread = i + 1
      const workerData = { settings: { ...settings, thread }, ports: own }
      const worker = new Worker(path, { workerData, transferList: [...own.values()] })
      started.push(this.#watch(worker, thread))
      return worker
    })
  }

  post(thread: number, message: ToThread, transfer: readonly ArrayBuffer[] = []): void {
    if (!this.#isClosed) this.#workers[thread - 1]!.postMessage(message, transfer)
  }

  /** Stops all threads. Work that no checkpoint contains is lost, and is done again by the next run. */
  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all(this.#workers.map((worker) => worker.terminate()))
  }

  /** Resolves when the thread is ready. Rejects if it ends before that; afterwards, its end is an event. */
  #watch(worker: Worker, thread: number): Promise<void> {
    return new Promise((resolve, reject) => {
      let isReady = false
      const end = (error: Error) => {
        if (this.#isClosed) return
        reject(error)
        if (isReady) this.#events.onFailed(error)
      }
      const died = (why: string, cause?: unknown) =>
        new ThreadDied('RUN_FAILED', `${this.#timeline}: thread ${thread} ${why}`, { thread }, cause)
      worker.on('message', (message: FromThread) => {
        if (message.kind === 'ready') {
          isReady = true
          resolve()
        } else if (message.kind === 'failed') end(fromPlainError(message.error))
        else this.#events.onMessage(thread, message)
      })
      worker.once('error', (error: unknown) =>
        end(died(`failed: ${error instanceof Error ? error.message : error}`, error)),
      )
      worker.once('exit', (code) => end(died(`ended with code ${code}`)))
    })
  }
}
