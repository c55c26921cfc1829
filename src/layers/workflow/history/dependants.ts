// The steps that depend on a step, from history alone. A step that declares `after` depends on the steps that it names.
// Every other command depends on each outcome that its code could have observed: recorded before the command was issued
// (`since`), and not in a branch beside its own. Both rules err on the side of naming too many steps.

import type { Item } from './entries.ts'

/** An outcome of a command. */
export type Outcome = Extract<Item, { readonly id: string }>

/** A command without an outcome. */
export interface OpenDependant {
  readonly id: string
  readonly since: number
  readonly after: readonly string[] | null
}

/** The sequence at which the outcome was first recorded: a re-run keeps outcomes under new sequences. */
export function firstSeq(item: { readonly seq: number; readonly first?: number }): number {
  return item.first ?? item.seq
}

export function isOutcome(item: Item): item is Outcome {
  return 'id' in item
}

/** The ids of that command and of everything that depends on it. `open`: commands that may depend on it, too. */
export function dependantsOf(items: readonly Item[], id: string, open: readonly OpenDependant[] = []): Set<string> {
  const found = new Found()
  const outcomes = items.filter(isOutcome).sort((a, b) => firstSeq(a) - firstSeq(b))
  for (const each of outcomes) if (each.id === id) found.add(id, firstSeq(each))
  // `after` may name a step whose outcome came later, so one pass is not always enough.
  for (let before = -1; before !== found.ids.size; ) {
    before = found.ids.size
    for (const each of outcomes) {
      if (found.ids.has(each.id)) continue
      const isFound = 'after' in each && each.after ? found.hasAny(each.after) : found.isBefore(each.id, sinceOf(each))
      if (isFound) found.add(each.id, firstSeq(each))
    }
  }
  for (const { id: each, since, after } of open) {
    if (after ? found.hasAny(after) : found.isBefore(each, since)) found.ids.add(each)
  }
  return found.ids
}

/** The ids of the commands that this one depends on directly: those it declares, else the last ones it could observe. */
export function precedingOf(items: readonly Item[], one: Outcome): string[] {
  if ('after' in one && one.after) return [...one.after]
  const seen = items
    .filter(isOutcome)
    .filter((each) => each.id !== one.id && firstSeq(each) <= sinceOf(one) && !isBeside(each.id, one.id))
  // Only the last of each scope: the others are observed through it.
  return [...new Map(seen.map((each) => [scopeOf(each.id), each.id])).values()]
}

function sinceOf(item: Outcome): number {
  return 'since' in item && item.since !== undefined ? item.since : firstSeq(item) - 1
}

/** Commands to repeat, with the first sequence in each scope: journals are long, and scopes are few. */
class Found {
  readonly ids = new Set<string>()
  readonly #firstIn = new Map<string, number>()

  add(id: string, seq: number): void {
    this.ids.add(id)
    const scope = scopeOf(id)
    this.#firstIn.set(scope, Math.min(seq, this.#firstIn.get(scope) ?? seq))
  }

  hasAny(ids: readonly string[]): boolean {
    return ids.some((id) => this.ids.has(id))
  }

  /** Whether one of them has an outcome up to `seq` that the code of the command could observe. */
  isBefore(id: string, seq: number): boolean {
    const scope = scopeOf(id)
    for (const [other, first] of this.#firstIn) if (first <= seq && !areBeside(other, scope)) return true
    return false
  }
}

function isBeside(a: string, b: string): boolean {
  return areBeside(scopeOf(a), scopeOf(b))
}

function scopeOf(id: string): string {
  return id.slice(0, Math.max(0, id.lastIndexOf('/')))
}

/** True for scopes in two branches of the same `parallel` or `race`: neither observes results of the other. */
function areBeside(a: string, b: string): boolean {
  const [left, right] = [a.split('/'), b.split('/')]
  const at = left.findIndex((part, i) => part !== right[i])
  const [own, other] = [fanOf(left[at]), fanOf(right[at])]
  return own !== null && own === other
}

/** The `parallel` or `race` that this part of a path is a branch of. */
function fanOf(part: string | undefined): string | null {
  return /^(~(?:all|race)(?:#\d+)?)\./.exec(part ?? '')?.[1] ?? null
}
