// Personal data that can be removed from an immutable history. A field wrapped in `personal(value)` is sealed with its
// aggregate's own key before it is written; events, state, checkpoints, projections and exports hold the sealed bytes
// only. Shredding removes the timeline that holds the key: the history stays complete, its digests stay valid, and the
// data is gone.
//
// Sealed field: { personal: nonce(12) ++ AES-256-GCM(codec(value)) ++ tag(16) }, associated data = the aggregate's
// timeline.

import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { guardOf } from '../../core/store/commit-guard.ts'
import { refusalError } from '../../engine/base/refusal-error.ts'
import type { Host } from '../../engine/host/host.ts'
import type { Fold } from '../../engine/model/definition.ts'
import { isPlainObject } from '../../engine/snapshot/capture.ts'
import type { NewEntry } from '../../engine/writing/timeline.ts'
import { helperModel, keysKind } from './model.ts'

declare const plain: unique symbol

/** A personal value: the plain value in a new event, sealed from then on. Read it with `handle.reveal`. */
export interface Personal<T> {
  readonly personal: Uint8Array | Unsealed
  readonly [plain]?: T
}

export class Unsealed {
  readonly value: unknown
  constructor(value: unknown) {
    this.value = value
  }
}

const nonceBytes = 12
const tagBytes = 16

const keyFold: Fold<{ readonly key: Uint8Array | null }> = {
  version: '1',
  initial: () => ({ key: null }),
  apply: (state, entry) => (entry.type === 'key' ? { key: entry.data as Uint8Array } : state),
}

/** @example decide: { register: (s, c: { email: string }) => ({ type: 'registered', email: personal(c.email) }) } */
export function personal<T>(value: T): Personal<T> {
  return { personal: new Unsealed(value) }
}

/** Whether there is anything to seal. */
export function holdsPersonal(entries: readonly NewEntry[]): boolean {
  for (const entry of entries) if (holdsUnsealed(entry.data)) return true
  return false
}

/** Returns the entries with their personal fields sealed. */
export async function sealPersonal(
  engine: Host,
  name: string,
  id: string,
  entries: readonly NewEntry[],
): Promise<readonly NewEntry[]> {
  const key = await keyOf(engine, name, id, true)
  const seal = (value: unknown): unknown => {
    if (isUnsealed(value)) return { personal: encrypt(engine, key!, contextOf(name, id), value.personal.value) }
    if (Array.isArray(value)) return value.map(seal)
    if (!isPlainObject(value)) return value
    return Object.fromEntries(Object.entries(value).map(([field, part]) => [field, seal(part)]))
  }
  return entries.map((entry) => ({ ...entry, data: seal(entry.data) }))
}

export async function reveal<T>(
  engine: Host,
  name: string,
  id: string,
  field: Personal<T> | undefined | null,
): Promise<T | null> {
  if (!field) return null
  if (field.personal instanceof Unsealed) return field.personal.value as T
  const key = await keyOf(engine, name, id, false)
  if (!key) return null
  const bytes = field.personal
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes })
  decipher.setAAD(contextOf(name, id))
  decipher.setAuthTag(bytes.subarray(bytes.length - tagBytes))
  try {
    const open = Buffer.concat([decipher.update(bytes.subarray(nonceBytes, bytes.length - tagBytes)), decipher.final()])
    return engine.codec.decode(open) as T
  } catch (cause) {
    throw new RepriseError(
      'DECRYPT_FAILED',
      `a personal field of ${name}/${id} cannot be decrypted`,
      { name, id },
      cause,
    )
  }
}

/**
 * Removes the key and its timeline from the store and its files. Returns the places where bytes of it may remain.
 * Earlier backups keep their copy: shred them too.
 */
export async function shred(engine: Host, name: string, id: string): Promise<readonly string[]> {
  const { kernel } = engine
  const timeline = timelineId(`keys/${name}/${id}`)
  for (;;) {
    const [head] = await kernel.store.head([timeline])
    // Also if the head is gone: a process that was killed may have stopped at this point.
    if (!head) return await kernel.store.upkeep.scrub()
    const outcome = await engine.commit({
      guard: guardOf(head),
      forget: 'erase',
    })
    if (outcome.ok) continue
    if (outcome.code !== 'FENCED' && outcome.code !== 'CONFLICT') throw refusalError(timeline, outcome)
  }
}

async function keyOf(engine: Host, name: string, id: string, make: boolean): Promise<Uint8Array | null> {
  const timeline = timelineId(`keys/${name}/${id}`)
  engine.declare(helperModel(keysKind, name, `keys/${name}/`, keyFold as Fold<never>))
  for (;;) {
    if (await engine.head(timeline)) {
      const { state } = await engine.recover(await engine.existing(timeline), keyFold)
      return state.value.key
    }
    if (!make) return null
    const key = new Uint8Array(randomBytes(32))
    if (await engine.create(timeline, keyFold, [{ type: 'key', data: key }], { release: true })) return key
  }
}

function encrypt(engine: Host, key: Uint8Array, context: Uint8Array, value: unknown): Uint8Array {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes })
  cipher.setAAD(context)
  const secret = Buffer.concat([cipher.update(engine.codec.encode(value)), cipher.final()])
  return new Uint8Array(Buffer.concat([nonce, secret, cipher.getAuthTag()]))
}

function contextOf(name: string, id: string): Uint8Array {
  return new TextEncoder().encode(`events/${name}/${id}`)
}

/** Checks without allocating: every event passes here. */
function holdsUnsealed(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value)) {
    for (const part of value) if (typeof part === 'object' && holdsUnsealed(part)) return true
    return false
  }
  if (!isPlainObject(value)) return false
  if (value.personal instanceof Unsealed) return true
  for (const field in value) if (typeof value[field] === 'object' && holdsUnsealed(value[field])) return true
  return false
}

function isUnsealed(value: unknown): value is { readonly personal: Unsealed } {
  return isPlainObject(value) && (value as { personal?: unknown }).personal instanceof Unsealed
}
