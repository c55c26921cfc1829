// Wrapping puts a whole stored record under the current key, regardless of the seal inside. It re-encrypts old
// records:
// the digest chain and the names of chunks cover bytes that must not change, so those bytes go inside, together with
// the derived keys that open them, and their original key can leave the ring. A record is wrapped at most once: under
// the next key it is unwrapped and wrapped again.
//   wrapped = start(core/history/wrapped-record.ts) key id(text) salt(12) nonce(12) AES-256-GCM(inside) tag(16)
//   inside  = count(integer) key* record(rest)
//   key     = key id(text) kind(byte: 0 of chunks, 1 of records) [salt(12)] derived key(32)
// The associated data is everything before the nonce's end. The checksum distinguishes damage from a missing key: bytes
// that do not match it are returned unchanged, and the comparison of digests finds them.

import { createCipheriv, createDecipheriv, randomFillSync } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { ByteReader, ByteWriter } from '../../../core/bytes.ts'
import { type Content, decodeManifest } from '../../../core/checkpoint/manifest.ts'
import { RepriseError } from '../../../core/errors.ts'
import { visitEntries } from '../../../core/history/entry-run.ts'
import { isWrapped, wrappedCrc, wrappedStartBytes, writeWrappedStart } from '../../../core/history/wrapped-record.ts'
import type { Rewritable } from '../../../core/store/ports.ts'
import { type DerivedKeys, saltBytes } from './keys.ts'
import { type SealName, sealNameOf } from './sealing-key.ts'

export type Wrappable = Rewritable | 'chunks'

const nonceBytes = 12
const tagBytes = 16
const keyBytes = 32

/** The record wrapped under the current key. Null: it is under that key already, or contains nothing sealed. */
export function wrap(keys: DerivedKeys, kind: Wrappable, record: Uint8Array): Uint8Array | null {
  if (isWrapped(record)) return null
  const names = sealNamesIn(kind, record)
  if (names.every((name) => name !== 'plain' && name.id === keys.current)) return null
  const inside = new ByteWriter(record.length + 128)
  const foreign = distinct(names).filter((name) => name.id !== keys.current)
  inside.integer(foreign.length)
  for (const { id, salt } of foreign) {
    inside.text(id)
    inside.byte(salt ? 1 : 0)
    if (salt) inside.raw(salt)
    inside.raw(new Uint8Array((salt ? keys.record(id, salt) : keys.chunk(id)).export()))
  }
  inside.raw(record)
  return encrypt(keys, inside.view())
}

/** The content; the bytes themselves if they are not wrapped, or damaged. Throws KEY_MISSING. */
export function unwrap(keys: DerivedKeys | null, stored: Uint8Array): Uint8Array {
  if (!isWrapped(stored) || crc32(stored.subarray(wrappedStartBytes)) !== wrappedCrc(stored)) return stored
  const reader = new ByteReader(stored, wrappedStartBytes)
  const id = reader.text()
  if (!keys?.has(id)) throw keyMissing(id)
  const salt = reader.raw(saltBytes)
  const nonce = reader.raw(nonceBytes)
  const head = stored.subarray(wrappedStartBytes, reader.offset)
  if (reader.remaining < tagBytes) return stored
  const body = reader.raw(reader.remaining - tagBytes)
  const decipher = createDecipheriv('aes-256-gcm', keys.record(id, salt), nonce, { authTagLength: tagBytes })
  decipher.setAAD(head)
  decipher.setAuthTag(reader.raw(tagBytes))
  try {
    const inside = decipher.update(body)
    decipher.final()
    return takeOut(keys, inside)
  } catch (cause) {
    if (cause instanceof RepriseError) throw cause
    throw new RepriseError('DECRYPT_FAILED', `a record cannot be decrypted with the key ${id}`, { key: id }, cause)
  }
}

/** For every record of a store: its form under the current key. Null: it is under that key already. */
export function rewrap(keys: DerivedKeys, kind: Wrappable, stored: Uint8Array): Uint8Array | null {
  if (isWrapped(stored) && wrapperOf(stored) === keys.current) return null
  const record = unwrap(keys, stored)
  // Damaged: nothing can be unwrapped, and the bytes are kept for inspection.
  return isWrapped(record) ? null : wrap(keys, kind, record)
}

/** The ids of the keys needed to open it; '' for plain text. */
export function keysIn(kind: Wrappable, stored: Uint8Array): string[] {
  if (isWrapped(stored)) return [wrapperOf(stored)]
  return [...new Set(sealNamesIn(kind, stored).map((name) => (name === 'plain' ? '' : name.id)))]
}

function wrapperOf(stored: Uint8Array): string {
  return new ByteReader(stored, wrappedStartBytes).text()
}

function encrypt(keys: DerivedKeys, inside: Uint8Array): Uint8Array {
  const { salt, key } = keys.session()
  const nonce = randomFillSync(new Uint8Array(nonceBytes))
  const head = new ByteWriter(128)
  head.text(keys.current)
  head.raw(salt)
  head.raw(nonce)
  const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes })
  cipher.setAAD(head.view())
  const secret = cipher.update(inside)
  cipher.final()
  const stored = Buffer.concat([new Uint8Array(wrappedStartBytes), head.view(), secret, cipher.getAuthTag()])
  writeWrappedStart(stored, crc32(stored.subarray(wrappedStartBytes)))
  return stored
}

function takeOut(keys: DerivedKeys, inside: Uint8Array): Uint8Array {
  const reader = new ByteReader(inside)
  for (let count = reader.integer(); count > 0; count--) {
    const id = reader.text()
    const salt = reader.byte() === 1 ? reader.raw(saltBytes).slice() : null
    keys.adopt(id, salt, reader.raw(keyBytes).slice())
  }
  return reader.raw(reader.remaining)
}

/** The keys of the sealed parts of a record. Other bytes have no envelope: damage is reported elsewhere. */
function sealNamesIn(kind: Wrappable, record: Uint8Array): SealName[] {
  const names: SealName[] = []
  const add = (envelope: Uint8Array) => {
    const name = sealNameOf(envelope)
    if (name) names.push(name)
  }
  try {
    if (kind === 'chunks' || kind === 'messages') add(record)
    else if (kind === 'checkpoints') inlineIn(record).forEach(add)
    else {
      visitEntries(record, ({ key, data }) => {
        add(data)
        // A dedupe key beside the sealed data, from a version that did not seal it.
        if (key !== undefined) names.push('plain')
      })
    }
  } catch (error) {
    if (!(error instanceof RepriseError)) throw error
    return []
  }
  return names
}

function inlineIn(body: Uint8Array): Uint8Array[] {
  const found: Uint8Array[] = []
  const add = (content: Content) => {
    if (content.kind === 'inline') found.push(content.sealed)
  }
  for (const part of decodeManifest(body).parts) {
    if (part.kind !== 'keyed') add(part.content)
    else
      for (const { body: layer } of part.layers) {
        if (layer.kind === 'inline') found.push(layer.sealed)
        else add(layer.directory)
      }
  }
  return found
}

type Named = Exclude<SealName, 'plain'>

function distinct(names: readonly SealName[]): Named[] {
  const found = new Map<string, Named>()
  for (const name of names) {
    if (name !== 'plain') found.set(`${name.id} ${name.salt ? Buffer.from(name.salt).toString('hex') : ''}`, name)
  }
  return [...found.values()]
}

function keyMissing(id: string): RepriseError {
  const key = id.slice(0, 64)
  return new RepriseError('KEY_MISSING', `a record is encrypted with the key ${JSON.stringify(key)}`, { key })
}
