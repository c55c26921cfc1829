// The mail between members of a group, from their histories: the messages that each sent and received, and at which entry.
// Models that send mail to each other define how to read it (model.ts); mail of other models is treated as mail from outside.

import type { TimelineId } from '../../core/coordinate.ts'
import type { Exchange } from '../../core/history/recovery-line.ts'
import type { Head } from '../../core/store/ports.ts'
import { entriesOf, floorOf, lineageOf, readHistory } from '../history/history.ts'
import { recover } from '../history/recover.ts'
import type { Exchanged, SentMail } from '../model/exchange-reader.ts'
import type { Kernel } from '../storage/kernel.ts'
import { openMessage } from '../storage/message.ts'

export interface CapturedMail {
  readonly to: string
  readonly id: string
  readonly kind: string
  readonly value: unknown
}

export interface GroupExchanges {
  readonly exchanges: readonly Exchange[]
  /** Sent messages, by receiver and id. */
  readonly sent: ReadonlyMap<string, SentMail>
}

const suffix = ' again '

/** A message that is sent again has another id, since each id is used once; it is still the same message. */
export function againId(id: string, restore: string): string {
  return `${firstId(id)}${suffix}${restore}`
}

export function firstId(id: string): string {
  const at = id.lastIndexOf(suffix)
  return at === -1 ? id : id.slice(0, at)
}

/** The same for a message and its repetitions. */
export function mailKey({ to, id }: { readonly to: string; readonly id: string }): string {
  return `${to}\n${firstId(id)}`
}

export async function readExchanges(
  kernel: Kernel,
  heads: readonly Head[],
  unread: readonly { readonly to: string; readonly id: string }[],
): Promise<GroupExchanges> {
  const all = await Promise.all(heads.map(async (head) => ({ head, ...(await exchangedBy(kernel, head)) })))
  const received = new Map<string, number>()
  const floors = new Map<string, number>()
  for (const { head, received: noted, floor } of all) {
    floors.set(head.timeline, floor)
    for (const { key, seq } of noted) received.set(`${head.timeline}\n${firstId(key)}`, seq)
  }
  const isUnread = new Set(unread.map(mailKey))
  const sent = new Map<string, SentMail>()
  const exchanges: Exchange[] = []
  for (const { head, sent: mail } of all) {
    for (const one of mail) {
      const floor = floors.get(one.to)
      if (floor === undefined) continue
      sent.set(mailKey(one), one)
      const noted = received.get(`${one.to}\n${one.key ?? one.id}`)
      // A message that is neither unread nor recorded was received in trimmed history.
      const gone = floor > 0 && !isUnread.has(mailKey(one)) ? floor : null
      exchanges.push({ id: one.id, from: head.timeline, sentSeq: one.seq, to: one.to, receivedSeq: noted ?? gone })
    }
  }
  return { exchanges, sent }
}

export async function exchangedBy(kernel: Kernel, head: Head): Promise<Exchanged & { readonly floor: number }> {
  const lineage = await lineageOf(kernel, head)
  const floor = floorOf(lineage)
  const model = kernel.models.find(head.timeline)
  if (!model?.exchanges || !model.fold) return { sent: [], received: [], floor: floor.seq }
  const { state } = await recover(kernel, head, model.fold)
  const reader = model.exchanges(head.timeline, state.value)
  const history = readHistory(kernel, lineage, floor, head.seq)
  for (let step = await history.next(); !step.done; step = await history.next()) {
    for (const entry of entriesOf(kernel, step.value)) reader.read(entry)
  }
  return { ...reader.done(), floor: floor.seq }
}

const inboxMax = 10_000

/** All unread mail of these timelines, decrypted. */
export async function unreadMail(kernel: Kernel, heads: readonly Head[]): Promise<CapturedMail[]> {
  const found: CapturedMail[] = []
  for (const head of heads) {
    if (head.mail === 0) continue
    const { messages } = await kernel.store.inbox(head.timeline as TimelineId, inboxMax)
    for (const message of messages) {
      const { to, id, kind } = message
      found.push({ to, id, kind, value: openMessage(kernel, message) })
    }
  }
  return found
}
