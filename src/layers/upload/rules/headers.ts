// Parses the headers of the tus protocol (1.0.0); a malformed header is refused, never guessed.

import { RepriseError } from '../../../core/errors.ts'

export const tusVersion = '1.0.0'
export const tusExtensions = [
  ...[
    'creation',
    'creation-with-upload',
    'creation-defer-length',
    'termination',
    'checksum',
    'concatenation',
    'expiration',
  ],
] as const
export const checksumAlgorithms = ['sha1', 'sha256', 'sha512', 'md5'] as const
export type ChecksumAlgorithm = (typeof checksumAlgorithms)[number]

export const metadataBytesMax = 4096
export const metadataKeysMax = 64
export const partsMax = 1000

/** A number of bytes; null: the header is missing. */
export function byteCount(name: string, text: string | null): number | null {
  if (text === null) return null
  const count = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  if (!Number.isSafeInteger(count)) throw invalid(`${name} must be a whole number of bytes`)
  return count
}

/** @example metadataOf('name aGk=,private') // { name: 'hi', private: '' } */
export function metadataOf(header: string | null): Readonly<Record<string, string>> {
  if (header === null || header.trim() === '') return {}
  if (header.length > metadataBytesMax)
    throw tooMuch(`Upload-Metadata must have at most ${metadataBytesMax} characters`)
  const pairs = header.split(',')
  if (pairs.length > metadataKeysMax) throw tooMuch(`Upload-Metadata must have at most ${metadataKeysMax} keys`)
  const found = new Map<string, string>()
  for (const pair of pairs) {
    const [key = '', encoded = '', ...more] = pair.trim().split(' ')
    // Visible ASCII: a name that is not empty and cannot inject another header.
    if (!/^[\x21-\x2b\x2d-\x7e]{1,200}$/.test(key) || more.length > 0) {
      throw invalid('Upload-Metadata must be keys of printable ASCII, each with a value in Base64, separated by commas')
    }
    if (found.has(key)) throw invalid(`Upload-Metadata names ${key} twice`)
    found.set(key, textOf(encoded, `the value of ${key} in Upload-Metadata`))
  }
  return Object.fromEntries(found)
}

/** @example checksumOf('sha1 Kq5sNclPz7QV2+lfQIuc6R7oRu0=') */
export function checksumOf(
  header: string | null,
): { readonly algorithm: ChecksumAlgorithm; readonly digest: Uint8Array } | null {
  if (header === null) return null
  const [algorithm, encoded, ...more] = header.trim().split(' ')
  if (!checksumAlgorithms.includes(algorithm as ChecksumAlgorithm) || encoded === undefined || more.length > 0) {
    throw invalid(`Upload-Checksum must be one of ${checksumAlgorithms.join(', ')} and a digest in Base64`)
  }
  return { algorithm: algorithm as ChecksumAlgorithm, digest: bytesOf(encoded, 'the digest of Upload-Checksum') }
}

export type Concat = { readonly kind: 'whole' | 'part' } | { readonly kind: 'final'; readonly urls: readonly string[] }

/** @example concatOf('final;/files/a /files/b') */
export function concatOf(header: string | null): Concat {
  if (header === null) return { kind: 'whole' }
  const text = header.trim()
  if (text === 'partial') return { kind: 'part' }
  if (!text.startsWith('final;')) throw invalid("Upload-Concat must be 'partial', or 'final;' and addresses of parts")
  const urls = text.slice('final;'.length).trim().split(/ +/)
  if (urls.length > partsMax) throw tooMuch(`an upload must be made of at most ${partsMax} parts`)
  if (urls.some((url) => url === '')) throw invalid('Upload-Concat must name the parts after final;')
  return { kind: 'final', urls }
}

/** The last segment of an address, if it is a valid upload id. */
export function idOfUrl(url: string): string | null {
  const path = url.split(/[?#]/, 1)[0]!
  const id = path.slice(path.lastIndexOf('/') + 1)
  return isUploadId(id) ? id : null
}

/** 160 random bits, in a form that cannot be a path or another kind of id. */
export function isUploadId(text: string): boolean {
  return /^[0-9a-f]{40}$/.test(text)
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

function bytesOf(encoded: string, what: string): Uint8Array {
  if (encoded.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(encoded)) throw invalid(`${what} must be Base64`)
  const digits = encoded.replace(/=+$/, '')
  const bytes = new Uint8Array(Math.floor((digits.length * 6) / 8))
  let bits = 0
  let held = 0
  let at = 0
  for (const digit of digits) {
    held = ((held << 6) | alphabet.indexOf(digit)) & 0xffff
    bits += 6
    if (bits < 8) continue
    bits -= 8
    bytes[at++] = (held >> bits) & 0xff
  }
  return bytes
}

/** Values are treated as text. Invalid UTF-8 is decoded with replacement characters; the header itself is stored unchanged. */
function textOf(encoded: string, what: string): string {
  return new TextDecoder().decode(bytesOf(encoded, what))
}

function invalid(what: string): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', what, {})
}

function tooMuch(what: string): RepriseError {
  return new RepriseError('LIMIT_EXCEEDED', what, {})
}
