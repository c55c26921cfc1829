// Positions of the feed outside of the store: encrypted, since a position counts all writes, and authenticated, so that a
// position of another history or another scope is refused and never read as one in this store.
//
//   token = "f1." base64url(iv(12 bytes) tag(16 bytes) AES-256-GCM(place))
//   place = position | JSON [position, timeline, sequence, digest in hexadecimal]: with the last run that was read before it
//   iv    = the start of HMAC(secret, place and the data below): the same place has the same token
//   authenticated with it: the incarnation of the store and the scopes that were read
//
// The run proves that the store is the one that issued the position. A file or a database restored from an older copy, while no
// process was running, no longer has it.

import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto'
import { type Digest, fromHex, type TimelineId, timelineId, toHex } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { StoreIdentity } from '../../core/identity.ts'
import { type FeedPosition, feedStart } from '../../core/store/ports.ts'
import type { Kernel } from '../storage/kernel.ts'
import type { Identity } from '../storage/store-identity.ts'
import { whereabouts } from './feed-marks.ts'

const prefix = 'f1.'
const ivBytes = 12
const tagBytes = 16

/** A run that was read: its last sequence, and the digest of history there. */
export interface SeenRun {
  readonly timeline: TimelineId
  readonly seq: number
  readonly digest: Digest
}

interface Place {
  readonly at: FeedPosition
  readonly seen: SeenRun | null
}

interface Opened extends Place {
  readonly positions: OutsidePositions
}

export class OutsidePositions {
  readonly #key: Buffer
  readonly #bound: Buffer
  readonly #incarnation: string
  /** The data to which its positions are bound, as text. */
  readonly bound: string

  /** `scopes`: the visible scopes of the reader; undefined: all. */
  constructor({ secret, incarnation }: StoreIdentity, scopes?: readonly string[]) {
    this.#key = createHmac('sha256', Buffer.from(secret, 'hex')).update('feed positions').digest()
    this.bound = JSON.stringify([incarnation, scopes ?? null])
    this.#bound = Buffer.from(this.bound)
    this.#incarnation = incarnation
  }

  /** The positions of these scopes in this store, and the place of a token. Throws POSITION_GONE. */
  static async opened(
    kernel: Pick<Kernel, 'identity' | 'store' | 'hash'>,
    scopes: readonly string[] | undefined,
    token: string,
  ): Promise<Opened> {
    const opened = await openToken(kernel.identity, scopes, token)
    if (!opened.seen || !(await isGone(kernel, opened.seen))) return opened
    await kernel.identity.wentBack()
    throw gone()
  }

  /** Throws POSITION_GONE if the store went back since these positions were made. Call it after a page was read. */
  async confirm(identity: Identity): Promise<void> {
    if ((await identity.current()).incarnation !== this.#incarnation) throw gone()
  }

  /** `seen`: the last run read up to that position. @example positions.seal(page.next, seen) // 'f1.…' */
  seal(position: FeedPosition, seen?: SeenRun | null): string {
    if (position === feedStart) return position
    const text = Buffer.from(seen ? JSON.stringify([position, seen.timeline, seen.seq, toHex(seen.digest)]) : position)
    const iv = createHmac('sha256', this.#key).update(this.#bound).update(text).digest().subarray(0, ivBytes)
    const cipher = createCipheriv('aes-256-gcm', this.#key, iv).setAAD(this.#bound)
    const hidden = Buffer.concat([cipher.update(text), cipher.final()])
    return prefix + Buffer.concat([iv, cipher.getAuthTag(), hidden]).toString('base64url')
  }

  /**
   * Throws POSITION_GONE if the position is from another history (a store restored since), or another scope;
   * INVALID_ARGUMENT if it is not a position.
   */
  open(token: string): Place {
    if (token === feedStart) return { at: feedStart, seen: null }
    const [, text = ''] = /^f1\.([\w-]+)$/.exec(token) ?? []
    const bytes = Buffer.from(text, 'base64url')
    if (bytes.length <= ivBytes + tagBytes) throw noPosition(token)
    const decipher = createDecipheriv('aes-256-gcm', this.#key, bytes.subarray(0, ivBytes)).setAAD(this.#bound)
    decipher.setAuthTag(bytes.subarray(ivBytes, ivBytes + tagBytes))
    try {
      return placeOf(Buffer.concat([decipher.update(bytes.subarray(ivBytes + tagBytes)), decipher.final()]).toString())
    } catch {
      throw gone()
    }
  }
}

function placeOf(text: string): Place {
  if (!text.startsWith('[')) return { at: text, seen: null }
  const [at, timeline, seq, digest] = JSON.parse(text) as [FeedPosition, string, number, string]
  return { at, seen: { timeline: timelineId(timeline), seq, digest: fromHex(digest) as Digest } }
}

async function openToken(identity: Identity, scopes: readonly string[] | undefined, token: string): Promise<Opened> {
  const known = new OutsidePositions(await identity.load(), scopes)
  try {
    return { positions: known, ...known.open(token) }
  } catch (error) {
    // The token may be from an incarnation that another process has begun.
    const positions = new OutsidePositions(await identity.current(), scopes)
    if (positions.bound === known.bound) throw error
    return { positions, ...positions.open(token) }
  }
}

/** False if unknown: the timeline was deleted since, and perhaps created again. */
async function isGone(kernel: Pick<Kernel, 'store' | 'hash'>, seen: SeenRun): Promise<boolean> {
  const [head] = await kernel.store.head([seen.timeline])
  return head?.life === 1 && (await whereabouts(kernel, seen.timeline, seen, head)) === 'gone'
}

function noPosition(token: unknown): RepriseError {
  const what = 'a position of the feed must be one that the feed returned; pass none to read from the start'
  return new RepriseError('INVALID_ARGUMENT', what, { given: String(token).slice(0, 80) })
}

function gone(): RepriseError {
  const what =
    'the position belongs to another history: the store was restored or copied since, or the position belongs to another scope'
  const hint = 'Drop the data derived from this position, and read from the start: pass no position.'
  return new RepriseError('POSITION_GONE', what, {}, undefined, hint)
}
