// The reference of the random histories: the meaning of the entries of a kind in the simplest form, and their invariants. It
// shares no code with the layer: an object is the value in its entry, and a watcher sees a filter over the whole list.

import type { Reprise } from '../../../src/engine/api/reprise.ts'
import { entriesOf, floorOf, lineageOf, readHistory } from '../../../src/engine/history/history.ts'
import type { ResourceObject } from '../../../src/layers/resource/index.ts'
import { hostOf } from '../../support/host.ts'

export interface Spec {
  readonly n: number
}
export interface Status {
  readonly n: number
  readonly by: string
}
export type Item = ResourceObject<Spec, Status>

export interface RefChange {
  readonly revision: number
  readonly before: Item | null
  readonly after: Item | null
}

export type Matches = (object: Item) => boolean

/** Violations stop a history at once. */
export class Violation extends Error {}

export function must(holds: boolean, what: () => string): asserts holds {
  if (!holds) throw new Violation(what())
}

export class Reference {
  readonly changes: RefChange[] = []
  readonly #timeline: string
  /** The revision before the first change. */
  readonly #start: number
  readonly #objects = new Map<string, Item>()
  /** By uid and generation: the desired state. */
  readonly #specs = new Map<string, Spec>()
  /** The process that reported since the newest fence. */
  #reporter: string | null = null
  #at: { seq: number; digest: Uint8Array } | null = null
  /** Uids of objects whose deletion was requested. */
  readonly released = new Set<string>()

  constructor(timeline: string, start: number) {
    this.#timeline = timeline
    this.#start = start
  }

  get revision(): number {
    return this.#start + (this.#at?.seq ?? 0)
  }

  /** Reads new entries directly from the store. Must be called before history is trimmed. */
  async catchUp(rp: Reprise): Promise<void> {
    const { kernel } = hostOf(rp)
    const head = await rp.head(this.#timeline)
    if (!head) return
    const lineage = await lineageOf(kernel, head)
    const floor = floorOf(lineage)
    must(this.#start + floor.seq <= this.revision, () => `the reference has missed what was trimmed below ${floor.seq}`)
    const from = this.#at ?? floor
    for await (const verified of readHistory(kernel, lineage, from, head.seq)) {
      for (const { seq, type, data } of entriesOf(kernel, verified)) {
        const revision = this.#start + seq
        if (revision > this.revision) this.#apply(revision, type, data as never)
        this.#at = { seq, digest: verified.run.digest }
      }
    }
  }

  #apply(revision: number, type: string, data: { o: Item; by: string; epoch: number }): void {
    if (type === 'fence') {
      this.#reporter = null
      return
    }
    const { name } = data.o
    const before = this.#objects.get(name) ?? null
    if (type === 'gone') {
      must(before !== null, () => `${name} is gone at ${revision}, and was not there`)
      const isHeld = before.finalizers.length > 0 && !this.released.has(before.uid)
      must(!isHeld, () => `${name} is gone at ${revision}, and ${before.finalizers} had not let go`)
      this.#objects.delete(name)
      this.changes.push({ revision, before, after: null })
      return
    }
    const uid = data.o.uid ?? `${this.#timeline.slice('resource/'.length)}@${revision - this.#start}`
    const after = { ...data.o, uid, revision }
    if (before) this.#checkChange(revision, before, after)
    else must(after.generation === 1, () => `${name} begins at generation ${after.generation}`)
    const at = `${uid}/${after.generation}`
    if (!this.#specs.has(at)) this.#specs.set(at, after.spec)
    this.#objects.set(name, after)
    this.changes.push({ revision, before, after })
  }

  #checkChange(revision: number, before: Item, after: Item): void {
    const what = `${after.name} at ${revision}`
    must(before.uid === after.uid, () => `${what} has another uid`)
    const isWish = before.deletingAt === undefined && after.deletingAt !== undefined
    const isDesired = before.spec.n !== after.spec.n || isWish
    const generation = before.generation + (isDesired ? 1 : 0)
    must(after.generation === generation, () => `${what} has generation ${after.generation}, not ${generation}`)
    const [was = 0, is = 0] = [before.observedGeneration, after.observedGeneration]
    must(is >= was && is <= after.generation, () => `${what}: the status went from ${was} to ${is} of ${generation}`)
    if (JSON.stringify(after.status) === JSON.stringify(before.status) && is === was) return
    const spec = this.#specs.get(`${after.uid}/${is}`)
    must(after.status!.n === spec?.n, () => `${what}: a status of ${after.status!.n} passes for generation ${is}`)
    const { by } = after.status!
    const isOvertaken = this.#reporter !== null && this.#reporter !== by
    must(!isOvertaken, () => `${what}: ${by} reports beside ${this.#reporter}`)
    this.#reporter = by
  }

  stateAt(revision: number): Item[] {
    const objects = new Map<string, Item>()
    for (const { revision: at, before, after } of this.changes) {
      if (at > revision) break
      if (after) objects.set(after.name, after)
      else objects.delete(before!.name)
    }
    return [...objects.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** The changes that a watcher of these objects sees after `from`, up to `to`. */
  seen(matches: Matches, from: number, to: number): string[] {
    const seen: string[] = []
    for (const { revision, before, after } of this.changes) {
      if (revision <= from || revision > to) continue
      const was = before !== null && matches(before)
      const is = after !== null && matches(after)
      if (is) seen.push(brief(was ? 'modified' : 'added', revision, after))
      else if (was) seen.push(brief('deleted', revision, before))
    }
    return seen
  }

  /** An acknowledged write is in history, as acknowledged. */
  checkTold(told: Item, isGone: boolean): void {
    const change = this.changes.find(({ revision }) => revision === told.revision)
    const held = isGone ? change?.before : change?.after
    const is = held && { ...held, revision: told.revision }
    must(!!is && equal(is, told), () => `${told.name}@${told.revision} was acknowledged, and is not in history`)
  }
}

export function brief(type: string, revision: number, { name, spec, labels }: Item): string {
  return `${type} ${name}=${spec.n}${labels.on ? '+' : ''}@${revision}`
}

export function equal(a: unknown, b: unknown): boolean {
  return JSON.stringify(sorted(a)) === JSON.stringify(sorted(b))
}

function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(sorted)
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, each]) => [name, sorted(each)]),
  )
}
