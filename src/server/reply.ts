// An answer before it is sent: as a Response of the Fetch standard, or straight to a socket of ours (node.ts).

import type { Readable } from 'node:stream'

/** Bytes that are asked for piece by piece, as fast as the client takes them. */
export interface ByteSource {
  /** Null: that was all. */
  next(): Promise<Uint8Array | null>
  /** Nobody asks any more; called once or several times, also after the last piece. */
  close(): void
}

export type ReplyBody = string | Uint8Array | ByteSource | null

/** Of most answers: the same object each time, so that what is added to it (guard.ts) is added once. */
export const jsonHeaders: Readonly<Record<string, string>> = { 'content-type': 'application/json' }

export class Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: ReplyBody

  constructor(body: ReplyBody, headers: Readonly<Record<string, string>>, status = 200) {
    this.body = body
    this.headers = headers
    this.status = status
  }

  /** What is sent where only the head of the answer was asked for. */
  withoutBody(): Reply {
    if (isSource(this.body)) this.body.close()
    return new Reply(null, this.headers, this.status)
  }
}

export function isSource(body: ReplyBody): body is ByteSource {
  return typeof body === 'object' && body !== null && 'next' in body
}

export function responseOf({ status, headers, body }: Reply): Response {
  return new Response(isSource(body) ? streamOf(body) : (body as string | Uint8Array<ArrayBuffer> | null), {
    status,
    headers,
  })
}

/** An answer that another library made. */
export async function replyOf(response: Response): Promise<Reply> {
  const body = response.body === null ? null : new Uint8Array(await response.arrayBuffer())
  return new Reply(body, Object.fromEntries(response.headers), response.status)
}

export function sourceOf(readable: Readable): ByteSource {
  const pieces = readable[Symbol.asyncIterator]()
  return {
    async next() {
      const { done, value } = await pieces.next()
      return done ? null : (value as Uint8Array)
    },
    close: () => void readable.destroy(),
  }
}

/** The same bytes, and a word when it is over, whoever ended it. */
export function watched(source: ByteSource, over: () => void): ByteSource {
  let isOver = false
  return {
    next: () => source.next(),
    close() {
      if (isOver) return
      isOver = true
      source.close()
      over()
    },
  }
}

function streamOf(source: ByteSource): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const piece = await source.next()
        if (piece !== null) return controller.enqueue(piece)
      } catch (error) {
        source.close()
        throw error
      }
      source.close()
      controller.close()
    },
    cancel: () => source.close(),
  })
}
