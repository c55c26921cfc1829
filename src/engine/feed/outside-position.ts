// Positions of the feed as they leave the store: hidden, since a position counts what everybody writes, and signed, so that one
// of another history or of another scope is refused and never read as a place in this one.
//
//   token = "f1." base64url(iv(12 bytes) tag(16 bytes) AES-256-GCM(position))
//   iv    = the start of HMAC(secret, position and the data below): the same position has the same token
//   authenticated with it: the incarnation of the store and the scopes that were read

import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto'
import { RepriseError } from '../../core/errors.ts'
import type { StoreIdentity } from '../../core/identity.ts'
import { type FeedPosition, feedStart } from '../../core/ports.ts'
import type { Identity } from '../store-identity.ts'

const prefix = 'f1.'
const ivBytes = 12
const tagBytes = 16

export class OutsidePositions {
  readonly #key: Buffer
  readonly #bound: Buffer
  readonly #incarnation: string
  /** What its positions are bound to, as text. */
  readonly bound: string

  /** `scopes`: what the reader may see; undefined for everything. */
  constructor({ secret, incarnation }: StoreIdentity, scopes?: readonly string[]) {
    this.#key = createHmac('sha256', Buffer.from(secret, 'hex')).update('feed positions').digest()
    this.bound = JSON.stringify([incarnation, scopes ?? null])
    this.#bound = Buffer.from(this.bound)
    this.#incarnation = incarnation
  }

  /** The positions of these scopes in this store, and the place that a token names. Throws POSITION_GONE. */
  static async opened(
    identity: Identity,
    scopes: readonly string[] | undefined,
    token: string,
  ): Promise<{ readonly positions: OutsidePositions; readonly at: FeedPosition }> {
    const known = new OutsidePositions(await identity.load(), scopes)
    try {
      return { positions: known, at: known.open(token) }
    } catch (error) {
      // Perhaps of an incarnation that another process has begun.
      const positions = new OutsidePositions(await identity.current(), scopes)
      if (positions.bound === known.bound) throw error
      return { positions, at: positions.open(token) }
    }
  }

  /** Throws POSITION_GONE: the store went back since these positions were made. Asked after a page was read. */
  async confirm(identity: Identity): Promise<void> {
    if ((await identity.current()).incarnation !== this.#incarnation) throw gone()
  }

  /** @example positions.seal(page.next) // 'f1.…' */
  seal(position: FeedPosition): string {
    if (position === feedStart) return position
    const text = Buffer.from(position)
    const iv = createHmac('sha256', this.#key).update(this.#bound).update(text).digest().subarray(0, ivBytes)
    const cipher = createCipheriv('aes-256-gcm', this.#key, iv).setAAD(this.#bound)
    const hidden = Buffer.concat([cipher.update(text), cipher.final()])
    return prefix + Buffer.concat([iv, cipher.getAuthTag(), hidden]).toString('base64url')
  }

  /** Throws POSITION_GONE: the position is of another history (a store that was restored since), or of another scope. */
  open(token: string): FeedPosition {
    if (token === feedStart) return feedStart
    const [, text = ''] = /^f1\.([\w-]+)$/.exec(token) ?? []
    const bytes = Buffer.from(text, 'base64url')
    if (bytes.length <= ivBytes + tagBytes) throw gone()
    const decipher = createDecipheriv('aes-256-gcm', this.#key, bytes.subarray(0, ivBytes)).setAAD(this.#bound)
    decipher.setAuthTag(bytes.subarray(ivBytes, ivBytes + tagBytes))
    try {
      return Buffer.concat([decipher.update(bytes.subarray(ivBytes + tagBytes)), decipher.final()]).toString()
    } catch {
      throw gone()
    }
  }
}

function gone(): RepriseError {
  const what =
    'the position is not of this history: the store was restored or copied since, or it was given for another scope'
  return new RepriseError('POSITION_GONE', what, {})
}
