// Messages between timelines: sealed for their receiver and under their id, so that none can be delivered to another
// timeline.

import { isWellFormed, type MessageId, timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { OutgoingMessage } from '../../core/store/ports.ts'
import { refusalError } from '../base/refusal-error.ts'
import { type Kernel, newId, submit } from './kernel.ts'

/** Long enough for ids that layers build from timeline ids. */
const nameLengthMax = 2048

export function messageContext(to: string, id: string): Uint8Array {
  return new TextEncoder().encode(`${to}\n${id}`)
}

/** A message to send with a commit. */
export function messageTo(kernel: Kernel, timeline: string, kind: string, data: unknown, id: string): OutgoingMessage {
  const to = timelineId(timeline)
  checkName(id, 'the id of a message')
  checkName(kind, 'the kind of a message')
  const envelope = kernel.sealer.sealChecked(kernel.codec.encode(data), messageContext(to, id))
  return { id: id as MessageId, to, kind, data: envelope }
}

/** Text that is not well-formed would be changed in storage, and could not be found again under its original form. */
function checkName(text: unknown, what: string): void {
  if (typeof text === 'string' && text.length >= 1 && text.length <= nameLengthMax && isWellFormed(text)) {
    if (!text.includes('\0')) return
  }
  throw new RepriseError(
    'INVALID_ARGUMENT',
    `${what} must be well-formed text of 1 to ${nameLengthMax} characters, without NUL (got ${typeof text})`,
    { given: typeof text },
  )
}

/** Sends a message in a commit of its own; durable when it resolves. */
export async function sendMessage(
  kernel: Kernel,
  timeline: string,
  kind: string,
  data: unknown,
  { id = newId(kernel.random), life }: { readonly id?: string; readonly life?: number } = {},
): Promise<string> {
  const message = { ...messageTo(kernel, timeline, kind, data, id), ...(life !== undefined && { life }) }
  const outcome = await submit(kernel, { guard: null, send: [message] })
  if (!outcome.ok) throw refusalError(message.to, outcome)
  return id
}

/** Decrypted, checked and decoded. */
export function openMessage(
  kernel: Kernel,
  message: { readonly id: string; readonly to: string; readonly data: Uint8Array },
): unknown {
  return kernel.codec.decode(kernel.sealer.openChecked(message.data, messageContext(message.to, message.id)))
}
