// Background work for uploads: calls the user's onComplete when all bytes are durable, starts the runs it requested, and
// expires unfinished uploads. The process that claims the timeline does it, under the epoch of that claim, so recorded work
// is never repeated; if that process dies, the next one continues.

import { RepriseError } from '../../core/errors.ts'
import { decideRetry, type ResolvedRetry } from '../../core/retry/retry.ts'
import type { Head, Sql } from '../../core/store/ports.ts'
import { stayAlive } from '../../engine/base/stay-alive.ts'
import type { Host } from '../../engine/host/host.ts'
import { type Process, runs } from '../../engine/model/definition.ts'
import { type RunArguments, splitArguments } from '../../engine/model/run-arguments.ts'
import { fileOf, type UploadedFile } from './file.ts'
import { isExpired, type UploadStart } from './rules/state.ts'
import { loadUpload } from './stored-upload.ts'
import type { Uploads } from './uploads.ts'
import { UploadWriter } from './writer.ts'

/** A definition that can be started for an upload: a workflow. */
// biome-ignore lint/suspicious/noExplicitAny: each definition has its own input type.
export type Startable = Process<any, unknown, { readonly id?: string }> & { readonly kind?: string }

export interface CompleteContext {
  /** Number of this call; above 1 if an earlier one failed or its process died. */
  readonly attempt: number
  /** The same for every call for this upload: pass it to external services as an idempotency key. */
  readonly key: string
  /** Aborted when the engine closes. */
  readonly signal: AbortSignal
  /**
   * Starts a run in the commit that completes the upload: if onComplete throws, it is not started; once recorded, it is
   * started exactly once, even after a crash. The workflow must be among the `starts` of the definition. Default id: that of
   * the upload.
   */
  start<Input>(
    definition: Process<Input, unknown, never>,
    ...given: RunArguments<NoInfer<Input>, { readonly id?: string }>
  ): void
  /** Your own SQL in that commit. */
  sql(run: (sql: Sql) => Promise<unknown> | unknown): void
}

export type OnComplete = (file: UploadedFile, context: CompleteContext) => unknown

export interface Completing {
  readonly onComplete: OnComplete | null
  readonly starts: readonly Startable[]
  readonly retry: ResolvedRetry
}

export class Completion {
  readonly #host: Host
  readonly #uploads: Uploads
  readonly #options: Completing
  readonly #closing = new AbortController()

  constructor(host: Host, uploads: Uploads, options: Completing) {
    this.#host = host
    this.#uploads = uploads
    this.#options = options
    host.onClose(async () => this.#closing.abort())
    host.serve(`upload/${uploads.settings.name}`, (head) => this.#handle(head), { concurrency: 20 })
  }

  async #handle(head: Head): Promise<void> {
    const { kernel, sharing } = this.#uploads
    const writer = await UploadWriter.adopt(kernel, head, sharing)
    if (!writer) return
    const release = stayAlive()
    try {
      if (writer.state.status === 'received') await this.#complete(writer)
      if (writer.state.status === 'starting') await this.#start(writer)
      else if (isExpired(writer.state, kernel.worker.now(writer.timeline))) {
        const by = 'expired' as const
        await writer.step({ events: [{ type: 'ended', by }], data: { by }, release: true, forgetsBytes: true })
      }
    } finally {
      release()
      await writer.close()
    }
  }

  async #complete(writer: UploadWriter): Promise<void> {
    const { kernel } = this.#uploads
    const { onComplete } = this.#options
    if (!onComplete) {
      await writer.step({ events: [{ type: 'handled', starts: [], result: null }], release: true })
      return
    }
    const starts: UploadStart[] = []
    const sql: ((sql: Sql) => Promise<unknown> | unknown)[] = []
    if (writer.state.isCalling && (await this.#wasLastCall(writer))) return
    await writer.step({ events: [{ type: 'called' }], data: { attempt: writer.state.attempts + 1 } })
    const attempt = writer.state.attempts
    try {
      const stored = await loadUpload(kernel, writer.timeline)
      const result = await onComplete(fileOf(kernel, stored!), this.#context(writer, attempt, starts, sql))
      const value = kernel.codec.copy(result ?? null).value
      const userSql = async (one: Sql) => {
        for (const run of sql) await run(one)
      }
      await writer.step({
        events: [{ type: 'handled', starts, result: value }],
        data: { starts: starts.length },
        ...(sql.length > 0 && { extras: { userSql } }),
        release: starts.length === 0,
      })
    } catch (error) {
      if (error instanceof RepriseError && (error.code === 'FENCED' || error.code === 'OUTCOME_UNKNOWN')) throw error
      if (this.#closing.signal.aborted) {
        await writer.step({ events: [{ type: 'uncalled' }], release: true })
        throw error
      }
      await this.#failed(writer, attempt, error)
    }
  }

  /** A process died during the last call, possibly because of it: that counts as a failed attempt. */
  async #wasLastCall(writer: UploadWriter): Promise<boolean> {
    const { kernel } = this.#uploads
    const { attempts } = writer.state
    const died = new Error('the process died during onComplete')
    const odds = { chance: () => kernel.random.number(), now: kernel.worker.now() }
    if (decideRetry(this.#options.retry, attempts, died, odds).again) return false
    await this.#failed(writer, attempts, died)
    return true
  }

  #context(
    writer: UploadWriter,
    attempt: number,
    starts: UploadStart[],
    sql: ((sql: Sql) => Promise<unknown> | unknown)[],
  ): CompleteContext {
    return {
      attempt,
      key: writer.timeline,
      signal: this.#closing.signal,
      start: (definition, ...given) => {
        const [input, chosen] = splitArguments('start', definition, given)
        const options = (chosen ?? {}) as { readonly id?: string }
        const { kind, name } = this.#startable(definition.name, (definition as Startable).kind)
        starts.push({ kind: kind ?? 'run', name, id: options.id ?? writer.id, input })
      },
      sql: (run) => void sql.push(run),
    }
  }

  /** The definition to start: it must be declared, because another process may have to start it. */
  #startable(name: string, kind?: string): Startable {
    const found = this.#options.starts.find((each) => each.name === name && (kind === undefined || each.kind === kind))
    if (found) return found
    const what = `${name} is not listed in the starts of upload ${this.#uploads.settings.name}: name it there`
    throw new RepriseError('INVALID_ARGUMENT', what, { name })
  }

  /** The starts are recorded: a process that continues after a crash starts them again, and existing runs are found by id. */
  async #start(writer: UploadWriter): Promise<void> {
    for (const { kind, name, id, input } of writer.state.starts) {
      const definition = this.#startable(name, kind === 'run' ? undefined : kind)
      await definition[runs](this.#host, input, { id })
    }
    await writer.step({ events: [{ type: 'started' }], release: true })
  }

  async #failed(writer: UploadWriter, attempt: number, error: unknown): Promise<void> {
    const { kernel } = this.#uploads
    const given = { chance: () => kernel.random.number(), now: kernel.worker.now() }
    const { again, delayMs } = decideRetry(this.#options.retry, attempt, error, given)
    const message = (error instanceof Error ? error.message : String(error)).slice(0, 1000)
    kernel.events.emit('problem', { where: `${writer.timeline}: onComplete`, error })
    const wakeup = again ? kernel.worker.now(writer.timeline) + delayMs : null
    await writer.step({
      events: [{ type: 'stumbled', error: message, isFinal: !again }],
      data: { error: message, attempt },
      extras: { wakeup },
      release: true,
    })
    if (wakeup !== null) this.#host.dispatcher.expect(wakeup, writer.timeline)
  }
}
