// Access to one thread's timeline. Whoever writes owns it, under an epoch; a process that was overtaken notices by that
// epoch, takes the thread back and tries again on what is there now. Reads never show less than what was acknowledged
// anywhere: the head is asked each time, and a thread that another live process owns is followed without disturbing it.

import type { TimelineId } from '../../core/coordinate.ts'
import { isReprise } from '../../core/errors.ts'
import type { Replica } from '../../engine/follow.ts'
import { newOperation } from '../../engine/kernel.ts'
import type { Reprise } from '../../engine/reprise.ts'
import type { NewEntry, OpenTimeline } from '../../engine/timeline.ts'
import { refusalError, type Written } from '../../engine/writer.ts'
import { type ThreadState, threadFold } from './fold.ts'
import { Lists } from './lists.ts'
import type { Portable } from './portable.ts'

const attemptsMax = 8
const overtaken = ['FENCED', 'CONFLICT', 'OUTCOME_UNKNOWN', 'OWNED', 'WORKER_RETIRED', 'NOT_FOUND'] as const

export class Thread {
  readonly id: TimelineId
  readonly lists: Lists
  readonly #engine: Reprise
  #open: OpenTimeline<ThreadState> | null = null
  #opening: Promise<OpenTimeline<ThreadState>> | null = null
  #replica: Replica<ThreadState> | null = null
  #isReadOnly: boolean | null = null
  #writesUnderWay = 0
  #alone: Promise<unknown> = Promise.resolve()
  #idle: (() => void)[] = []

  constructor(engine: Reprise, id: TimelineId, portable: Portable) {
    this.#engine = engine
    this.id = id
    this.lists = new Lists(portable)
  }

  get isBusy(): boolean {
    return this.#writesUnderWay > 0 || this.#opening !== null
  }

  /** The state as of now; null if there is no such thread. Use it before the next await. */
  async read(): Promise<ThreadState | null> {
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
  async write<T>(
    make: (state: ThreadState) => { readonly entry: NewEntry | null; done(written: Written): T },
  ): Promise<T> {
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
  async writeAlone<T>(
    make: (state: ThreadState) => { readonly entry: NewEntry | null; done(written: Written): T },
  ): Promise<T> {
    const turn = this.#alone.then(async () => {
      while (this.#writesUnderWay > 0) await new Promise<void>((resolve) => this.#idle.push(resolve))
      return await this.#write(make)
    })
    this.#alone = turn.catch(() => undefined)
    return await turn
  }

  /** Captures the state twice, at two sequences: then nobody needs the history before them, and retention trims it. */
  async settle(): Promise<void> {
    await (await this.#own()).checkpoint({ trigger: 'pruned' })
    await this.write(() => ({ entry: { type: 'pruned', data: [[], [], [], []] }, done: () => undefined }))
    await (await this.#own()).checkpoint({ trigger: 'pruned' })
  }

  /** Removes the thread and all of it. */
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

  async #read(): Promise<ThreadState | null> {
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
    this.lists.forget()
    if (this.#replica) await this.#replica.refresh()
    else this.#replica = await this.#follow()
    return this.#replica.state
  }

  async #write<T>(
    make: (state: ThreadState) => { readonly entry: NewEntry | null; done(written: Written): T },
  ): Promise<T> {
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

  async #follow(): Promise<Replica<ThreadState>> {
    const cut = this.id.indexOf('/') + 1
    const definition = { prefix: this.id.slice(0, cut), fold: threadFold }
    return await this.#engine.follow(definition, this.id.slice(cut), { isPassive: true })
  }

  async #own(): Promise<OpenTimeline<ThreadState>> {
    if (this.#open && !this.#open.broken) return this.#open
    if (this.#open) this.#drop()
    this.#opening ??= this.#take().finally(() => {
      this.#opening = null
    })
    return await this.#opening
  }

  async #take(): Promise<OpenTimeline<ThreadState>> {
    const open = await this.#engine.openTimeline(this.id, threadFold).catch(async (error) => {
      if (!isReprise(error, 'OWNED')) throw error
      return await this.#engine.openTimeline(this.id, threadFold, { takeover: true })
    })
    this.#drop()
    this.#open = open
    return open
  }

  #drop(): void {
    this.#open = null
    this.#replica?.close()
    this.#replica = null
    this.lists.forget()
  }
}
