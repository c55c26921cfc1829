// A reader of a random history: it keeps a copy of its objects, and its position, like a separate client. It reads at a given
// speed, continues in another process when its own is gone, and lists again when its revision is gone.

import { isReprise } from '../../../src/core/errors.ts'
import type { Watch, WatchEvent } from '../../../src/layers/resource/index.ts'
import type { Process } from './processes.ts'
import { brief, equal, type Item, type Matches, must, type Reference, type Spec, type Status } from './reference.ts'

interface Stretch {
  readonly from: number
  readonly seen: string[]
  to: number
}

export class Reader {
  readonly name: string
  readonly #labels: string | undefined
  readonly #hasBookmarks: boolean
  readonly #isWatchList: boolean
  readonly #choose: () => Process
  readonly #stretches: Stretch[] = []
  readonly #lists: { readonly revision: number; readonly items: readonly Item[] }[] = []
  readonly #copy = new Map<string, Item>()
  readonly #floor: () => Promise<number>
  #position: number | null = null
  #tokens = 0
  #wake: () => void = () => undefined
  #watch: Watch<Spec, Status> | null = null
  #isOver = false
  #mustForget = false
  #loop: Promise<void>
  relists = 0

  constructor(
    name: string,
    labels: string | undefined,
    how: { readonly hasBookmarks?: boolean; readonly isWatchList?: boolean },
    choose: () => Process,
    floor: () => Promise<number>,
  ) {
    this.name = name
    this.#labels = labels
    this.#hasBookmarks = how.hasBookmarks ?? false
    this.#isWatchList = how.isWatchList ?? false
    this.#choose = choose
    this.#floor = floor
    this.#loop = this.#run()
    this.#loop.catch(() => undefined)
  }

  get position(): number {
    return this.#position ?? 0
  }

  /** The number of events that it may still read. */
  allow(count: number): void {
    this.#tokens += count
    this.#wake()
  }

  /** It has lost its copy and its place, and begins again. */
  forget(): void {
    this.#mustForget = true
    this.move()
  }

  /** Its process is gone, or it is time to go elsewhere. */
  move(): void {
    this.#watch?.close()
  }

  /** Reads to the end, and returns the changes it saw. Rejects with the error it met. */
  async end(revision: number): Promise<void> {
    this.allow(Number.POSITIVE_INFINITY)
    // It stops where it has read everything, including changes outside its filter.
    while ((this.#watch?.resting ?? -1) < revision) {
      await Promise.race([this.#loop, new Promise((resolve) => setTimeout(resolve, 2))])
    }
    this.#isOver = true
    this.move()
    await this.#loop
    this.#position = revision
    this.#stretches.at(-1)!.to = revision
  }

  check(reference: Reference): void {
    const matches: Matches = ({ labels }) => this.#labels === undefined || labels.on === 'yes'
    for (const { from, to, seen } of this.#stretches) {
      const should = reference.seen(matches, from, to)
      must(equal(seen, should), () => {
        const i = should.findIndex((each, at) => each !== seen[at])
        return `${this.name} from ${from} to ${to}: ${seen[i] ?? 'nothing'} instead of ${should[i] ?? 'nothing'}`
      })
    }
    for (const { revision, items } of this.#lists) {
      const should = reference.stateAt(revision).filter(matches)
      must(equal(items, should), () => `${this.name}: the list of ${revision} is not what there was`)
    }
    const should = reference.stateAt(this.position).filter(matches)
    const has = [...this.#copy.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
    must(equal(has, should), () => `${this.name} has another copy at ${this.position}`)
  }

  async #run(): Promise<void> {
    while (!this.#isOver) {
      await this.#token()
      const { handle } = this.#choose()
      try {
        if (this.#position === null && !this.#isWatchList) await this.#list(handle)
        await this.#follow(handle)
      } catch (error) {
        if (isReprise(error, 'REVISION_GONE')) {
          const { revision } = error.data as { revision: number }
          const floor = await this.#floor()
          must(
            revision < floor,
            () => `${this.name} was told that ${revision} is gone, and history begins after ${floor}`,
          )
          this.relists += 1
          this.#position = null
        } else if (!isReprise(error, 'CLOSED')) throw error
      } finally {
        this.#watch?.close()
        this.#watch = null
      }
      if (this.#mustForget) this.#position = null
      this.#mustForget = false
      await new Promise((resolve) => setImmediate(resolve))
    }
  }

  async #list(handle: Process['handle']): Promise<void> {
    const selector = this.#labels === undefined ? {} : { labels: this.#labels }
    const items: Item[] = []
    for (let next: string | null | undefined; next !== null; ) {
      const page: Awaited<ReturnType<typeof handle.list>> = await handle.list({
        ...selector,
        limit: 3,
        ...(next !== undefined && { continue: next }),
      })
      items.push(...page.items)
      next = page.continue
      if (next === null) this.#begin(page.revision, items)
      else await this.#token()
    }
  }

  async #follow(handle: Process['handle']): Promise<void> {
    const bookmarks = this.#hasBookmarks ? { bookmarks: 1 } : {}
    const watch = handle.watch({
      ...(this.#position !== null && { from: this.#position }),
      ...bookmarks,
      ...(this.#labels !== undefined && { labels: this.#labels }),
    })
    this.#watch = watch
    if (this.#position === null && !(await this.#listed(watch))) return
    const from = this.#position!
    const stretch: Stretch = { from, to: from, seen: [] }
    this.#stretches.push(stretch)
    for (let event = await watch.next(); event; event = await watch.next()) {
      this.#take(event)
      if (event.type !== 'bookmark') stretch.seen.push(brief(event.type, event.revision, event.object))
      stretch.to = event.revision
      if (this.#isOver) return
      await this.#token()
    }
    // No skipped change matched its filter.
    this.#position = Math.max(this.#position!, watch.revision)
    stretch.to = this.#position
  }

  /** A watch that begins with the current objects. False: it ended before it had read them all. */
  async #listed(watch: Watch<Spec, Status>): Promise<boolean> {
    const items: Item[] = []
    for (let event = await watch.next(); event; event = await watch.next()) {
      if (event.type === 'added') items.push(event.object)
      else {
        must(event.type === 'bookmark' && event.isInitialEnd === true, () => `${this.name}: ${event!.type} in a list`)
        this.#begin(event.revision, items)
        return true
      }
      await this.#token()
    }
    return false
  }

  #begin(revision: number, items: readonly Item[]): void {
    this.#lists.push({ revision, items })
    this.#position = revision
    this.#copy.clear()
    for (const item of items) this.#copy.set(item.name, item)
  }

  #take(event: WatchEvent<Spec, Status>): void {
    must(event.revision >= this.#position!, () => `${this.name} goes back from ${this.#position} to ${event.revision}`)
    this.#position = event.revision
    if (event.type === 'bookmark') return
    if (event.type === 'deleted') this.#copy.delete(event.object.name)
    else this.#copy.set(event.object.name, event.object)
  }

  async #token(): Promise<void> {
    while (this.#tokens < 1 && !this.#isOver) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    this.#tokens -= 1
  }
}
