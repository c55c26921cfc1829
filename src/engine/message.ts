// Messages between timelines: sealed for the timeline they go to and under their id, so that one cannot be given to another.

import { type MessageId, timelineId } from '../core/coordinate.ts'
import type { OutgoingMessage } from '../core/ports.ts'
import { type Kernel, newId, newOperation } from './kernel.ts'
import { refusalError } from './writer.ts'

export function messageContext(to: string, id: string): Uint8Array {
  return new TextEncoder().encode(`${to}\n${id}`)
}

/** A message to go along with a commit. */
export function messageTo(kernel: Kernel, timeline: string, kind: string, data: unknown, id: string): OutgoingMessage {
  const to = timelineId(timeline)
  const envelope = kernel.sealer.sealChecked(kernel.codec.encode(data), messageContext(to, id))
  return { id: id as MessageId, to, kind, data: envelope }
}

/** By itself; durable when it resolves. */
export async function sendMessage(
  kernel: Kernel,
  timeline: string,
  kind: string,
  data: unknown,
  id = newId(kernel.random),
): Promise<string> {
  const message = messageTo(kernel, timeline, kind, data, id)
  const operation = newOperation(kernel.random)
  const outcome = await kernel.committer.submit({ operation, guard: null, send: [message] })
  if (!outcome.ok) throw refusalError(message.to, outcome)
  return id
}

/** Checked and decoded. */
export function openMessage(
  kernel: Kernel,
  message: { readonly id: string; readonly to: string; readonly data: Uint8Array },
): unknown {
  return kernel.codec.decode(kernel.sealer.openChecked(message.data, messageContext(message.to, message.id)))
}
