// How a model tells which messages between timelines its entries sent and received (model.ts).

/** One message that an entry sent. */
export interface SentMail {
  readonly seq: number
  readonly id: string
  readonly to: string
  readonly kind: string
  /** As it would be sent again. */
  readonly value: unknown
  /** What the receiver notes of it, if that is not its id. */
  readonly key?: string
}

export interface Exchanged {
  readonly sent: readonly SentMail[]
  readonly received: readonly { readonly seq: number; readonly key: string }[]
}

/** Reads one timeline from its first entry on. */
export interface ExchangeReader {
  read(entry: { readonly seq: number; readonly type: string; readonly data: unknown }): void
  done(): Exchanged
}
