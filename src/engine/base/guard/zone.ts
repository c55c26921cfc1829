// Zones: code that is replayed from history and must then do the same. Workflow code is in a zone (the layer finds it
// through the async context); a fold, an `evolve` or a projection handler is in a zone while it runs. The guard looks
// up the caller's zone here; code outside of zones gets the original functions.

import type { RepriseError } from '../../../core/errors.ts'
import type { Sql } from '../../../core/store/ports.ts'
import { refuseThenable } from '../../../core/synchronous.ts'
import { runtime } from '../../../lib/runtime/index.ts'

export interface Zone {
  /** Names the code in error messages: "workflow code", "apply of counter/visits@3 (added)". */
  readonly what: string
  /** Replaces the clock and randomness. Null: both are refused. */
  readonly values: ZoneValues | null
  /** The recommended replacement for the call. */
  cure(call: string): string
  /** Records a refused call at a place where throwing would harm other code: the zone's code fails when it returns. */
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
const asyncZones = new runtime.AsyncContext<Zone | null>()

/** The zone of the calling code. Null: the caller is in no zone. */
export function zoneNow(): Zone | null {
  if (pure !== null) return pure
  if (waiting > 0) {
    const zone = asyncZones.getStore()
    if (zone) return zone
  }
  return finder === null ? null : finder()
}

/** Sets the function that finds zones in the async context; only one layer has them. */
export function setFinder(find: FindZone | null): void {
  finder = find
}

/** Starts a synchronous zone; pass the returned value to `leavePure`. Cheap enough for one pair of calls per entry. */
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

/** Code whose result may depend on its arguments only: it has neither a clock nor randomness. */
export class PureZone implements Zone {
  readonly values = null
  readonly #what: string
  /** The entry passed to the code, if any. */
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
    return 'the result must be the same whenever history is folded again; record the value in the entry and read it from there'
  }

  blame(error: RepriseError): void {
    this.#blamed ??= error
  }

  /** Returns the recorded refusal, and clears it. */
  take(): RepriseError | null {
    const blamed = this.#blamed
    this.#blamed = null
    return blamed
  }

  /** Throws a recorded refusal even if the code caught the error: unguarded, it would have continued with another value. */
  check(): void {
    const blamed = this.take()
    if (blamed) throw blamed
  }
}

/** Runs the user's pure function, in a zone of its own if folds are guarded. */
export function callPure<T>(isGuarded: boolean, what: string, call: () => T, place: Place | null = null): T {
  const value = isGuarded ? callGuarded(what, call, place) : call()
  refuseThenable(value, what, waitElsewhere)
  return value
}

const waitElsewhere = 'do asynchronous work in a step, a job or a handler with SQL, and record its result in the event'

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

/** The same for code that awaits SQL: the statements themselves run outside of the zone. */
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
    rows: (text, ...values) => leave(() => sql.rows(text, ...values)),
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
