// The functions of a job that read a message: both must return at once. An async one ends the job, and the broker keeps the
// messages: its promise would be the item, or the one id of all messages.

import { isReprise } from '../../../core/errors.ts'
import { refuseThenable } from '../../../core/synchronous.ts'

type Decode<Message, T> = ((message: Message) => T) | null

/** The item of a message: `decode`, or the message itself. */
export function itemOf<Message, T>(decode: Decode<Message, T>, message: Message): T {
  if (!decode) return message as unknown as T
  const item = decode(message)
  refuseThenable(item, 'decode', 'wait in each')
  return item
}

/** The same, with the error of a message that cannot be decoded; it is set aside as it is. */
export function itemOrError<Message, T>(decode: Decode<Message, T>, message: Message): { item: T; error?: unknown } {
  try {
    return { item: itemOf(decode, message) }
  } catch (error) {
    if (isReprise(error, 'ASYNC_CALLBACK')) throw error
    return { item: message as unknown as T, error }
  }
}

export function idOf<Message>(id: ((message: Message) => string) | null, message: Message): string | null {
  if (!id) return null
  const found = id(message)
  refuseThenable(found, 'id', 'take it from the message')
  return found ?? null
}
