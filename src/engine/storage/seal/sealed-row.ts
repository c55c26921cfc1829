// A value in a row of the user's database that only history can decrypt: the row's name and its key are both derived
// from a secret stored in an entry. A reader of the table, even from another namespace, learns neither the value nor
// its owner.
//   sealed = nonce(12) AES-256-GCM(value) tag(16)

import { createCipheriv, createDecipheriv, createHmac, randomFillSync } from 'node:crypto'
import { RepriseError } from '../../../core/errors.ts'

const nonceBytes = 12
const tagBytes = 16

/** The name of the row. */
export function rowName(secret: string): string {
  return derive(secret, 'name').toString('hex')
}

export function sealRow(secret: string, value: Uint8Array): Uint8Array {
  const nonce = randomFillSync(new Uint8Array(nonceBytes))
  const cipher = createCipheriv('aes-256-gcm', derive(secret, 'value'), nonce, { authTagLength: tagBytes })
  const body = cipher.update(value)
  cipher.final()
  return Buffer.concat([nonce, body, cipher.getAuthTag()])
}

export function openRow(secret: string, sealed: Uint8Array): Uint8Array {
  if (sealed.length < nonceBytes + tagBytes) throw new RepriseError('MALFORMED', 'a sealed row ends early')
  const nonce = sealed.subarray(0, nonceBytes)
  const decipher = createDecipheriv('aes-256-gcm', derive(secret, 'value'), nonce, { authTagLength: tagBytes })
  decipher.setAuthTag(sealed.subarray(sealed.length - tagBytes))
  try {
    const value = decipher.update(sealed.subarray(nonceBytes, sealed.length - tagBytes))
    decipher.final()
    return new Uint8Array(value)
  } catch (cause) {
    throw new RepriseError(
      'DECRYPT_FAILED',
      'a row cannot be decrypted with the secret in history: it was changed',
      {},
      cause,
    )
  }
}

function derive(secret: string, purpose: string): Buffer {
  return createHmac('sha256', secret).update(`reprise/1 row ${purpose}`).digest()
}
