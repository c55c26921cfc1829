// The order of facts: the fact that was durable first counts first. A message counts from the moment the store accepted it,
// an alarm from its due time, both by the store's clock; when and by whom a fact was read does not matter.

export interface Alarm {
  /** The due time. A message that was durable earlier precedes the alarm; a message from this moment on follows it. */
  readonly at: number
  /** The alarm does not wait for held mail: that mail may wait for a result of this alarm. */
  readonly isPassing: boolean
}

interface Sent {
  readonly sentAt: number
}

export interface DatedMail<M> {
  readonly messages: readonly { readonly message: M; readonly at: number }[]
  /** No other message counts before this time. */
  readonly reach: number
}

/**
 * Dates the mail of a read that began at `now`; `isWhole`: the read returned all mail. Messages keep their order: a message
 * that the store dates earlier than its predecessor (the clock went back, or its commit took longer) counts with that one.
 */
export function dateMail<M extends Sent>(messages: readonly M[], now: number, isWhole: boolean): DatedMail<M> {
  let at = Number.NEGATIVE_INFINITY
  const dated = messages.map((message) => {
    at = Math.max(at, message.sentAt)
    return { message, at }
  })
  // Every message in the read was durable before the read ended, and so was all mail before it.
  return { messages: dated, reach: isWhole ? Math.max(now, at) : at }
}

/** Either messages or alarms; neither if nothing is due now. */
export interface NextFacts<M, A> {
  readonly messages: readonly M[]
  readonly alarms: readonly A[]
  /** Since when mail is held that cannot be taken yet: later alarms wait behind it. Null: no mail is held. */
  readonly heldSince: number | null
}

/**
 * Returns the messages before the first due alarm, or else the alarms before the first message. Handling them may change
 * the order of the rest, so the caller calls again afterwards.
 */
export function nextFacts<M, A extends Alarm>(
  { messages, reach }: DatedMail<M>,
  alarms: readonly A[],
  waits: (message: M) => boolean = () => false,
): NextFacts<M, A> {
  const due = alarms.filter(({ at }) => at <= reach).sort((a, b) => a.at - b.at)
  let heldSince: number | null = null
  const dueBy = (time: number) =>
    due.filter(({ at, isPassing }) => at <= time && (isPassing || heldSince === null || at <= heldSince))
  const taken: M[] = []
  for (const { message, at } of messages) {
    if (waits(message)) {
      heldSince ??= at
      continue
    }
    const first = dueBy(at)
    if (first.length > 0) return { messages: taken, alarms: taken.length > 0 ? [] : first, heldSince }
    taken.push(message)
  }
  return { messages: taken, alarms: taken.length > 0 ? [] : dueBy(reach), heldSince }
}
