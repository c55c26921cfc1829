// Bodies of HTTP requests and responses, as pieces.

import { RepriseError } from '../../core/errors.ts'
import { realTime, withinOrFail } from '../../lib/waiting.ts'

/** A body of any length must make progress: TIMEOUT if it stalls for this long, ABORTED if the client disconnects. */
export async function* piecesOf(request: Request, stillMs: number): AsyncGenerator<Uint8Array> {
  const reader = (request.body as ReadableStream<Uint8Array> | null)?.getReader()
  if (!reader) return
  const still = () =>
    new RepriseError('TIMEOUT', `the body made no progress for ${stillMs} ms`, { part: 'body', timeoutMs: stillMs })
  const cut = (error: unknown) =>
    new RepriseError('ABORTED', 'the client disconnected before its body was complete', {}, error)
  const read = () => reader.read().catch((error: unknown) => Promise.reject(cut(error)))
  const next = () => withinOrFail(realTime, stillMs, read(), still)
  try {
    for (let step = await next(); !step.done; step = await next()) yield step.value
  } finally {
    // A body that is not read to its end is cancelled.
    void reader.cancel().catch(() => undefined)
  }
}

/** Null: the body has more bytes. At most `bytesMax` are held. */
export async function readBody(request: Request, bytesMax: number): Promise<Buffer | null> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  // Leaving the loop cancels the rest of the body.
  for await (const piece of (request.body ?? []) as unknown as AsyncIterable<Uint8Array>) {
    bytes += piece.length
    if (bytes > bytesMax) return null
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

/** The stream of a body that is produced on demand: no piece is produced before the connection accepts it. */
export function streamOf(body: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  const pieces = body[Symbol.asyncIterator]()
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await pieces.next()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      async cancel() {
        await pieces.return?.()
      },
    },
    { highWaterMark: 0 },
  )
}
