// Fingerprints of item keys: SHA-256 as one-byte characters, of which the first 96 bits count. That any
// two of 5,000,000 keys share them has a chance of 1 in 6·10^15, so a fingerprint stands for its key; and with SHA-256
// nobody can make two keys meet on purpose.

import { createHash, hash as hashOnce } from 'node:crypto'

export const fingerprintBytes = 12
export const versionBytes = 8

const surrogate = /[\ud800-\udfff]/

/** The whole digest: cutting it would cost more than it saves. @example fingerprint('10.1000/xyz').length // 32 */
export function fingerprint(key: string): string {
  return sha256(key)
}

/** 64 bits say whether a version changed: they are only ever compared with the one before of the same key. */
export function versionPrint(version: string): string {
  return sha256(version).slice(0, versionBytes)
}

function sha256(text: string): string {
  // Half a surrogate pair would turn into U+FFFD on the way to UTF-8, and different keys into the same.
  const input = surrogate.test(text) ? Buffer.from(`\ud7ff${text}`, 'utf16le') : text
  return typeof hashOnce === 'function'
    ? hashOnce('sha256', input, 'binary')
    : createHash('sha256').update(input).digest('binary')
}

/** The bytes that count, for people and files. */
export function toHexText(print: string): string {
  return Buffer.from(print.slice(0, fingerprintBytes), 'latin1').toString('hex')
}

export function fromHexText(hex: string): string {
  return Buffer.from(hex, 'hex').toString('latin1')
}
