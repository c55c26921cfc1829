// Mail between sessions, read from a session's history: each message is one entry at its sender and one at its
// receiver.

import type { Exchanged, ExchangeReader, SentMail } from '../../engine/model/exchange-reader.ts'

export class SessionMail implements ExchangeReader {
  readonly #timeline: string
  readonly #sent: SentMail[] = []
  readonly #received: { readonly seq: number; readonly key: string }[] = []

  constructor(timeline: string) {
    this.#timeline = timeline
  }

  read({ seq, type, data }: { readonly seq: number; readonly type: string; readonly data: unknown }): void {
    if (type === 'sent') {
      const { id, to, content } = data as { id: string; to: string; content: unknown }
      this.#sent.push({ seq, id, to, kind: 'agent-message', value: { from: this.#timeline, seq, content } })
    }
    if (type === 'received') this.#received.push({ seq, key: (data as { id: string }).id })
  }

  done(): Exchanged {
    return { sent: this.#sent, received: this.#received }
  }
}
