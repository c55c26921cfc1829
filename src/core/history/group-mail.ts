// The mail of a group that is restored together. In the restored group, every message that a member has received or will
// receive was also sent; and every message that was sent but not received before the line is delivered once. So unread mail
// that members sent after the line is dropped, and mail that was taken out of an inbox after the line is sent again.

import type { Exchange } from './recovery-line.ts'

/** A message and its receiver. */
export interface MailKey {
  readonly to: string
  readonly id: string
}

export interface GroupMail {
  /** The sequence from which each member continues. */
  readonly at: Readonly<Record<string, number>>
  /** All messages between members that their histories record. */
  readonly exchanges: readonly Exchange[]
  /** Currently unread mail, by member; no member reads any longer. */
  readonly unread: readonly MailKey[]
  /** Mail that was unread at the line, if it was captured; null: derived from the exchanges. */
  readonly captured: readonly MailKey[] | null
  /**
   * Members that roll back by reading a request from their inbox: mail before the request would be read, and undone with the
   * rest. So that mail is removed, and sent again after the request.
   */
  readonly reordered: ReadonlySet<string>
}

export interface MailPlan {
  /** Unread mail to remove. */
  readonly drop: readonly MailKey[]
  /** Mail to send again, under another id: the store accepts each id once. */
  readonly again: readonly MailKey[]
}

export function planMail({ at, exchanges, unread, captured, reordered }: GroupMail): MailPlan {
  const sent = new Map(exchanges.map((exchange) => [keyOf(exchange), exchange]))
  const isUnread = new Set(unread.map(keyOf))
  const isUnsent = (mail: MailKey) => {
    const exchange = sent.get(keyOf(mail))
    return exchange !== undefined && exchange.sentSeq > (at[exchange.from] ?? Number.POSITIVE_INFINITY)
  }
  const stale = unread.filter(isUnsent)
  const inFlight = captured ?? exchanges.filter((exchange) => crosses(exchange, at))
  const moved = unread.filter((mail) => reordered.has(mail.to) && !isUnsent(mail))
  const taken = inFlight.filter((mail) => !isUnread.has(keyOf(mail)) && !isUnsent(mail))
  return { drop: [...stale, ...moved].map(only), again: [...taken, ...moved].map(only) }
}

/** Sent before the line and received after it. Mail that is still unread, or was removed unread, needs no second delivery. */
function crosses({ from, sentSeq, to, receivedSeq }: Exchange, at: GroupMail['at']): boolean {
  return sentSeq <= at[from]! && receivedSeq !== null && receivedSeq > at[to]!
}

function only({ to, id }: MailKey): MailKey {
  return { to, id }
}

function keyOf({ to, id }: MailKey): string {
  return `${to}\n${id}`
}
