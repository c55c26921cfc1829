// An external queue as the source of a job, and the options that all queues have in common.

import { type Duration, toMs } from '../../../core/duration.ts'
import { checkCount, checkOptions } from '../../../core/options.ts'
import { checkFunction } from '../../../core/synchronous.ts'
import type { PlainSource } from '../source.ts'
import { itemOf } from './decoding.ts'
import type { ExternalQueue } from './external-queue.ts'
import { QueueReader, type QueueSettings } from './queue-reader.ts'

/** The options of reading that every queue has. */
export interface QueueReading<Message, T = Message> {
  /** Turns a message into an item. A message on which it throws becomes a dead letter. Default: the message itself. */
  readonly decode?: (message: Message) => T
  /** End the round once the queue has had no message for this long. Default: the job runs until it is stopped. */
  readonly untilEmptyFor?: Duration
  /**
   * The most messages that the job holds at once, including those that wait for a retry. Default: twice the items in flight
   * (`concurrency`, times the size of a batch), and at least 16.
   */
  readonly prefetch?: number
  /** How long the broker may be unavailable before the run ends with BROKER_AWAY. Default: 1 minute. */
  readonly awayFor?: Duration
}

export const queueReadingNames = ['decode', 'untilEmptyFor', 'prefetch', 'awayFor'] as const

/** Separates the options of reading from those of the connection. */
export function splitReading<Message, T, Options extends QueueReading<Message, T>>(options: Options) {
  const { decode, untilEmptyFor, prefetch, awayFor, ...connecting } = options
  const reading: QueueReading<Message, T> = {
    ...(decode && { decode }),
    ...(untilEmptyFor !== undefined && { untilEmptyFor }),
    ...(prefetch !== undefined && { prefetch }),
    ...(awayFor !== undefined && { awayFor }),
  }
  return { reading, connecting }
}

/** A source whose messages are acknowledged one by one. */
export interface QueueSource<T> extends PlainSource<T> {
  readonly kind: 'queue'
  readonly acknowledges: true
}

const prefetchMax = 100_000

/** @example job('mails', { source: queueSource(myQueue), key: (mail) => mail.id, each: send }) */
export function queueSource<Message, T = Message>(
  queue: ExternalQueue<Message>,
  reading: QueueReading<Message, T> = {},
): QueueSource<T> {
  checkOptions('queueSource', reading, new Set(queueReadingNames))
  const { decode, untilEmptyFor, prefetch, awayFor = '1m' } = reading
  if (decode !== undefined) checkFunction(decode, 'decode')
  if (prefetch !== undefined) checkCount('prefetch', prefetch, 1, prefetchMax)
  const settings: QueueSettings<Message, T> = {
    decode: decode ?? null,
    untilEmptyMs: untilEmptyFor === undefined ? null : toMs(untilEmptyFor, 'untilEmptyFor'),
    prefetch: prefetch ?? null,
    awayMs: toMs(awayFor, 'awayFor'),
  }
  return {
    kind: 'queue',
    takesInput: false,
    acknowledges: true,
    // A failure ends the run: the reader itself waits for an unavailable broker.
    once: true,
    open: (_position, context) => new QueueReader(queue, settings, context),
    readAgain: (stored) => itemOf(settings.decode, stored as Message),
  }
}
