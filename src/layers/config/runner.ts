// Runs the rollouts of one configuration in one of the processes that work for it: the owner of config/<name>/rollout. Each
// poll decides from the replies of clients; each decision is an entry. If the process dies, the next owner continues from the
// entries, and late writes of the dead one are refused.

import { isReprise } from '../../core/errors.ts'
import type { Message } from '../../core/store/ports.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import { idsOf, keptFold } from './model.ts'
import type { OpenConfig } from './open-config.ts'
import { decideRollout, isChosen, isOver, type RolloutRequest, tallyOf } from './rules/rollout.ts'
import type { ConfigState } from './rules/state.ts'

export const requestKind = 'rollout'
const againMs = 400

export interface RequestMail {
  readonly request: RolloutRequest
  readonly version: number
}

export class RolloutRunner {
  readonly #config: OpenConfig
  readonly #unwatch: () => void
  #isOver = false
  #isLooking = false
  #looksAgain = false
  #open: OpenTimeline<ConfigState> | null = null
  #last: Promise<void> = Promise.resolve()
  /** Another process runs the rollout: the next attempt is not before this time. */
  #notBefore = 0

  constructor(config: OpenConfig) {
    this.#config = config
    this.#unwatch = config.watch(() => this.#wake())
    config.engine.onClose(() => this.stop())
  }

  async stop(): Promise<void> {
    this.#isOver = true
    this.#unwatch()
    await this.#last
    await this.#release()
  }

  /** Called at every change and every poll: steps run one after another, and once more if a call arrived meanwhile. */
  #wake(): void {
    if (this.#isOver) return
    this.#looksAgain = this.#isLooking
    if (this.#isLooking) return
    this.#isLooking = true
    this.#last = this.#look()
      .catch(async (error) => {
        await this.#release()
        // Another process runs the rollout or has taken it over: nothing to do here.
        this.#notBefore = this.#config.engine.clock.elapsed() + againMs
        if (isReprise(error, 'OWNED', 'FENCED') || this.#isOver) return
        this.#config.engine.events.emit('problem', { where: `config/${this.#config.name}/rollout`, error })
      })
      .finally(() => {
        this.#isLooking = false
        if (this.#looksAgain) this.#wake()
      })
  }

  async #look(): Promise<void> {
    const { engine, name } = this.#config
    if (!this.#open && (!this.#isWanted() || engine.clock.elapsed() < this.#notBefore)) return
    if (this.#open?.broken) await this.#release()
    this.#open ??= await engine.openTimeline(idsOf(name).rollout, keptFold)
    await this.#step(this.#open)
    if (this.#isWanted(this.#open.state)) return
    await this.#release()
    // Otherwise the rollout would still appear to be in progress, and the timeline would be opened once more.
    await this.#config.refresh()
  }

  /** True if a version must be rolled out, or the end of a superseded rollout is not recorded yet. */
  #isWanted({ rollout }: Pick<ConfigState, 'rollout'> = this.#config): boolean {
    const { latest } = this.#config.versions
    if (rollout && !isOver(rollout)) return true
    return latest !== null && latest.plan !== null && rollout?.version !== latest.version
  }

  /** Processes the mail, then makes every decision that is possible now. */
  async #step(open: OpenTimeline<ConfigState>): Promise<void> {
    const mail = await open.inbox()
    for (const message of mail) await this.#decide(open, message)
    while (await this.#decide(open, null));
  }

  /** True: an entry was written, and further decisions may follow. */
  async #decide(open: OpenTimeline<ConfigState>, message: Message | null): Promise<boolean> {
    const { engine, name, versions, clients, now, forgetAfterMs, history } = this.#config
    const { latest } = versions
    const { rollout } = open.state
    const request = message && requestOf(engine.openMessage(message), latest?.version)
    const share = rollout?.share ?? 0
    const isStaged = (client: string) => isChosen(name, client, share)
    const tally = tallyOf(clients, latest?.version ?? 0, now, forgetAfterMs, isStaged, history)
    const entry = decideRollout({ latest, rollout }, tally, now, request)
    if (!entry && !message) return false
    // A request sent before the rollout began is decided again once it has.
    const isEarly = request !== null && (entry?.type === 'began' || entry?.type === 'superseded')
    const consume = message && !isEarly ? { consume: [message.id] } : {}
    await open.write(entry ? [{ ...entry, time: now }] : [], consume)
    if (isEarly) await this.#decide(open, message)
    return true
  }

  async #release(): Promise<void> {
    const open = this.#open
    this.#open = null
    await open?.close().catch(() => undefined)
  }
}

/** Null: the message contains no request about the current version. */
function requestOf(data: unknown, version: number | undefined): RolloutRequest | null {
  const mail = data as Partial<RequestMail> | null
  const isKnown = mail?.request === 'pause' || mail?.request === 'resume' || mail?.request === 'withdraw'
  return isKnown && mail.version === version ? mail.request! : null
}
