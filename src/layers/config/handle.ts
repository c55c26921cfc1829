// What users hold of a pushed configuration: versions are set, or rolled out in stages; clients have streams; who has accepted
// what can be asked and waited for.

import { toHex } from '../../core/coordinate.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import { unlessAborted } from '../../engine/base/aborting.ts'
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

export interface SetOptions {
  /** Set once under this key: asked again, it gives the version that it made before; with another value, KEY_REUSED. */
  readonly key?: string
}

export interface ReachedOptions {
  /** The share of clients that must have accepted the version or a later one; 1 if left out. */
  readonly share?: number
  /** TIMEOUT after this time; never, if left out. */
  readonly timeout?: Duration
  readonly signal?: AbortSignal
}

export type EndedOptions = Omit<ReachedOptions, 'share'>

const knownSet = namesOf<SetOptions>({ key: true })
const knownReached = namesOf<ReachedOptions>({ share: true, timeout: true, signal: true })
const knownEnded = namesOf<EndedOptions>({ timeout: true, signal: true })
const knownClient = namesOf<ClientOptions>({ has: true, stream: true })

const clientCharsMax = 200

export class ConfigHandle<Value = unknown> {
  readonly name: string
  readonly #config: OpenConfig
  readonly #schema: StandardSchema<unknown, Value> | undefined
  readonly #streams = new Set<ClientStream<Value>>()

  /** @internal */
  constructor(config: OpenConfig, schema: StandardSchema<unknown, Value> | undefined) {
    this.name = config.name
    this.#config = config
    this.#schema = schema
  }

  /** A new version, for every client at once. A rollout that is under way is superseded. */
  async set(value: Value, options: SetOptions = {}): Promise<number> {
    checkOptions('set', options, knownSet)
    return await this.#set(value, null, options)
  }

  /** A new version, for one share of the clients after another. A process that works for this configuration runs it. */
  async rollout(value: Value, options: RolloutOptions & SetOptions = {}): Promise<number> {
    const { key, ...plan } = options
    return await this.#set(value, planOf(plan), key === undefined ? {} : { key })
  }

  /** The newest version that was set; null: none. */
  async latest(): Promise<{ readonly version: number; readonly value: Value } | null> {
    await this.#config.refresh()
    return given<Value>(this.#config.versions.latest)
  }

  /** What this client should have now, whether it does or not; null: nothing yet. */
  async target(client: string): Promise<{ readonly version: number; readonly value: Value } | null> {
    await this.#config.refresh()
    return given<Value>(this.#config.targetOf(checkClient(client)))
  }

  /** The stream of one client. The one that it had before is over. */
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

  /** An ACK that came on another way than its stream; false: it was ignored. */
  ack(client: string, nonce: string): Promise<AnswerReceipt> {
    return answer(this.#config, checkClient(client), nonce, null)
  }

  /** A NACK that came on another way than its stream. */
  nack(client: string, nonce: string, reason: string): Promise<AnswerReceipt> {
    return answer(this.#config, checkClient(client), nonce, String(reason))
  }

  /**
   * Waits until this share of the clients has accepted the version or a later one. Clients that were away for longer than
   * `forgetAfter` do not count; while there are none, nothing is reached. WITHDRAWN if it was taken back, NOT_FOUND if it was
   * never set.
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
      const what = `${acked} of ${clients} clients have version ${version}, and ${nacked} refused it; ${share} of them were waited for`
      return new RepriseError('TIMEOUT', what, { version, acked, clients, nacked })
    })
  }

  /**
   * Waits until the rollout of this version is over, and says how it ended. NOT_FOUND if the version was never set, or so long
   * ago that only history knows of it; CONFLICT if it was set for every client at once.
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
        const what = `the rollout of version ${version} is not over (${at}); does a process work for ${this.name}?`
        return new RepriseError('TIMEOUT', what, { version, at })
      },
    )
  }

  /** Who has which version, who refused which and why, and how far a rollout is. */
  async status(): Promise<ConfigStatus> {
    await this.#config.refresh()
    return statusOf(this.#config)
  }

  /** Every client that counts. */
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

  /** Stops a rollout where it is: clients that have the version keep it. */
  pause(version: number): Promise<void> {
    return this.#ask('pause', version)
  }

  /** Goes on with a rollout that was paused. Refusals until now are accepted. */
  resume(version: number): Promise<void> {
    return this.#ask('resume', version)
  }

  /** Ends a rollout: every client goes back to the last good version. */
  withdraw(version: number): Promise<void> {
    return this.#ask('withdraw', version)
  }

  /** Leaves the streams that were opened with it to whoever goes on with them. */
  async close(): Promise<void> {
    for (const stream of [...this.#streams]) stream.detach()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #set(value: Value, plan: ConfigVersion['plan'], options: SetOptions): Promise<number> {
    const config = this.#config
    config.check()
    const checked = await this.#check(value)
    const key = options.key ?? newId(config.engine.kernel.random)
    const { codec, hash } = config.engine.kernel
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
    if (value === undefined) throw new RepriseError('INVALID_ARGUMENT', `a value of ${this.name} must be given`, {})
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

  /** Nobody can have accepted it: whoever waits would wait for ever. */
  #mustBeSet(version: number): void {
    if (!Number.isSafeInteger(version) || version < 1) {
      throw new RepriseError('INVALID_ARGUMENT', `a version must be a whole number of at least 1 (got ${version})`, {})
    }
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
    const what = `the rollout of version ${version} is too long ago: how it ended is in the history of ${this.name}`
    throw new RepriseError('NOT_FOUND', what, { version })
  }

  /** By mail to whoever runs it, now or later. */
  async #ask(request: RequestMail['request'], version: number): Promise<void> {
    await this.#config.refresh()
    const { engine, versions, rollout, ended } = this.#config
    const isStaged = versions.latest?.version === version && versions.latest.plan !== null
    const isEnded = ended.some((end) => end.version === version) || (rollout?.version === version && isOver(rollout))
    if (!isStaged || isEnded) {
      throw new RepriseError('CONFLICT', `no rollout of version ${version} is under way`, { version, request })
    }
    await engine.send(idsOf(this.name).rollout, requestKind, { request, version } satisfies RequestMail)
  }

  /** `check` throws where there is nothing to wait for, as the store has it when the wait begins. */
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
