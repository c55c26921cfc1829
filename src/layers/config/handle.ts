// The user's handle of a pushed configuration: sets versions or rolls them out in stages, opens client streams, and reports
// or awaits acceptance.

import { toHex } from '../../core/coordinate.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkCount, checkObject, checkOptions, namesOf } from '../../core/options.ts'
import { unlessAborted } from '../../engine/base/abortable-wait.ts'
import { whileAwaited } from '../../engine/base/stay-alive.ts'
import { checkWith, type StandardSchema } from '../../engine/model/schema.ts'
import { newId } from '../../engine/storage/kernel.ts'
import { idsOf } from './model.ts'
import type { OpenConfig } from './open-config.ts'
import { planOf, type RolloutOptions, shareOf } from './rules/plan.ts'
import { isCounted, isLatestGood, isOver, type Tally, tallyOf } from './rules/rollout.ts'
import type { ConfigVersion, RolloutEnd } from './rules/state.ts'
import { type RequestMail, requestKind } from './runner.ts'
import { type ClientView, type ConfigStatus, statusOf, viewOf } from './status.ts'
import { type AnswerReceipt, answer, type ClientOptions, ClientStream } from './stream.ts'

export interface ConfigSetOptions {
  /**
   * Sets the value once under this key: a repeated call returns the version it made before; a different value is KEY_REUSED.
   */
  readonly key?: string
}

export interface ReachedOptions {
  /** The share of clients that must have accepted the version or a later one. Default: 1. */
  readonly share?: number
  /** Rejects with TIMEOUT after this time. Default: no limit. */
  readonly timeout?: Duration
  readonly signal?: AbortSignal
}

export type EndedOptions = Omit<ReachedOptions, 'share'>

const knownSet = namesOf<ConfigSetOptions>()('key')
const knownReached = namesOf<ReachedOptions>()('share timeout signal')
const knownEnded = namesOf<EndedOptions>()('timeout signal')
const knownClient = namesOf<ClientOptions>()('has stream')

const clientCharsMax = 200

export class ConfigHandle<Value = unknown> {
  readonly name: string
  /** The name: each configuration exists once. */
  readonly id: string
  readonly #config: OpenConfig
  readonly #schema: StandardSchema<unknown, Value> | undefined
  readonly #streams = new Set<ClientStream<Value>>()

  /** @internal */
  constructor(config: OpenConfig, schema: StandardSchema<unknown, Value> | undefined) {
    this.name = config.name
    this.id = config.name
    this.#config = config
    this.#schema = schema
  }

  /** Sets a new version for every client at once. A rollout in progress is superseded. */
  async set(value: Value, options: ConfigSetOptions = {}): Promise<number> {
    checkOptions('set', options, knownSet)
    return await this.#set(value, null, options)
  }

  /**
   * Sets a new version for one share of the clients after another. A process that works for this configuration runs the
   * rollout.
   */
  async rollout(value: Value, options: RolloutOptions & ConfigSetOptions = {}): Promise<number> {
    checkObject('the options of rollout()', options)
    const { key, ...plan } = options
    return await this.#set(value, planOf(plan), key === undefined ? {} : { key })
  }

  /** The newest version; null: none was set. */
  async latest(): Promise<{ readonly version: number; readonly value: Value } | null> {
    await this.#config.refresh()
    return given<Value>(this.#config.versions.latest)
  }

  /** The version this client should have now, whether it has it or not; null: none yet. */
  async target(client: string): Promise<{ readonly version: number; readonly value: Value } | null> {
    await this.#config.refresh()
    return given<Value>(this.#config.targetOf(checkClient(client)))
  }

  /** Opens the stream of one client. Its previous stream ends. */
  async client(client: string, options: ClientOptions = {}): Promise<ClientStream<Value>> {
    this.#config.check()
    checkOptions('client', options, knownClient)
    const { has, stream } = options
    const opened =
      stream === undefined
        ? await ClientStream.join<Value>(this.#config, checkClient(client), has)
        : await ClientStream.resume<Value>(this.#config, checkClient(client), String(stream))
    this.#streams.add(opened)
    opened.onClosed = () => this.#streams.delete(opened)
    return opened
  }

  /** An ACK received outside its stream; `isTaken` is false if it was ignored. */
  ack(client: string, nonce: string): Promise<AnswerReceipt> {
    return answer(this.#config, checkClient(client), nonce, null)
  }

  /** A NACK received outside its stream. */
  nack(client: string, nonce: string, reason: string): Promise<AnswerReceipt> {
    return answer(this.#config, checkClient(client), nonce, String(reason))
  }

  /**
   * Waits until this share of the clients has accepted the version or a later one. Clients away for longer than `forgetAfter`
   * do not count; a fleet without clients reaches nothing. WITHDRAWN if the version was withdrawn, NOT_FOUND if it was never
   * set.
   */
  async reached(version: number, options: ReachedOptions = {}): Promise<Tally> {
    checkOptions('reached', options, knownReached)
    const share = shareOf(options.share ?? 1, 'share')
    const look = () => {
      const end = this.#endOf(version)
      if (end?.status === 'withdrawn') throw withdrawn(end)
      const tally = this.#tally(version)
      return tally.clients > 0 && tally.share >= share ? tally : null
    }
    const check = () => this.#mustBeSet(version)
    return await this.#wait(check, look, options, () => {
      const { acked, clients, nacked } = this.#tally(version)
      const what = `${acked} of ${clients} clients have version ${version}, and ${nacked} refused it; ${share} of them were required`
      return new RepriseError('TIMEOUT', what, { version, acked, clients, nacked })
    })
  }

  /**
   * Waits for the rollout of this version to end, and returns its outcome. NOT_FOUND if the version was never set, or so long ago
   * that only history has it; CONFLICT if it was set for every client at once.
   */
  async ended(version: number, options: EndedOptions = {}): Promise<RolloutEnd> {
    checkOptions('ended', options, knownEnded)
    return await this.#wait(
      () => this.#mustBeStaged(version),
      () => this.#endOf(version),
      options,
      () => {
        const { rollout } = this.#config
        const at = rollout?.version === version ? `${rollout.status} at ${rollout.share}` : 'not begun'
        const what = `the rollout of version ${version} has not ended (${at}); check that a process serves ${this.name}`
        return new RepriseError('TIMEOUT', what, { version, at })
      },
    )
  }

  /** The versions of the clients, refusals with their reasons, and the progress of a rollout. */
  async status(): Promise<ConfigStatus> {
    await this.#config.refresh()
    return statusOf(this.#config)
  }

  /** All clients that count. */
  async clients(): Promise<readonly ClientView[]> {
    await this.#config.refresh()
    const { clients, now, forgetAfterMs, history } = this.#config
    const views: ClientView[] = []
    for (const [client, record] of clients.entries()) {
      if (isCounted(record, now, forgetAfterMs))
        views.push(viewOf(client, record, this.#config.targetOf(client), history))
    }
    return views
  }

  /** Pauses a rollout: clients that have the version keep it. */
  pause(version: number): Promise<void> {
    return this.#ask('pause', version)
  }

  /** Resumes a paused rollout. Refusals so far are tolerated. */
  resume(version: number): Promise<void> {
    return this.#ask('resume', version)
  }

  /** Withdraws a rollout: every client returns to the last good version. */
  withdraw(version: number): Promise<void> {
    return this.#ask('withdraw', version)
  }

  /** Detaches the streams opened with this handle; another process can resume them. */
  async close(): Promise<void> {
    for (const stream of [...this.#streams]) stream.detach()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #set(value: Value, plan: ConfigVersion['plan'], options: ConfigSetOptions): Promise<number> {
    const config = this.#config
    config.check()
    const checked = await this.#check(value)
    const key = options.key ?? newId(config.engine.random)
    const { codec, hash } = config.engine
    const digest = toHex(hash(codec.encode([checked, plan])))
    await config.refresh()
    let version = 0
    await config.writeVersion((state) => {
      const known = state.recent.find((note) => note.key === key)
      version = known?.version ?? (state.latest?.version ?? 0) + 1
      if (known && known.digest !== digest) {
        throw new RepriseError('KEY_REUSED', `this key was used for another value of ${config.name}`, { version })
      }
      if (known) return null
      const isGood = isLatestGood(state, config.rollout)
      return { type: 'set', data: { version, value: checked, plan, isGood, key, digest } }
    }, key)
    return version
  }

  async #check(value: Value): Promise<Value> {
    if (value === undefined) throw new RepriseError('INVALID_ARGUMENT', `a value of ${this.name} is required`, {})
    if (!this.#schema) return value
    const checked = await checkWith(this.#schema, value)
    if (checked.isValid) return checked.value
    throw new RepriseError('INVALID_ARGUMENT', `a value of ${this.name} must fit its schema: ${checked.why}`, {
      name: this.name,
    })
  }

  #tally(version: number): Tally {
    const { clients, now, forgetAfterMs, history } = this.#config
    return tallyOf(clients, version, now, forgetAfterMs, undefined, history)
  }

  #endOf(version: number): RolloutEnd | null {
    return this.#config.ended.find((end) => end.version === version) ?? null
  }

  /** No client can have accepted this version, so a wait would never end. */
  #mustBeSet(version: number): void {
    checkCount('a version', version)
    const latest = this.#config.versions.latest?.version ?? 0
    if (version <= latest) return
    const what = `${this.name} has no version ${version}: ${latest === 0 ? 'none was set' : `the newest is ${latest}`}`
    throw new RepriseError('NOT_FOUND', what, { version, latest })
  }

  #mustBeStaged(version: number): void {
    this.#mustBeSet(version)
    if (this.#endOf(version)) return
    const note = this.#config.versions.recent.find((each) => each.version === version)
    if (note?.isStaged) return
    if (note)
      throw new RepriseError('CONFLICT', `version ${version} has no rollout: it was set for every client`, { version })
    const what = `the rollout of version ${version} ended too long ago: the history of ${this.name} has its outcome`
    throw new RepriseError('NOT_FOUND', what, { version })
  }

  /** Sends a request by mail to the process that runs the rollout, now or later. */
  async #ask(request: RequestMail['request'], version: number): Promise<void> {
    checkCount('a version', version)
    await this.#config.refresh()
    const { engine, versions, rollout, ended } = this.#config
    const isStaged = versions.latest?.version === version && versions.latest.plan !== null
    const isEnded = ended.some((end) => end.version === version) || (rollout?.version === version && isOver(rollout))
    if (!isStaged || isEnded) {
      throw new RepriseError('CONFLICT', `no rollout of version ${version} is in progress`, { version, request })
    }
    await engine.send(idsOf(this.name).rollout, requestKind, { request, version } satisfies RequestMail)
  }

  /** `check` throws if there is nothing to wait for, on the state in the store when the wait begins. */
  async #wait<T>(
    check: () => void,
    look: () => T | null,
    options: EndedOptions,
    onTimeout: () => RepriseError,
  ): Promise<T> {
    const { kernel } = this.#config.engine
    const timeoutMs = options.timeout === undefined ? null : toMs(options.timeout, 'timeout')
    let unwatch = () => {}
    let cancel = () => {}
    const waiting = new Promise<T>((resolve, reject) => {
      let isChecked = false
      const attempt = () => {
        if (!isChecked) return
        try {
          this.#config.check()
          const found = look()
          if (found !== null) resolve(found)
        } catch (error) {
          reject(error)
        }
      }
      unwatch = this.#config.watch(attempt)
      const begin = () => {
        check()
        isChecked = true
        attempt()
      }
      this.#config.refresh().then(begin).catch(reject)
      if (timeoutMs !== null) cancel = kernel.clock.after(timeoutMs, () => reject(onTimeout()))
    })
    const what = `waiting for ${this.name}`
    return await whileAwaited(unlessAborted(waiting, options.signal, what), kernel.clock).finally(() => {
      unwatch()
      cancel()
    })
  }
}

function given<Value>(version: ConfigVersion | null): { readonly version: number; readonly value: Value } | null {
  return version && { version: version.version, value: version.value as Value }
}

function checkClient(client: string): string {
  if (typeof client === 'string' && client.length >= 1 && client.length <= clientCharsMax) return client
  const what = `the name of a client must be text of 1 to ${clientCharsMax} characters`
  throw new RepriseError('INVALID_ARGUMENT', what, { client: String(client).slice(0, 80) })
}

function withdrawn({ version, reason }: RolloutEnd): RepriseError {
  const what = `version ${version} was withdrawn${reason ? `: ${reason}` : ''}`
  return new RepriseError('WITHDRAWN', what, { version, reason })
}
