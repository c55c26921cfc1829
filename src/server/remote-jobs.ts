// Jobs whose items are entries appended by clients, and whose work is done by external workers. The request is stored in
// attributes of the job's timeline: every server on the store continues the job when its process is gone, until a person stops
// it. Finished items are in the history of the job.

import { boardOf } from '../adapters/remote/board.ts'
import { isReprise, RepriseError } from '../core/errors.ts'
import type { Head } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import { consumer, type JobRun } from '../layers/job/index.ts'
import { sleep } from '../lib/waiting.ts'
import { ownersAlive } from '../operations/workers.ts'

/** How often a server looks for jobs whose process died. */
const pollMs = 2000
const beganMs = 10
const graceMs = 1000
/** Searchable, so that a look reads these jobs only. */
const mark = { remote: true }

export interface RemoteJobOptions {
  /** The timelines whose entries are the items. */
  readonly from: readonly string[]
  /** Number of items offered at once. */
  readonly concurrency: number
  /** Attempts before an item becomes a dead letter. */
  readonly attempts: number
}

export class RemoteJobs {
  readonly #engine: Reprise
  readonly #max: number
  readonly #running = new Map<string, JobRun<unknown>>()
  #cancel: (() => void) | null = null
  #isClosed = false

  constructor(engine: Reprise, max: number) {
    this.#engine = engine
    this.#max = max
  }

  /** A repeated request returns the job; different options are refused until the job is stopped. */
  async start(name: string, options: RemoteJobOptions): Promise<{ readonly isNew: boolean }> {
    const text = JSON.stringify(options)
    if (text.length > hostOf(this.#engine).limits.attributeTextLength) {
      throw new RepriseError('INVALID_ARGUMENT', '`from` is too long: name a common prefix of these ids', { name })
    }
    const head = await this.#engine.head(`job/${name}`)
    const known = requestOf(head)
    if (known !== null && known !== text) {
      throw new RepriseError('EXISTS', `the job ${name} is already running with other options`, { name })
    }
    if (known !== null && head?.isOwnerAlive) return { isNew: false }
    const run = this.#run(name, text)
    const ended = run.result()
    // Acknowledged once the request is stored.
    while (requestOf(await this.#engine.head(`job/${name}`)) === null) {
      await Promise.race([ended, sleep(hostOf(this.#engine).clock, beganMs)])
    }
    return { isNew: known === null }
  }

  /** Continues jobs of this store whose process died: existing ones now, later ones as they are found. */
  continue(): void {
    const host = hostOf(this.#engine)
    const look = async () => {
      const heads = await this.#engine.list({ prefix: 'job/', attributes: mark })
      const isAlive = await ownersAlive(this.#engine, heads)
      for (const head of heads) {
        const request = requestOf(head)
        const isDue = !isAlive(head) && (head.wakeup ?? 0) <= host.now(head.timeline)
        if (request && isDue && !this.#isClosed) this.#run(head.timeline.slice('job/'.length), request)
      }
    }
    look()
      .catch((error) => {
        if (isReprise(error, 'CLOSED')) this.#isClosed = true
        else host.events.emit('problem', { where: 'remote jobs', error })
      })
      .finally(() => {
        if (!this.#isClosed) this.#cancel = host.clock.after(pollMs, () => this.continue())
      })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancel?.()
    await Promise.allSettled([...this.#running.values()].map((run) => run.stop({ reason: 'the server is closing' })))
  }

  #run(name: string, request: string): JobRun<unknown> {
    const known = this.#running.get(name)
    if (known) return known
    if (this.#running.size >= this.#max)
      throw new RepriseError('OVERLOADED', `too many concurrent jobs (limit ${this.#max})`)
    const { from, concurrency, attempts } = JSON.parse(request) as RemoteJobOptions
    const board = boardOf(hostOf(this.#engine))
    const definition = consumer(name, {
      from,
      concurrency,
      retry: { attempts },
      // Workers outside finish their tasks without this process.
      grace: graceMs,
      each: ({ timeline, seq, type, data, time }, { idempotencyKey: key, attempt, traceparent, signal }) => {
        const input = { timeline, seq, type, data, time }
        const rest = { attempt, traceparent, signal, keepsClaimed: true, beat: async () => undefined }
        return board.offer({ queue: name, key, input, ...rest })
      },
    })
    const attributes = { ...mark, remoteJob: request }
    const run = this.#engine.run(definition, { attributes }) as unknown as JobRun<unknown>
    this.#running.set(name, run)
    const over = () => void (this.#running.get(name) === run && this.#running.delete(name))
    run
      .result()
      .then(() => this.#stopped(name), over)
      .finally(over)
    return run
  }

  /** A person stopped the job, unless this server closes: no server continues it until it is requested again. */
  async #stopped(name: string): Promise<void> {
    if (this.#isClosed) return
    const head = await this.#engine.head(`job/${name}`)
    if (head) await hostOf(this.#engine).change(head, { wakeup: null, attributes: { remote: null, remoteJob: null } })
  }
}

/** The options with which the job is to run. Null: there is no such job, or it was stopped. */
function requestOf(head: Head | null): string | null {
  const { remote: isRemote, remoteJob } = head?.attributes ?? {}
  return isRemote === true && typeof remoteJob === 'string' ? remoteJob : null
}
