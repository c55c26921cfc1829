// The signature of a wake-up request: HMAC-SHA256 with a shared secret over the time, a number used once and the body. By Web
// Crypto, which every runtime has.
//
//     reprise-signature: t=1700000000000,n=5f0c…,v1=HMAC("1700000000000.5f0c….BODY")

import { RepriseError } from '../../core/errors.ts'
import { type Allowed, aNumber, aText, checkOptions, checkText, checkValues } from '../../core/options.ts'

export const signatureHeader = 'reprise-signature'

/** A request older than this, or from a clock this far ahead, is refused. */
const toleranceMs = 5 * 60_000
/** The number of nonces that a process remembers. A replay beyond them causes one more wake-up, which starts nothing twice. */
const seenMax = 10_000

const encoder = new TextEncoder()

/** The value of the header `reprise-signature` for a body. `now` is in milliseconds. */
export async function signWake(secret: string, body: string, now: number = Date.now()): Promise<string> {
  // Without a body, the text 'undefined' would be signed, and every receiver would refuse the request.
  checkValues('signWake()', { body: body ?? null, now }, { body: [aText], now: [aNumber] })
  const nonce = hexOf(crypto.getRandomValues(new Uint8Array(16)))
  return `t=${now},n=${nonce},v1=${await mac(secret, now, nonce, body)}`
}

/** The numbers that this process has accepted, oldest first. */
export type SeenWakes = Set<string>

const knownVerify = new Set(['seen', 'now'])
const aSet: Allowed = ['a Set', (value) => value instanceof Set]

/**
 * Resolves if the signature is right, fresh and new; otherwise rejects with UNAUTHENTICATED. `seen`: the numbers that were
 * accepted before, for requests that are repeated by others.
 */
export async function verifyWake(
  secret: string,
  signature: string | null,
  body: string,
  options: { readonly seen?: SeenWakes; readonly now?: number } = {},
): Promise<void> {
  checkOptions('verifyWake', options, knownVerify)
  checkValues('verifyWake', { ...options, body: body ?? null }, { seen: [aSet], now: [aNumber], body: [aText] })
  const { seen, now = Date.now() } = options
  const found = /^t=(\d{1,16}),n=([0-9a-f]{32}),v1=([0-9a-f]{64})$/.exec(signature ?? '')
  if (!found) throw refused(signature === null ? 'it has no signature' : 'its signature cannot be read')
  const [, time, nonce, given] = found as unknown as [string, string, string, string]
  if (!isEqual(given, await mac(secret, Number(time), nonce, body))) throw refused('its signature is wrong')
  if (Math.abs(now - Number(time)) > toleranceMs) throw refused('its signature is more than five minutes old')
  if (seen?.has(nonce)) throw refused('it was already received')
  seen?.add(nonce)
  if (seen && seen.size > seenMax) seen.delete(seen.values().next().value!)
}

/** Compares both completely, so that the time does not depend on where they differ. */
export function isEqual(a: string, b: string): boolean {
  let difference = a.length ^ b.length
  for (let i = 0; i < Math.min(a.length, b.length); i++) difference |= a.charCodeAt(i) ^ b.charCodeAt(i)
  return difference === 0
}

async function mac(secret: string, time: number, nonce: string, body: string): Promise<string> {
  // An unset variable would sign with a publicly known secret.
  checkText('the secret of a wake-up request', secret)
  const how = { name: 'HMAC', hash: 'SHA-256' }
  const key = await crypto.subtle.importKey('raw', encoder.encode(secret), how, false, ['sign'])
  const signed = await crypto.subtle.sign('HMAC', key, encoder.encode(`${time}.${nonce}.${body}`))
  return hexOf(new Uint8Array(signed))
}

function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

function refused(why: string): RepriseError {
  return new RepriseError('UNAUTHENTICATED', `the wake-up request is refused: ${why}`, {})
}
