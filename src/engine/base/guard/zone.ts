// Zones: code that is run again from history and must then do the same. Workflow code is in one (the layer finds it
// through the async context); a fold, an `evolve` or a handler of a projection is in one for as long as it runs. The guard
// asks here who calls; whoever is in no zone gets the original of everything.

import { AsyncLocalStorage } from 'node:async_hooks'
import type { RepriseError } from '../../../core/errors.ts'
import type { Sql } from '../../../core/store/ports.ts'
import { refuseThenable } from '../../../core/synchronous.ts'

export interface Zone {
  /** Who it is, for the message: "workflow code", "apply of counter/visits@3 (added)". */
  readonly what: string
  /** What stands in for the clock and for chance; null: nothing does, and asking for them is refused. */
  readonly values: ZoneValues | null
  /** What to do instead of the call. */
  cure(call: string): string
  /** It did what it may not, and where an error that is thrown would harm others: it must fail when it comes back. */
  blame(error: RepriseError): void
}

export interface ZoneValues {
  readonly time: number
  random(): number
  uuid(): string
  fill(bytes: Uint8Array): void
}

export type FindZone = () => Zone | null

let pure: Zone | null = null
let finder: FindZone | null = null
let waiting = 0
const asyncZones = new AsyncLocalStorage<Zone | null>()

/** The zone of the code that calls; null for everybody else. */
export function zoneNow(): Zone | null {
  if (pure !== null) return pure
  if (waiting > 0) {
    const zone = asyncZones.getStore()
    if (zone) return zone
  }
  return finder === null ? null : finder()
}

/** How zones of the async context are found; there is one layer that has them. */
export function setFinder(find: FindZone | null): void {
  finder = find
}

/** A synchronous zone from here on; what it returns goes to `leavePure`. Cheap enough for one pair per entry. */
export function enterPure(zone: Zone): Zone | null {
  const before = pure
  pure = zone
  return before
}

export function leavePure(before: Zone | null): void {
  pure = before
}

export interface Place {
  readonly timeline: string
  readonly seq: number
  readonly type: string
}

/** Code that must give the same whenever it is given the same, and has neither a clock nor chance to ask. */
export class PureZone implements Zone {
  readonly values = null
  readonly #what: string
  /** The entry that it is given, if it is given one. */
  entry: Place | null
  #blamed: RepriseError | null = null

  constructor(what: string, entry: Place | null = null) {
    this.#what = what
    this.entry = entry
  }

  get what(): string {
    return this.entry ? `${this.#what} of ${this.entry.timeline}@${this.entry.seq} (${this.entry.type})` : this.#what
  }

  cure(): string {
    return 'it must give the same whenever history is folded again; record the value in the entry and take it from there'
  }

  blame(error: RepriseError): void {
    this.#blamed ??= error
  }

  /** What it was blamed for since it was last asked. */
  take(): RepriseError | null {
    const blamed = this.#blamed
    this.#blamed = null
    return blamed
  }

  /** Throws it also where its own code caught the error: unguarded it would have gone on with something else. */
  check(): void {
    const blamed = this.take()
    if (blamed) throw blamed
  }
}

/** Runs the user's pure function in a zone of its own, where folds are guarded. */
export function callPure<T>(isGuarded: boolean, what: string, call: () => T, place: Place | null = null): T {
  const value = isGuarded ? callGuarded(what, call, place) : call()
  refuseThenable(value, what, waitElsewhere)
  return value
}

const waitElsewhere = 'what waits belongs into a step, a job or a handler with SQL, and its result into the event'

function callGuarded<T>(what: string, call: () => T, place: Place | null): T {
  const zone = new PureZone(what, place)
  const before = enterPure(zone)
  try {
    const value = call()
    zone.check()
    return value
  } catch (error) {
    throw zone.take() ?? error
  } finally {
    leavePure(before)
  }
}

/** The same for code that waits for SQL in between: the statements themselves are not its own doing. */
export async function callPureSql<T>(
  isGuarded: boolean,
  what: string,
  sql: Sql,
  call: (sql: Sql) => Promise<T> | T,
  place: Place | null = null,
): Promise<T> {
  if (!isGuarded) return await call(sql)
  const zone = new PureZone(what, place)
  const leave = <R>(statement: () => R): R => asyncZones.run(null, statement)
  const outside: Sql = {
    dialect: sql.dialect,
    run: (text, ...values) => leave(() => sql.run(text, ...values)),
    all: (text, ...values) => leave(() => sql.all(text, ...values)),
    get: (text, ...values) => leave(() => sql.get(text, ...values)),
  }
  waiting += 1
  try {
    const value = await asyncZones.run(zone, async () => await call(outside))
    zone.check()
    return value
  } catch (error) {
    throw zone.take() ?? error
  } finally {
    waiting -= 1
  }
}
