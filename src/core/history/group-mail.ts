// The mail of a group that goes back together. In the restored group nobody has, or is about to get, a message that was
// not sent; and everything that was sent and not received before the line is there to be received, once. So of the unread
// mail, what members sent after the line is dropped; and what was taken out of an inbox after the line is sent again.

import type { Exchange } from './recovery-line.ts'

/** A message and the timeline that it goes to. */
export interface MailKey {
  readonly to: string
  readonly id: string
}

export interface GroupMail {
  /** Where each member goes on from. */
  readonly at: Readonly<Record<string, number>>
  /** All messages between members that their histories tell of. */
  readonly exchanges: readonly Exchange[]
  /** What is unread now, by member; nobody reads any more. */
  readonly unread: readonly MailKey[]
  /** What was unread at the line, where that was captured; null: the exchanges tell. */
  readonly captured: readonly MailKey[] | null
  /**
   * Members that go back by reading a request from their inbox: what lies before the request would be read, and undone
   * with the rest. It is taken out, and sent again behind the request.
   */
  readonly reordered: ReadonlySet<string>
}

export interface MailPlan {
  /** Unread, and to be taken out. */
  readonly drop: readonly MailKey[]
  /** To be sent again, under another id: the store gives out each id once. */
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

/** Sent before the line, and received after it. What is unread still, or was taken out unread, needs no second delivery. */
function crosses({ from, sentSeq, to, receivedSeq }: Exchange, at: GroupMail['at']): boolean {
  return sentSeq <= at[from]! && receivedSeq !== null && receivedSeq > at[to]!
}

function only({ to, id }: MailKey): MailKey {
  return { to, id }
}

function keyOf({ to, id }: MailKey): string {
  return `${to}\n${id}`
}
