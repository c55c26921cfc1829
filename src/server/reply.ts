// A response before it is sent: as a Fetch Response, or directly to our own socket (node.ts).

import type { Readable } from 'node:stream'

/** Bytes that are pulled piece by piece, at the client's pace. */
export interface ByteSource {
  /** Null: the end. */
  next(): Promise<Uint8Array | null>
  /** Ends the source; may be called several times, also after the last piece. */
  close(): void
}

export type ReplyBody = string | Uint8Array | ByteSource | null

/** The headers of most responses: always the same object, so that guard.ts extends it only once. */
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

  /** The response to a HEAD request. */
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

/** Converts a response created by another library. */
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

/** Passes the bytes through, and calls `over` once at the end, regardless of which side ended it. */
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
