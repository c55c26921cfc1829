// The order of facts: what was durable first counts first. A message counts from the moment the store took it, an alarm
// from the time it was set for, both by the store's clock; who read what when, and how late, plays no part.

export interface Alarm {
  /** When it is due. A message that was durable before is before it; one from this moment on is after it. */
  readonly at: number
  /** It does not wait for mail that has to wait: that mail may be waiting for what this alarm brings about. */
  readonly isPassing: boolean
}

interface Sent {
  readonly sentAt: number
}

export interface DatedMail<M> {
  readonly messages: readonly { readonly message: M; readonly at: number }[]
  /** No message that is not here counts before this time. */
  readonly reach: number
}

/**
 * Mail as a read that began at `now` found it, in its order; `isWhole` if that was all. Messages keep their order: one that
 * the store dates earlier than the one in front of it (its clock went back, or its commit took longer) counts with that one.
 */
export function dateMail<M extends Sent>(messages: readonly M[], now: number, isWhole: boolean): DatedMail<M> {
  let at = Number.NEGATIVE_INFINITY
  const dated = messages.map((message) => {
    at = Math.max(at, message.sentAt)
    return { message, at }
  })
  // What was seen is from before the end of the read: so is all that came before it.
  return { messages: dated, reach: isWhole ? Math.max(now, at) : at }
}

/** Either messages or alarms; neither if nothing is to be done now. */
export interface NextFacts<M, A> {
  readonly messages: readonly M[]
  readonly alarms: readonly A[]
  /** Since when mail waits that cannot be taken yet: alarms from there on wait behind it. Null if none does. */
  readonly heldSince: number | null
}

/**
 * What comes next: the messages before the first alarm that is due, or else the alarms before the first message. Both may
 * change what follows, so whoever acts on it asks again.
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
