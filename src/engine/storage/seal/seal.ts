// Sealing of encoded bytes on the way to the store, and back: compression above a size, encryption with a key ring.
// Everything is synchronous. Without keys and below the size it costs one byte and one copy.
//   envelope = flags(byte) [crc32(4, if checked)] [algorithm(byte) size(integer), if compressed]
//              [key id(text) salt(12, not for chunks) nonce(12), if encrypted] body [tag(16), if encrypted]
//   flags    = 1 compressed · 2 encrypted · 4 checked · 8 chunk; any other bit is MALFORMED
// Encryption is AES-256-GCM; the associated data is the envelope up to the body (without the crc) ++ the caller's
// context, so a record opens only in its own place. The crc covers context ++ everything but itself; it distinguishes
// damage (MALFORMED) from a wrong key or forgery (DECRYPT_FAILED). With keys configured, unencrypted envelopes still
// open: they are older data, and the digest chain vouches for them.

import { createCipheriv, createDecipheriv, createHmac, type KeyObject, randomFillSync } from 'node:crypto'
import * as zlib from 'node:zlib'
import { ByteReader, ByteWriter } from '../../../core/bytes.ts'
import { RepriseError } from '../../../core/errors.ts'
import { isWrapped } from '../../../core/history/wrapped-record.ts'
import { defaultLimits, type Limits } from '../../../core/limits.ts'
import { compress, decompress } from './compression.ts'
import { Hasher } from './hashing.ts'
import { DerivedKeys, type KeyRing, saltBytes } from './keys.ts'
import { allFlags, crcBytes, isChecked, isChunk, isCompressed, isEncrypted } from './sealing-key.ts'
import { rewrap, unwrap, type Wrappable, wrap } from './wrap.ts'

export type { KeyRing } from './keys.ts'

export interface SealOptions {
  readonly keys?: KeyRing
  /** Records longer than this are compressed. For chunks the threshold is 256 bytes. */
  readonly compressAboveBytes?: number
  readonly limits?: Pick<Limits, 'inflateRatio' | 'inflateBytes'>
}

const nonceBytes = 12
const tagBytes = 16
const recordAboveBytes = 1024
const chunkAboveBytes = 256
const noContext = new Uint8Array(0)

export class Sealer {
  readonly #keys: DerivedKeys | null
  readonly #compressAboveBytes: number
  readonly #limits: Pick<Limits, 'inflateRatio' | 'inflateBytes'>
  #refused: readonly string[] | null = null

  constructor(options: SealOptions = {}) {
    this.#keys = options.keys ? new DerivedKeys(options.keys) : null
    this.hasher = options.keys?.hashing ? new Hasher(options.keys.hashing) : null
    this.hidesTypes = hidesTypes(options.keys?.hides)
    this.#compressAboveBytes = options.compressAboveBytes ?? recordAboveBytes
    this.#limits = options.limits ?? defaultLimits
  }

  get keyId(): string | null {
    return this.#keys ? this.#keys.current : null
  }

  /** Keyed hashes for values that are not sealed. Null: nothing is hashed. */
  readonly hasher: Hasher | null
  /** Types of entries are sealed along with their data. */
  readonly hidesTypes: boolean

  /** The first byte of an envelope that is neither compressed nor encrypted: the rest of it is the plain bytes. */
  static readonly bare = 0

  /** True if `seal` would only prepend that byte to a record of this size. The caller may then do so itself, without a copy. */
  isBare(plainBytes: number, aboveBytes = this.#compressAboveBytes): boolean {
    return this.#keys === null && !this.#refused && plainBytes <= aboveBytes
  }

  hasKey(id: string): boolean {
    return this.#keys?.has(id) ?? false
  }

  /** A proof that distinguishes this key from another of the same id; null if it is not in the ring. */
  proofOf(id: string): string | null {
    return this.#keys?.proof(id) ?? null
  }

  /** The store is encrypted with these keys, none of which this process has: it reads plain records and refuses to seal. */
  refusePlain(ids: readonly string[]): void {
    if (this.#keys === null) this.#refused = ids
  }

  /** The reason this process cannot seal. Null: it can. */
  get refusal(): RepriseError | null {
    if (!this.#refused) return null
    const named = this.#refused.map((id) => JSON.stringify(id)).join(', ')
    const what = `this store is encrypted with ${named}: pass the keys to write to it`
    return new RepriseError('KEY_MISSING', what, { keys: [...this.#refused] })
  }

  /** For entry data, which the digest chain protects. @example sealer.seal(codec.encode(value), context) */
  seal(plain: Uint8Array, context: Uint8Array, aboveBytes = this.#compressAboveBytes): Uint8Array {
    if (this.isBare(plain.length, aboveBytes)) return bare(plain)
    return this.#seal(plain, context, 0, aboveBytes)
  }

  /** Neither compressed nor encrypted: such an envelope opens without its context. */
  isPlain(envelope: Uint8Array): boolean {
    return envelope[0] === Sealer.bare
  }

  openPlain(envelope: Uint8Array): Uint8Array {
    return envelope.subarray(1)
  }

  /** The plain bytes, possibly a view into the envelope. */
  open(envelope: Uint8Array, context: Uint8Array): Uint8Array {
    if (this.isPlain(envelope)) return this.openPlain(envelope)
    return this.#open(envelope, context, 0)
  }

  /** For records outside the digest chain (messages): opening detects a flipped bit or another context. */
  sealChecked(plain: Uint8Array, context: Uint8Array): Uint8Array {
    return this.#seal(plain, context, isChecked, this.#compressAboveBytes)
  }

  openChecked(envelope: Uint8Array, context: Uint8Array): Uint8Array {
    return this.#open(envelope, context, isChecked)
  }

  /** Deterministic under the current key, so that equal chunks are stored once. */
  sealChunk(plain: Uint8Array): Uint8Array {
    return this.#seal(plain, noContext, isChunk, chunkAboveBytes)
  }

  openChunk(stored: Uint8Array): Uint8Array {
    return this.#open(stored, noContext, isChunk)
  }

  /** For records that are stored as they came: wrapped if they are sealed with another key than the current one. */
  wrap(kind: Wrappable, record: Uint8Array): Uint8Array {
    return (this.#keys && wrap(this.#keys, kind, record)) ?? record
  }

  /** The record in the form that its digest covers. Throws KEY_MISSING. */
  unwrap(stored: Uint8Array): Uint8Array {
    return isWrapped(stored) ? unwrap(this.#keys, stored) : stored
  }

  /** A stored record re-wrapped under the current key. Null: it is under that key already. */
  rewrap(kind: Wrappable, stored: Uint8Array): Uint8Array | null {
    return this.#keys && rewrap(this.#keys, kind, stored)
  }

  #seal(plain: Uint8Array, context: Uint8Array, kind: number, aboveBytes: number): Uint8Array {
    if (this.refusal) throw this.refusal
    // A result that the limits would refuse to open again is stored uncompressed.
    const packed = plain.length > aboveBytes && plain.length <= this.#limits.inflateBytes ? compress(plain) : null
    const body = packed && plain.length <= packed.bytes.length * this.#limits.inflateRatio ? packed.bytes : plain
    const head = new ByteWriter(128)
    head.byte(kind | (body !== plain ? isCompressed : 0) | (this.#keys ? isEncrypted : 0))
    if (packed && body !== plain) {
      head.byte(packed.algorithm)
      head.integer(plain.length)
    }
    const envelope = this.#keys ? encrypt(this.#keys, head, body, context, kind) : join(head.view(), body)
    return kind === isChecked ? withCrc(envelope, context) : envelope
  }

  #open(stored: Uint8Array, context: Uint8Array, kind: number): Uint8Array {
    const envelope = this.unwrap(stored)
    const flags = envelope[0]
    if (flags === undefined) throw malformed('an envelope is empty')
    if ((flags & ~allFlags) !== 0) throw malformed(`an envelope has unknown flags ${flags}`)
    if ((flags & (isChecked | isChunk)) !== kind) throw malformed('the envelope has another kind')
    const inner = kind === isChecked ? withoutCrc(envelope, context) : envelope
    const reader = new ByteReader(inner, 1)
    const packing = flags & isCompressed ? { algorithm: reader.byte(), size: reader.integer() } : null
    const body = flags & isEncrypted ? this.#decrypt(inner, reader, context, kind) : reader.raw(reader.remaining)
    return packing ? decompress({ algorithm: packing.algorithm, bytes: body }, packing.size, this.#limits) : body
  }

  #decrypt(envelope: Uint8Array, reader: ByteReader, context: Uint8Array, kind: number): Uint8Array {
    const id = reader.text()
    const salt = kind === isChunk ? null : reader.raw(saltBytes)
    const nonce = reader.raw(nonceBytes)
    const head = envelope.subarray(0, reader.offset)
    if (reader.remaining < tagBytes) throw malformed('an envelope ends early')
    const body = reader.raw(reader.remaining - tagBytes)
    if (!this.#keys) {
      throw new RepriseError('KEY_MISSING', `a record is encrypted with the key ${JSON.stringify(id.slice(0, 64))}`, {
        key: id.slice(0, 64),
      })
    }
    const key = salt ? this.#keys.record(id, salt) : this.#keys.chunk(id)
    const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes })
    decipher.setAAD(join(head, context))
    decipher.setAuthTag(reader.raw(tagBytes))
    try {
      const plain = decipher.update(body)
      decipher.final()
      return plain
    } catch (cause) {
      throw new RepriseError('DECRYPT_FAILED', `a record cannot be decrypted with the key ${id}`, { key: id }, cause)
    }
  }
}

/** Finishes the head, and appends body and tag. */
function encrypt(keys: DerivedKeys, head: ByteWriter, body: Uint8Array, context: Uint8Array, kind: number): Uint8Array {
  head.text(keys.current)
  let key: KeyObject
  let nonce: Uint8Array
  if (kind === isChunk) {
    key = keys.chunk(keys.current)
    // Derived from the bytes that are encrypted, the compressed form: two versions of a compressor must not share a
    // nonce.
    const mac = createHmac('sha256', keys.chunkNonce(keys.current)).update(head.view()).update(body)
    nonce = mac.digest().subarray(0, nonceBytes)
  } else {
    const session = keys.session()
    key = session.key
    head.raw(session.salt)
    nonce = randomFillSync(new Uint8Array(nonceBytes))
  }
  head.raw(nonce)
  const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes })
  cipher.setAAD(join(head.view(), context))
  const secret = cipher.update(body)
  cipher.final()
  return join(head.view(), secret, cipher.getAuthTag())
}

/** The common case uses the runtime's buffer pool: an array of its own would cost more than everything else here. */
function bare(plain: Uint8Array): Uint8Array {
  const envelope = Buffer.allocUnsafe(plain.length + 1)
  envelope[0] = Sealer.bare
  envelope.set(plain, 1)
  return envelope
}

function withCrc(envelope: Uint8Array, context: Uint8Array): Uint8Array {
  const checked = Buffer.allocUnsafe(envelope.length + crcBytes)
  checked.set(envelope.subarray(1), 1 + crcBytes)
  checked[0] = envelope[0]!
  checked.writeUInt32LE(crcOf(envelope, context), 1)
  return checked
}

function withoutCrc(checked: Uint8Array, context: Uint8Array): Uint8Array {
  if (checked.length < 1 + crcBytes) throw malformed('an envelope ends early')
  const envelope = Buffer.allocUnsafe(checked.length - crcBytes)
  envelope[0] = checked[0]!
  envelope.set(checked.subarray(1 + crcBytes), 1)
  const view = new DataView(checked.buffer, checked.byteOffset, checked.byteLength)
  if (view.getUint32(1, true) !== crcOf(envelope, context)) {
    throw malformed('a record does not match its checksum: it was damaged or moved')
  }
  return envelope
}

function crcOf(envelope: Uint8Array, context: Uint8Array): number {
  return zlib.crc32(envelope, zlib.crc32(context))
}

function join(...parts: readonly Uint8Array[]): Uint8Array {
  let size = 0
  for (const part of parts) size += part.length
  const joined = Buffer.allocUnsafe(size)
  let at = 0
  for (const part of parts) {
    joined.set(part, at)
    at += part.length
  }
  return joined
}

function malformed(message: string): RepriseError {
  return new RepriseError('MALFORMED', message)
}

/** Checked at run time: a misspelt word would leave the types in plain text. */
function hidesTypes(hides: unknown): boolean {
  if (hides === undefined) return false
  if (Array.isArray(hides) && hides.every((what) => what === 'types')) return hides.length > 0
  throw new RepriseError('INVALID_ARGUMENT', "keys.hides must be a list of hidden fields: ['types'] or []", {
    option: 'keys.hides',
  })
}
