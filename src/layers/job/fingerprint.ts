// Fingerprints of item keys: SHA-256 as one-byte characters, of which the first 96 bits count. The chance that any two of
// 5,000,000 keys share them is 1 in 6·10^15, so a fingerprint represents its key; and SHA-256 prevents deliberate
// collisions.

import { createHash, hash as hashOnce } from 'node:crypto'

export const fingerprintBytes = 12
export const versionBytes = 8

const surrogate = /[\ud800-\udfff]/

/** The whole digest: truncating it would cost more than it saves. @example fingerprint('10.1000/xyz').length // 32 */
export function fingerprint(key: string): string {
  return sha256(key)
}

/** 64 bits are enough for versions: a version is only compared with the previous one of the same key. */
export function versionPrint(version: string): string {
  return sha256(version).slice(0, versionBytes)
}

function sha256(text: string): string {
  // A lone surrogate would become U+FFFD in UTF-8, and different keys would collide.
  const input = surrogate.test(text) ? Buffer.from(`\ud7ff${text}`, 'utf16le') : text
  return typeof hashOnce === 'function'
    ? hashOnce('sha256', input, 'binary')
    : createHash('sha256').update(input).digest('binary')
}

/** The significant bytes, for people and files. */
export function toHexText(print: string): string {
  return Buffer.from(print.slice(0, fingerprintBytes), 'latin1').toString('hex')
}

export function fromHexText(hex: string): string {
  return Buffer.from(hex, 'hex').toString('latin1')
}
