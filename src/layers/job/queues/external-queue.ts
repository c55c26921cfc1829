// The contract of an external queue: a broker that delivers messages, and delivers a message again until it is acknowledged.
// A job acknowledges a message only after the record of its item is durable in history, so a crash at any moment repeats at
// most the items in flight. `queueConformance` of reprise/testing holds the contract as tests.

/** One delivery of a message. */
export interface Delivery<Message> {
  readonly message: Message
  /** The message's id at the broker, equal at every delivery of it. Null: the broker has no ids. */
  readonly id: string | null
  /** The broker may have delivered the message before. */
  readonly isRedelivered: boolean
  /** The broker's handle of this delivery. The job returns it unchanged. */
  readonly receipt: unknown
}

export interface QueueConnection<Message> {
  /**
   * How long the broker waits for an acknowledgement, or an extension, before it delivers again. Null: until the connection
   * ends.
   */
  readonly holdMs: number | null
  /**
   * Returns 1 to `max` deliveries as soon as the broker has some, or none after about `waitMs` and when `signal` fires. It is
   * not called again before its promise has settled. Once the connection is closed, it rejects.
   */
  receive(max: number, waitMs: number, signal: AbortSignal): Promise<readonly Delivery<Message>[]>
  /**
   * Removes the messages from the queue permanently. A delivery that has expired, or belongs to an earlier connection, may be
   * ignored: the broker delivers its message again, and the job acknowledges that delivery.
   */
  acknowledge(deliveries: readonly Delivery<Message>[]): Promise<void>
  /** Starts the hold time of the deliveries again. Deliveries that have expired are ignored. */
  extend(deliveries: readonly Delivery<Message>[]): Promise<void>
  /** Returns the messages to the queue, where they are available at once. Deliveries that have expired are ignored. */
  release(deliveries: readonly Delivery<Message>[]): Promise<void>
  /** Ends the connection, and acknowledges nothing. Messages that are held return to the queue, some only after `holdMs`. */
  close(): Promise<void>
}

export interface QueueContext {
  /** The name of the job. */
  readonly job: string
  /** The most messages that the job holds at once. */
  readonly prefetch: number
}

export interface ExternalQueue<Message> {
  /** The kind of broker: 'sqs'. */
  readonly kind: string
  /** For messages to people: 'the queue orders'. */
  readonly name: string
  connect(context: QueueContext): Promise<QueueConnection<Message>>
  /** True if the broker was not reached or is not ready: the job connects again. False: the run ends with this error. */
  isAway(error: unknown): boolean
}
