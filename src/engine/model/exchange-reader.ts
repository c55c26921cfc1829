// How a model reports the messages between timelines that its entries sent and received (model.ts).

/** One message that an entry sent. */
export interface SentMail {
  readonly seq: number
  readonly id: string
  readonly to: string
  readonly kind: string
  /** The value to send again. */
  readonly value: unknown
  /** The key that the receiver records. Default: the message's id. */
  readonly key?: string
}

export interface Exchanged {
  readonly sent: readonly SentMail[]
  readonly received: readonly { readonly seq: number; readonly key: string }[]
}

/** Reads one timeline, starting with its first entry. */
export interface ExchangeReader {
  read(entry: { readonly seq: number; readonly type: string; readonly data: unknown }): void
  done(): Exchanged
}
