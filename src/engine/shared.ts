// A timeline that several processes use in turns, as adapters for other people's frameworks have to: whoever writes owns
// it, under an epoch; a process that was overtaken notices by that epoch, takes it back and tries again on what is there
// now. Reads never show less than what was acknowledged anywhere: the head is asked each time, and what another live
// process owns is followed without disturbing it.

import type { TimelineId } from '../core/coordinate.ts'
import { isReprise } from '../core/errors.ts'
import type { Fold } from './definition.ts'
import type { Replica } from './follow.ts'
import { newOperation } from './kernel.ts'
import type { Reprise } from './reprise.ts'
import type { NewEntry, OpenTimeline } from './timeline.ts'
import { refusalError, type Written } from './writer.ts'

/** What to write on a state, and what to make of it once it is written. */
export interface Intended<T> {
  readonly entry: NewEntry | null
  done(written: Written): T
}

const attemptsMax = 8
const overtaken = ['FENCED', 'CONFLICT', 'OUTCOME_UNKNOWN', 'OWNED', 'WORKER_RETIRED', 'NOT_FOUND'] as const

export class SharedTimeline<State> {
  readonly id: TimelineId
  readonly #engine: Reprise
  readonly #fold: Fold<State>
  readonly #onReload: () => void
  #open: OpenTimeline<State> | null = null
  #opening: Promise<OpenTimeline<State>> | null = null
  #replica: Replica<State> | null = null
  #isReadOnly: boolean | null = null
  #writesUnderWay = 0
  #alone: Promise<unknown> = Promise.resolve()
  #idle: (() => void)[] = []

  /** `onReload` is called when what was read of the state before may no longer hold. */
  constructor(engine: Reprise, id: TimelineId, fold: Fold<State>, onReload: () => void = () => undefined) {
    this.#engine = engine
    this.id = id
    this.#fold = fold
    this.#onReload = onReload
  }

  get isBusy(): boolean {
    return this.#writesUnderWay > 0 || this.#opening !== null
  }

  /** The state as of now; null if there is no such timeline. Use it before the next await. */
  async read(): Promise<State | null> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#read()
      } catch (error) {
        if (attempt >= attemptsMax || !isReprise(error, ...overtaken)) throw error
        this.#drop()
      }
    }
  }

  /**
   * Writes what `make` asks for on the state of now. Called again, on newer state, if this process was overtaken.
   * What it writes must therefore be harmless when written twice.
   */
  async write<T>(make: (state: State) => Intended<T>): Promise<T> {
    await this.#alone
    this.#writesUnderWay += 1
    try {
      return await this.#write(make)
    } finally {
      this.#writesUnderWay -= 1
      if (this.#writesUnderWay === 0) for (const resolve of this.#idle.splice(0)) resolve()
    }
  }

  /** Like write, with no other write of this process beside it. */
  async writeAlone<T>(make: (state: State) => Intended<T>): Promise<T> {
    const turn = this.#alone.then(async () => {
      while (this.#writesUnderWay > 0) await new Promise<void>((resolve) => this.#idle.push(resolve))
      return await this.#write(make)
    })
    this.#alone = turn.catch(() => undefined)
    return await turn
  }

  /** Captures the state. */
  async checkpoint(trigger: string): Promise<void> {
    await (await this.#own()).checkpoint({ trigger })
  }

  /** Removes it and all of it. */
  async remove(): Promise<void> {
    const { kernel } = this.#engine
    for (let attempt = 1; ; attempt++) {
      await this.close()
      const head = await this.#engine.head(this.id)
      if (!head) return
      const outcome = await kernel.committer.submit({
        operation: newOperation(kernel.random),
        guard: { timeline: this.id, epoch: head.epoch },
        forget: true,
      })
      if (outcome.ok) return
      if (attempt >= attemptsMax || outcome.code !== 'FENCED') throw refusalError(this.id, outcome)
    }
  }

  /** Lets go of it; it opens again when it is used. */
  async close(): Promise<void> {
    const open = this.#open ?? (await this.#opening?.catch(() => null))
    this.#drop()
    await open?.close()
  }

  async #read(): Promise<State | null> {
    const head = await this.#engine.head(this.id)
    if (!head) {
      this.#drop()
      return null
    }
    const open = this.#open ?? (await this.#opening)
    if (open && !open.broken && open.epoch === head.epoch) return open.state
    const isElsewhere = head.owner !== null && head.isOwnerAlive && head.owner !== this.#engine.kernel.worker.id
    this.#isReadOnly ??= (await this.#engine.facts()).isReadOnly
    if (!this.#isReadOnly && !isElsewhere) return (await this.#own()).state
    // Its owner may have rolled it back meanwhile: what was cached of it may belong to another branch.
    this.#onReload()
    if (this.#replica) await this.#replica.refresh()
    else this.#replica = await this.#follow()
    return this.#replica.state
  }

  async #write<T>(make: (state: State) => Intended<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        const open = await this.#own()
        const { entry, done } = make(open.state)
        return done(await open.write(entry ? [entry] : []))
      } catch (error) {
        if (attempt >= attemptsMax || !isReprise(error, ...overtaken)) throw error
        this.#drop()
      }
    }
  }

  async #follow(): Promise<Replica<State>> {
    const cut = this.id.indexOf('/') + 1
    const definition = { prefix: this.id.slice(0, cut), fold: this.#fold }
    return await this.#engine.follow(definition, this.id.slice(cut), { isPassive: true })
  }

  async #own(): Promise<OpenTimeline<State>> {
    if (this.#open && !this.#open.broken) return this.#open
    if (this.#open) this.#drop()
    this.#opening ??= this.#take().finally(() => {
      this.#opening = null
    })
    return await this.#opening
  }

  async #take(): Promise<OpenTimeline<State>> {
    const open = await this.#engine.openTimeline(this.id, this.#fold).catch(async (error) => {
      if (!isReprise(error, 'OWNED')) throw error
      return await this.#engine.openTimeline(this.id, this.#fold, { takeover: true })
    })
    this.#drop()
    this.#open = open
    return open
  }

  #drop(): void {
    this.#open = null
    this.#replica?.close()
    this.#replica = null
    this.#onReload()
  }
}
