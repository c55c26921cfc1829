// The observations of a scope: the run's input, results of commands, payloads of signals and updates. Their digest is
// part of the keys of steps (step-key.ts): after a restore, code with other observations has another intent.
//
// A scope counts its own observations and those made before it began, never those of parallel branches; the order in
// which results arrive makes no difference. An observation of undefined carries nothing and is not counted.

import { toHex } from '../../../core/coordinate.ts'
import type { Hash } from '../../../core/store/ports.ts'

/** Digests values. */
export interface Digester {
  readonly hash: Hash
  readonly codec: { encode(value: unknown): Uint8Array }
  /** Results are not counted, because they may be lost and computed again. */
  readonly skipsResults?: boolean
}

type Observation =
  | { readonly id: string; readonly value: unknown }
  | { readonly id: string; readonly digest: Uint8Array }
  | { readonly id: string; readonly ends: readonly Position[] }

/** A moment in a scope, with the observations up to it. */
export interface Position {
  /** Empty if there are no observations. */
  digest(): string
}

const encoder = new TextEncoder()
const digestBytes = 32

export class Observed {
  readonly #digester: Digester
  /** The position at which this scope began. */
  readonly #base: Position | null
  /**
   * Updates reach all scopes of a run: their handlers may change what any of them does next. Null in the list of
   * updates itself.
   */
  readonly #updates: Observed | null
  readonly #seen: Observation[] = []
  /** The sum of the first `#summed` observations. */
  #sum = new Uint8Array(digestBytes)
  #summed = 0

  constructor(digester: Digester, base: Position | null = null, updates: Observed | null = null) {
    this.#digester = digester
    this.#base = base
    this.#updates = updates
  }

  get count(): number {
    return this.#seen.length
  }

  /** Adds the result of a command, or a state that is derived from results. */
  addResult(id: string, value: unknown): void {
    if (!this.#digester.skipsResults) this.add(id, value)
  }

  add(id: string, value: unknown): void {
    if (value === undefined) return
    // Code may change an object that it receives, so objects are digested now. Other values are digested when a key is
    // read, which is rare.
    if (typeof value === 'object' && value !== null) this.#seen.push({ id, digest: digestOf(this.#digester, value) })
    else this.#seen.push({ id, value })
  }

  /** Branches have ended here: from now on this scope includes their observations. */
  join(id: string, ends: readonly Position[]): void {
    this.#seen.push({ id, ends })
  }

  here(): Position {
    return new Place(this, this.#seen.length, this.#updates?.count ?? 0)
  }

  /** @internal */
  digestAt(count: number, updates: number): string {
    const base = this.#base?.digest() ?? ''
    if (base === '' && count === 0 && updates === 0) return ''
    const parts = [base, toHex(this.#sumOf(count)), this.#updates ? toHex(this.#updates.#sumOf(updates)) : '']
    return toHex(this.#digester.hash(encoder.encode(parts.join('.'))))
  }

  /** An unordered sum: each observation has its own id, so no two cancel out. */
  #sumOf(count: number): Uint8Array {
    const [from, to] = count > this.#summed ? [this.#summed, count] : [count, this.#summed]
    const sum = this.#sum.slice()
    for (let i = from; i < to; i++) {
      const digest = this.#digestOf(this.#seen[i]!)
      for (let byte = 0; byte < digestBytes; byte++) sum[byte]! ^= digest[byte]!
    }
    this.#sum = sum
    this.#summed = count
    return sum
  }

  #digestOf(one: Observation): Uint8Array {
    const content =
      'ends' in one
        ? one.ends.map((end) => end.digest()).join('.')
        : toHex('digest' in one ? one.digest : digestOf(this.#digester, one.value))
    return this.#digester.hash(encoder.encode(`${one.id}\n${content}`))
  }
}

/** Every command has one, and most are never digested: an object without a closure. */
class Place implements Position {
  readonly #observed: Observed
  readonly #count: number
  readonly #updates: number

  constructor(observed: Observed, count: number, updates: number) {
    this.#observed = observed
    this.#count = count
    this.#updates = updates
  }

  digest(): string {
    return this.#observed.digestAt(this.#count, this.#updates)
  }
}

export function digestOf({ hash, codec }: Digester, value: unknown): Uint8Array {
  return hash(codec.encode(value))
}
