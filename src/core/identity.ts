// Identity beyond the store: everything that leaves a store and returns (idempotency keys, ids, positions) is derived
// here, and nowhere else.
//
//   store      128 random bits, made with the namespace. Restores and moves of the whole store keep these bits and the
//              name of the first namespace
//   life       the number of timelines made under this id: an id that is used again is another timeline
//   identity   digest of store, namespace, timeline id and life. Models record it in the first entry of a run, so that
//              exports, moves, shards and restores keep it
//   generation the number of deliberate rollbacks below this sequence
//   intent     the intended work in the model's own terms (its input, its step, its record)
//
//   key = name "-" first 128 bits of H(identity, generation, model, intent)
//
// The incarnation of a store, numbers of checkpoints and counters of arrival are never part of a key: after a restore the same
// intent must have the same key, so that outside services drop repetitions of work done after the backup.

import { assert } from './assert.ts'
import { type Digest, type TimelineId, toHex } from './coordinate.ts'
import type { Hash } from './store/ports.ts'
import type { RequestRow } from './store/requests.ts'

/** The identity of one namespace of a store. */
export interface StoreIdentity {
  /** 32 hexadecimal digits. */
  readonly id: string
  /** Changes when the store returns to an earlier state: positions issued before become invalid. */
  readonly incarnation: string
  /**
   * A number of the incarnation that only grows: 0 for a store that never returned to an earlier state, otherwise hours since
   * 2026. Numeric revisions contain it (revisionAt).
   */
  readonly era: number
  /** The key that encrypts and authenticates positions outside of the store: 64 hexadecimal digits. */
  readonly secret: string
  /** The namespace from which identities are derived: that of the original if the store was restored into another. */
  readonly namespace?: string
}

const encoder = new TextEncoder()
const keyDigits = 32
const nameLength = 24
const markDigits = 16
const checkDigits = 8

const eraSize = 2 ** 33
const seqsMax = 2 ** 32
const livesApart = 4
const erasStart = Date.UTC(2026, 0, 1)

/** The era of a store that now returns to an earlier state. */
export function nextEra(before: number, now: number): number {
  return Math.max(before + 1, Math.floor((now - erasStart) / 3_600_000))
}

/** Two numbers that distinguish histories where a position must be a number. */
export interface Era {
  /** The era of the store. */
  readonly era: number
  /** The life of the timeline. */
  readonly life: number
  /** The number before the first revision: 32 bits of the timeline's identity (firstRevision). */
  readonly first: number
}

/**
 * Timelines of other namespaces and stores number their revisions from different starts: equal numbers have a probability of 1
 * in 2^32.
 */
export function firstRevision(identity: string): number {
  return Number.parseInt(identity.slice(0, 8), 16)
}

/** A sequence as a number for outside users: it differs in another timeline, era and life, and grows with era and life. */
export function revisionAt(history: Era, seq: number): number {
  assert(seq < seqsMax, 'a sequence fits into the part of its era')
  return historyNumber(history) * eraSize + history.first + seq
}

/** The sequence of a revision of this history; null: it belongs to another history. */
export function seqOfRevision(history: Era, revision: number): number | null {
  const seq = revision - historyNumber(history) * eraSize - history.first
  return seq >= 0 && seq < seqsMax ? seq : null
}

/** 18 bits of era (hours, until 2055) and 2 of life: with 33 for the sequence, a number that every client can represent. */
function historyNumber({ era, life }: Era): number {
  return era * livesApart + ((life - 1) % livesApart)
}

/** The stored name of a forgotten id: 128 bits of its digest. */
export function pastName(hash: Hash, timeline: TimelineId): string {
  return toHex(hash(encoder.encode(timeline)).subarray(0, 16))
}

/** @example identityOf(sha256, store, 'shop', 'workflow/checkout/order-42', 1) // 32 hexadecimal digits */
export function identityOf(
  hash: Hash,
  store: Pick<StoreIdentity, 'id'>,
  namespace: string,
  timeline: TimelineId,
  life: number,
): string {
  return toHex(digestOf(hash, ['timeline', store.id, namespace, timeline, String(life)]).subarray(0, keyDigits / 2))
}

/**
 * The mark of one history, in streams and positions. A new incarnation of the store, a new life of a timeline and each
 * rollback change the mark. `origins`: the origins of the timelines that a stream reads.
 * @example historyMark(sha256, store, [open.origin]) // 16 hexadecimal digits
 */
export function historyMark(
  hash: Hash,
  { incarnation, secret }: Pick<StoreIdentity, 'incarnation' | 'secret'>,
  origins: readonly Pick<Intent, 'identity' | 'generation'>[],
): string {
  const parts = origins.flatMap(({ identity, generation }) => [identity, String(generation)])
  return toHex(digestOf(hash, ['history', secret, incarnation, ...parts])).slice(0, markDigits)
}

const leaseMarkSize = 2 ** 20

/**
 * The number under which a client writes with a lease: the epoch of the timeline, and 20 bits of its history (historyMark). It
 * grows with the epoch, and differs for another namespace, store, incarnation or life.
 * @example leaseNumber(historyMark(sha256, store, [origin]), 7)
 */
export function leaseNumber(mark: string, epoch: number): number {
  assert(epoch < Number.MAX_SAFE_INTEGER / leaseMarkSize, 'an epoch leaves room for the mark of its history')
  return epoch * leaseMarkSize + (Number.parseInt(mark.slice(0, 8), 16) % leaseMarkSize)
}

/** The epoch in the number of a lease; null: the number belongs to another history. */
export function epochOfLease(mark: string, lease: number): number | null {
  const epoch = Math.floor(lease / leaseMarkSize)
  return leaseNumber(mark, epoch) === lease ? epoch : null
}

/**
 * The name of a request of an application (RequestRow): its number, and a check over the store and the request's content. A
 * number of another store, or of a request that a restore replaced, is not trusted.
 * @example requestName(sha256, identity.known, 'shop', row) // '12-9f86d081'
 */
export function requestName(
  hash: Hash,
  store: Pick<StoreIdentity, 'id'>,
  namespace: string,
  { number, verb, target, id, topic, key, data, options, sentAt }: Omit<RequestRow, 'group' | 'problem'>,
): string {
  const payload = data === null ? '' : typeof data === 'string' ? data : toHex(hash(data))
  const parts = [verb, target, id, topic ?? '', key ?? '', options ?? '', payload, String(sentAt)]
  return `${number}-${toHex(digestOf(hash, ['request', store.id, namespace, String(number), ...parts])).slice(0, checkDigits)}`
}

/**
 * The id of a checkpoint requested with a key: a repeated request finds it in the catalog, and one of another history
 * (`mark`: historyMark) does not. It has the length of the engine's own checkpoint ids.
 */
export function keyedCheckpointId(hash: Hash, mark: string, principal: string, key: string): string {
  return toHex(digestOf(hash, ['checkpoint', mark, principal, key])).slice(0, markDigits)
}

export interface Intent {
  /** The identity of the timeline with the intent (identityOf). */
  readonly identity: string
  /** 0 until a rollback. */
  readonly generation: number
  /** workflow, job, effect, … */
  readonly model: string
  /** For people who see the key in another system: step, tool, sink. */
  readonly name: string
  /** The intended work in the model's own terms; values as their digest in hexadecimal. */
  readonly parts: readonly string[]
}

/**
 * The idempotency key of an intent: the same for every attempt, owner and copy, and different for every other intent. Visible
 * ASCII, at most 57 characters, so it fits into a header. @example intentKey(sha256, { identity, generation: 0, model:
 * 'effect', name: 'charge', parts: ['charge'] }) // 'charge-9f86d0…'
 */
export function intentKey(hash: Hash, { identity, generation, model, name, parts }: Intent): string {
  const digest = digestOf(hash, ['key', identity, String(generation), model, name, ...parts])
  const shown = name.replace(/[^A-Za-z0-9_.-]+/g, '_').slice(0, nameLength)
  return `${shown}-${toHex(digest).slice(0, keyDigits)}`
}

const formerLength = 255

/**
 * The key of a step in a run that recorded no identity: such runs keep the keys they had.
 * @example formerStepKey(sha256, 'workflow/checkout/order-42', 0, 'charge') // 'workflow/checkout/order-42:charge'
 */
export function formerStepKey(hash: Hash, run: string, generation: number, step: string): string {
  const text = `${run.replaceAll('%', '%25').replaceAll(':', '%3A')}${generation === 0 ? '' : `.${generation}`}:${step}`
  // Visible ASCII and not too long, so it fits into a header.
  if (text.length <= formerLength && /^[\x21-\x7e]+$/.test(text)) return text
  const tail = `#${toHex(hash(encoder.encode(text)))}`
  return text.replace(/[^\x21-\x7e]/g, '_').slice(0, formerLength - tail.length) + tail
}

/** The key of an item in a job that recorded no identity. */
export function formerItemKey(hash: Hash, job: string, item: string, version: string): string {
  return toHex(hash(encoder.encode(JSON.stringify([job, item, version])))).slice(0, keyDigits)
}

/** The key of a call of a pipeline that was in progress before keys were digests. */
export function formerCallKey(pipeline: string, operator: string, record: number): string {
  return `${pipeline}/${operator}/${record}`
}

/** Each part follows its length, so that two different lists never have the same digest. */
function digestOf(hash: Hash, parts: readonly string[]): Digest {
  return hash(encoder.encode(parts.map((part) => `${part.length}:${part}`).join('')))
}
