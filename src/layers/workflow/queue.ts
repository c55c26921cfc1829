// Queues: limits across all processes. A run that has a queue waits for its turn; the queue is a timeline of its own that
// counts who is in, and everything between the two goes by mail, so that a crash neither loses nor doubles a place.

import type { OutgoingMessage } from '../../core/ports.ts'
import type { Instance } from './instance.ts'

export interface QueueDefinition {
  readonly kind: 'queue'
  readonly name: string
}

/** What the queue is told when a run ends. */
export function queueMessages(_run: Instance): OutgoingMessage[] {
  return []
}
