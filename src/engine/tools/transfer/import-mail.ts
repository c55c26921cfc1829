// The mail of an imported timeline: messages that it read where it comes from, messages that left with it, and unread messages
// of the file, sealed for their receiver here.

import type { MessageId, TimelineId } from '../../../core/coordinate.ts'
import type { Head, OutgoingMessage } from '../../../core/store/ports.ts'
import { storeAsRead } from '../../../core/store/read-mail.ts'
import { refusalError } from '../../base/refusal-error.ts'
import { type Kernel, submit } from '../../storage/kernel.ts'
import { messageContext } from '../../storage/message.ts'
import { markIn } from '../../storage/moved-mark.ts'
import { messagesMax, type TransferredMessage } from './export.ts'

/** A message is sealed for the timeline that receives it. */
export function readdress(kernel: Kernel, to: TimelineId, message: TransferredMessage): OutgoingMessage {
  const { sealer } = kernel
  const plain = sealer.openChecked(message.data, messageContext(message.to, message.id))
  const data = message.to === to ? message.data : sealer.sealChecked(plain, messageContext(to, message.id))
  return { id: message.id as MessageId, to, kind: message.kind, data }
}

/** Messages that left with a timeline that returns now, and are not unread in its file: they were read where it was. */
export async function carriedAndRead(
  { store }: Kernel,
  here: Head,
  messages: readonly TransferredMessage[],
): Promise<MessageId[]> {
  const { carried = 0 } = markIn(here) ?? {}
  if (carried === 0) return []
  const unread = new Set(messages.map(({ id }) => id))
  const left = (await store.inbox(here.timeline, carried)).messages
  return left.flatMap(({ id }) => (unread.has(id) ? [] : [id]))
}

/** Ids of messages that the timeline read where it comes from: a message that is sent again has no effect here. */
export class ReadElsewhere {
  /**
   * Messages with such an id that are unread here: they left with the timeline, or are repeated. The commit that opens the
   * timeline consumes them, since the mark of a move counts unread messages until then.
   */
  readonly unread: MessageId[] = []
  readonly #kernel: Kernel
  readonly #id: TimelineId
  readonly #epoch: number
  #known: Promise<ReadonlyMap<string, 'read' | 'unread'>> | null = null

  constructor(kernel: Kernel, id: TimelineId, epoch: number) {
    this.#kernel = kernel
    this.#id = id
    this.#epoch = epoch
  }

  async add(ids: readonly MessageId[]): Promise<void> {
    this.#known ??= knownMail(this.#kernel, this.#id)
    const known = await this.#known
    this.unread.push(...ids.filter((id) => known.get(id) === 'unread'))
    const missing = ids.filter((id) => !known.has(id))
    if (missing.length === 0) return
    // In one batch: an interrupted import leaves no unread message in place of a read one.
    const commits = storeAsRead(this.#id, this.#epoch, missing).map((commit) => submit(this.#kernel, commit))
    for (const outcome of await Promise.all(commits)) if (!outcome.ok) throw refusalError(this.#id, outcome)
  }
}

async function knownMail({ store }: Kernel, id: TimelineId): Promise<ReadonlyMap<string, 'read' | 'unread'>> {
  const known = new Map<string, 'read' | 'unread'>()
  for (let after: MessageId | null = null; ; ) {
    const ids: MessageId[] = await store.upkeep.consumed(id, after, messagesMax)
    for (const each of ids) known.set(each, 'read')
    if (ids.length < messagesMax) break
    after = ids.at(-1)!
  }
  for (const message of (await store.inbox(id, Number.MAX_SAFE_INTEGER)).messages) known.set(message.id, 'unread')
  return known
}
