// Jobs whose items are entries appended by clients, and whose work is done by external workers. They run while the server
// runs; a client requests its job again at each start, and finished items are in the history of the job.

import { remote } from '../adapters/remote/index.ts'
import { RepriseError } from '../core/errors.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { consumer, type JobRun } from '../layers/job/index.ts'

export interface RemoteJobOptions {
  /** The timelines whose entries are the items. */
  readonly from: readonly string[]
  /** Number of items offered at once: at most this many are repeated after a crash. */
  readonly concurrency: number
  /** Attempts before an item becomes a dead letter. */
  readonly attempts: number
}

interface Running {
  readonly options: string
  readonly run: JobRun<unknown>
}

export class RemoteJobs {
  readonly #engine: Reprise
  readonly #max: number
  readonly #running = new Map<string, Running>()

  constructor(engine: Reprise, max: number) {
    this.#engine = engine
    this.#max = max
  }

  /** A repeated request returns the running job; different options are refused. */
  async start(name: string, options: RemoteJobOptions): Promise<{ readonly isNew: boolean }> {
    const print = JSON.stringify(options)
    const known = this.#running.get(name)
    if (known?.options === print) return { isNew: false }
    if (known) throw new RepriseError('EXISTS', `the job ${name} runs here already, with other options`, { name })
    if (this.#running.size >= this.#max) throw new RepriseError('OVERLOADED', `${this.#max} jobs run here already`)
    const { from, concurrency, attempts } = options
    const work = remote(name)
    const definition = consumer(name, {
      from,
      concurrency,
      retry: { attempts },
      each: ({ timeline, seq, type, data, time }, ctx) => work({ timeline, seq, type, data, time }, ctx),
    })
    const run = this.#engine.run(definition) as unknown as JobRun<unknown>
    const entry = { options: print, run }
    this.#running.set(name, entry)
    const over = () => void (this.#running.get(name) === entry && this.#running.delete(name))
    run.result().then(over, over)
    return { isNew: true }
  }

  async close(): Promise<void> {
    await Promise.allSettled([...this.#running.values()].map(({ run }) => run.stop('the server closes')))
  }
}
