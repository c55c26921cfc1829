// The position of code: a scope is one branch of one run, found through the async context, so that parallel branches,
// loops and handlers each count their own commands. A command's identity is its scope's path, its name and its
// occurrence there.

import { RepriseError } from '../../../core/errors.ts'
import type { Zone, ZoneValues } from '../../../engine/base/guard/zone.ts'
import { runtime } from '../../../lib/runtime/index.ts'
import { type Digester, Observed } from './observations.ts'
import { type Chance, chanceOf, type Seed } from './randomness.ts'

/** Workflow code runs in a scope; the call of a step runs in no scope, but has its step. */
export interface Place {
  readonly scope: Scope | null
  readonly step: CurrentStep | null
}

/** The attempt in flight in the current async context. */
export interface CurrentStep {
  readonly name?: string
  readonly attempt?: number
  /** The attempt is the compensation of the step with this name. */
  readonly isUndo?: true
  heartbeat(details?: unknown): Promise<void>
}

const places = new runtime.AsyncContext<Place | undefined>()

export function currentScope(): Scope | null {
  return places.getStore()?.scope ?? null
}

export function currentPlace(): Place | undefined {
  return places.getStore()
}

export function enterScope<T>(scope: Scope, call: () => T): T {
  return places.run({ scope, step: null }, call)
}

export function enterStep<A, T>(step: NonNullable<Place['step']>, call: (argument: A) => T, argument?: A): T {
  return places.run({ scope: null, step }, call, argument as A)
}

/** The engine's own work, and everything it schedules, must not be taken for workflow code. */
export function leaveScope<T>(call: () => T): T {
  return places.getStore() === undefined ? call() : places.run(undefined, call)
}

/** The same for a function with an argument: on the path of a step, no closure is made for it. */
export function leaveScopeWith<A, T>(call: (argument: A) => T, argument: A): T {
  return places.getStore() === undefined ? call(argument) : places.run(undefined, call, argument)
}

const nameLengthMax = 200

/** The parts of an execution that its scopes use. */
export interface Running {
  /** Workflow time. */
  readonly time: number
  readonly digester: Digester
  /** The payloads of the updates handled so far. */
  readonly updates: Observed
  /** The seed of values that are drawn now. */
  seed(): Seed
  blame(error: RepriseError): void
}

export class Scope implements Zone, ZoneValues {
  readonly what = 'workflow code'
  readonly run: Running
  readonly path: string
  readonly parent: Scope | null
  readonly commands = new Map<string, unknown>()
  readonly #counts = new Map<string, number>()
  readonly observed: Observed
  #decisions: Map<string, boolean> | null = null
  #chance: { readonly seed: string; readonly source: Chance } | null = null
  abandoned: string | null = null

  constructor(run: Running, path: string, parent: Scope | null) {
    this.run = run
    this.path = path
    this.parent = parent
    this.observed = new Observed(run.digester, parent?.observed.here(), run.updates)
  }

  child(path: string): Scope {
    const child = new Scope(this.run, path, this)
    child.abandoned = this.abandoned
    return child
  }

  /** The identity of the next command with this name in this scope. */
  next(name: string): string {
    const count = (this.#counts.get(name) ?? 0) + 1
    this.#counts.set(name, count)
    const own = count === 1 ? name : `${name}#${count}`
    return this.path === '' ? own : `${this.path}/${own}`
  }

  /** The id of the last command with this name in this scope, or in the scopes around it; null if there is none. */
  latest(name: string): string | null {
    const count = this.#counts.get(name)
    if (count === undefined) return this.parent?.latest(name) ?? null
    const own = count === 1 ? name : `${name}#${count}`
    return this.path === '' ? own : `${this.path}/${own}`
  }

  patchDecision(name: string): boolean | undefined {
    return this.#decisions?.get(name) ?? this.parent?.patchDecision(name)
  }

  decidePatch(name: string, decision: boolean): boolean {
    this.#decisions ??= new Map()
    this.#decisions.set(name, decision)
    return decision
  }

  get values(): ZoneValues {
    return this
  }

  get time(): number {
    return this.run.time
  }

  cure(call: string): string {
    return `put it in a step, as in ctx.step('name', () => ${call}(…))`
  }

  blame(error: RepriseError): void {
    this.run.blame(error)
  }

  uuid(): string {
    return this.#source.uuid()
  }

  random(): number {
    return this.#source.number()
  }

  fill(bytes: Uint8Array): void {
    this.#source.fill(bytes)
  }

  get #source(): Chance {
    const seed = this.run.seed()
    if (this.#chance?.seed !== seed.text) {
      this.#chance = { seed: seed.text, source: chanceOf(this.run.digester.hash, seed, this.path) }
    }
    return this.#chance.source
  }
}

/** A step's name as part of an id: the characters that ids use as separators are escaped. */
export function commandName(name: string): string {
  if (typeof name !== 'string' || name.length === 0 || name.length > nameLengthMax) {
    throw new RepriseError('INVALID_ARGUMENT', `a name must have 1 to ${nameLengthMax} characters`, {
      name: String(name).slice(0, 80),
    })
  }
  return /[%/#~.]/.test(name) ? name.replace(/[%/#]|^~|\.(?=\d)/g, (c) => `%${c.charCodeAt(0).toString(16)}`) : name
}

/** For people: an id without escapes. */
export function readableId(id: string): string {
  return id.replace(/%(25|2f|23|7e|2e)/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
}

/** The name of a step in the code, from its id, without branch and occurrence. */
export function stepName(id: string): string {
  return readableId(id.slice(id.lastIndexOf('/') + 1).replace(/#\d+$/, ''))
}
