// The conversation with one client, decided from its record: it joins and reports its version; it is offered its target
// version under a nonce of its stream; it replies with ACK or NACK. Only a reply to the pending offer counts: any other nonce
// belongs to a replaced offer, an ended stream or no stream, and changes nothing.

import type { ClientRecord, ConfigEntry, ConfigState, History } from './state.ts'

export const reasonCharsMax = 1000
const digestDigits = 12

type Clients = ConfigState['clients']

export interface Answer {
  readonly client: string
  readonly nonce: string
  /** Null: ACK. */
  readonly nack: string | null
}

export type Answered =
  | { readonly is: 'taken'; readonly version: number; readonly entry: ConfigEntry }
  /** A repeated reply: nothing is written, and the client receives the same receipt. */
  | { readonly is: 'repeated' }
  | { readonly is: 'ignored'; readonly why: string }

/** `has` is used only if such a version exists; otherwise the client's version is unknown. */
export function joinEntry(
  client: string,
  stream: string,
  has: number | undefined,
  latest: number,
  isOther = false,
): ConfigEntry {
  const isKnown = has !== undefined && has >= 1 && has <= latest
  return { type: 'joined', data: { client, stream, has: isKnown ? has : null, ...(isOther && { isOther }) } }
}

/** The proof of a version that a client returns when it rejoins. It is valid for one value in one history. */
export function heldText(version: number, digest: string, { mark }: History): string {
  return `${version}.${digest.slice(0, digestDigits)}.${mark}`
}

/**
 * The version that a client holds, by its text or its number. Null: it belongs to another history. A bare number is used only
 * if there never was another history.
 */
export function heldVersion(
  has: number | string,
  digestOf: (version: number) => string | undefined,
  history: History,
): number | null {
  if (typeof has === 'number') return history.isFirst ? has : null
  const version = Number(/^(\d{1,15})\./.exec(has)?.[1])
  const digest = digestOf(version)
  return digest !== undefined && has === heldText(version, digest, history) ? version : null
}

/**
 * The next offer on this stream. 'replaced': the client has joined elsewhere, or was removed. Null: no offer; the client has the
 * version, was offered it, or has refused it on this stream.
 */
export function decideOffer(
  clients: Clients,
  client: string,
  stream: string,
  target: number | null,
  planted: ReadonlySet<string> = new Set(),
  digest = '',
): ConfigEntry | 'replaced' | null {
  const record = clients.get(client)
  if (record?.stream !== stream || !record.isOpen) return 'replaced'
  if (target === null || record.offered?.version === target) return null
  if (record.offered === null && !planted.has('offer-again')) {
    if (record.inForce === target) return null
    if (record.rejected?.version === target && record.rejected.stream === stream) return null
  }
  const number = record.offers + 1
  // Includes the digest of the value: a reply to an offer of another history is never taken for a reply to this one.
  const value = digest && `-${digest.slice(0, digestDigits)}`
  const nonce = planted.has('nonce-without-stream') ? String(number) : `${stream}-${number}${value}`
  return { type: 'offered', data: { client, nonce, version: target } }
}

export function decideAnswer(
  clients: Clients,
  { client, nonce, nack }: Answer,
  planted: ReadonlySet<string> = new Set(),
): Answered {
  const record = clients.get(client)
  if (!record) return { is: 'ignored', why: `no client ${client} is known: it must join first` }
  const { offered, answered } = record
  const isOffered = offered !== null && (offered.nonce === nonce || planted.has('any-nonce'))
  if (!isOffered) {
    if (answered?.nonce === nonce && answered.isAck === (nack === null)) return { is: 'repeated' }
    return { is: 'ignored', why: whyIgnored(record, nonce) }
  }
  const { version } = offered
  const data = { client, nonce, version }
  const isAck = nack === null || planted.has('nack-in-force')
  const entry: ConfigEntry = isAck
    ? { type: 'acked', data }
    : { type: 'nacked', data: { ...data, reason: nack.slice(0, reasonCharsMax) } }
  return { is: 'taken', version, entry }
}

function whyIgnored({ offered, stream, answered }: ClientRecord, nonce: string): string {
  if (!nonce.startsWith(`${stream}-`)) return 'the nonce belongs to a stream that ended, or to none'
  if (answered?.nonce === nonce) return 'the offer already has a different answer'
  return offered ? 'a newer version was offered since' : 'no offer waits for an answer'
}
