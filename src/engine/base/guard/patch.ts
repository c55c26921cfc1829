// Replaces a function by another that looks the same to code that inspects it, and restores the original.

import { promisify } from 'node:util'
import { refusal } from './refusal.ts'
import { type Zone, type ZoneValues, zoneNow } from './zone.ts'

// biome-ignore lint/suspicious/noExplicitAny: functions of any shape are wrapped and passed through.
export type Any = any

const restores: (() => void)[] = []

export function restoreAll(): void {
  for (const restore of restores.splice(0).reverse()) restore()
}

/** These functions throw in a zone. */
export function refuse(owner: object | undefined, module: string, names: readonly string[]): void {
  if (!owner) return
  for (const name of names) {
    const original = (owner as Any)[name]
    if (typeof original !== 'function') continue
    const call = module === '' ? name : `${module}.${name}`
    const guarded = refusing(original, call)
    const promised = original[promisify.custom]
    if (typeof promised === 'function') {
      Object.defineProperty(guarded, promisify.custom, { value: refusing(promised, call), configurable: true })
    }
    replace(owner, name, guarded)
  }
}

function refusing(original: Any, call: string): Any {
  const guarded = function (this: unknown, ...args: unknown[]) {
    const zone = zoneNow()
    if (zone !== null) throwRefusal(zone, call)
    return new.target ? Reflect.construct(original, args, new.target) : Reflect.apply(original, this, args)
  }
  return dress(guarded, original)
}

/** Throws, unless the module loader is the caller. The blamed zone fails even if its code catches the error. */
export function throwRefusal(zone: Zone, call: string): void {
  const error = refusal(zone, call)
  if (!error) return
  if (zone.values === null) zone.blame(error)
  throw error
}

/** In a zone with values, the function returns a derived value; in a zone without values, it throws. */
export function derive(
  owner: object | undefined,
  module: string,
  name: string,
  value: (values: ZoneValues, ...args: Any[]) => unknown,
): void {
  const original = (owner as Any)?.[name]
  if (!owner || typeof original !== 'function') return
  const call = module === '' ? name : `${module}.${name}`
  const guarded = function (this: unknown, ...args: unknown[]) {
    const values = valuesFor(call)
    return values === null ? Reflect.apply(original, this, args) : value(values, ...args)
  }
  replace(owner, name, dress(guarded, original))
}

/** The same for a getter. Without `value`, every zone refuses it. */
export function deriveGetter(
  owner: object | undefined,
  module: string,
  name: string,
  value?: (values: ZoneValues) => unknown,
): void {
  const own = owner && Object.getOwnPropertyDescriptor(owner, name)
  if (!own) return
  const original = own.get ?? (() => own.value)
  const call = `${module}.${name}`
  replaceGetter(owner, name, function (this: unknown) {
    const zone = zoneNow()
    if (zone !== null && !value) throwRefusal(zone, call)
    const values = value ? valuesFor(call) : null
    return values === null ? Reflect.apply(original, this, []) : value!(values)
  })
}

export function replaceGetter(owner: object, name: string, get: (this: never) => unknown): void {
  const own = Object.getOwnPropertyDescriptor(owner, name)
  if (!own || own.configurable === false) return
  Object.defineProperty(owner, name, { get, configurable: true, enumerable: own.enumerable ?? false })
  restores.push(() => Object.defineProperty(owner, name, own))
}

/** The values of the calling zone. Null: the caller is outside of zones, or is the module loader. */
export function valuesFor(call: string): ZoneValues | null {
  const zone = zoneNow()
  if (zone === null) return null
  if (zone.values === null) throwRefusal(zone, call)
  return zone.values
}

/** Copies name, length, prototype and other properties, so that code that inspects the function sees the original's. */
export function dress(guarded: Any, original: Any): Any {
  for (const key of Reflect.ownKeys(original)) {
    const own = Object.getOwnPropertyDescriptor(original, key)!
    if (Object.getOwnPropertyDescriptor(guarded, key)?.configurable === false) {
      if (key === 'prototype') guarded.prototype = original.prototype
    } else Object.defineProperty(guarded, key, { ...own, configurable: true })
  }
  return guarded
}

export function replace(owner: object, name: string, value: unknown): void {
  const own = Object.getOwnPropertyDescriptor(owner, name)
  try {
    Object.defineProperty(owner, name, {
      value,
      configurable: true,
      writable: true,
      enumerable: own?.enumerable ?? false,
    })
  } catch {
    // Another tool sealed the property: this one call stays unguarded.
    return
  }
  restores.push(() => {
    if (own) Object.defineProperty(owner, name, own)
    else delete (owner as Any)[name]
  })
}

/** The names of a module's functions, without classes and internals. */
export function callsOf(module: object | undefined, except: ReadonlySet<string> = new Set()): string[] {
  return Object.getOwnPropertyNames(module ?? {}).filter(
    (name) =>
      /^[a-z]/.test(name) &&
      name !== 'constructor' &&
      !except.has(name) &&
      typeof Object.getOwnPropertyDescriptor(module, name)?.value === 'function',
  )
}
