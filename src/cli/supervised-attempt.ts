// One supervised attempt over a connection: it ends on request, and when no bytes have moved for too long. Neither depends on
// the awaited request: if its server was killed, it may never settle, not even after an abort.

import { formatMs } from '../core/duration.ts'
import { realTime, within } from '../lib/waiting.ts'

/** Worth another attempt: the connection broke, or the server is unreachable or not ready. */
export class Broken extends Error {
  override readonly name = 'Broken'
}

/** Time for an aborted attempt to end by itself, so that it does not write concurrently with the next. */
const lingerMs = 500

/** The interface between an attempt and its supervisor. */
export interface Attempt {
  /** Aborted when the attempt is given up: pass it to every wait. */
  readonly signal: AbortSignal
  /** Bytes were sent or received. */
  moved(): void
}

/** @example await onLine((line) => fetch(url, { signal: line.signal }), 60_000, stop.signal) */
export async function onLine<T>(
  attempt: (line: Attempt) => Promise<T>,
  stallMs: number,
  stopped: AbortSignal,
): Promise<T> {
  const giveUp = new AbortController()
  let timer: NodeJS.Timeout | undefined
  let end: (why: unknown) => void = () => undefined
  const ended = new Promise<never>((_, reject) => {
    end = reject
  })
  const stop = () => end(stopped.reason)
  const stall = () => end(new Broken(`the connection stalled for ${formatMs(stallMs)}`))
  // One timer per stall, not per piece: a piece only updates the time of the last progress.
  let movedAt = performance.now()
  const wait = (ms: number) => {
    timer = setTimeout(() => {
      const restMs = movedAt + stallMs - performance.now()
      if (restMs <= 0) stall()
      else wait(restMs)
    }, ms)
  }
  const moved = () => {
    movedAt = performance.now()
  }
  wait(stallMs)
  stopped.addEventListener('abort', stop, { once: true })
  if (stopped.aborted) stop()
  const working = attempt({ signal: giveUp.signal, moved })
  try {
    return await Promise.race([working, ended])
  } finally {
    clearTimeout(timer)
    stopped.removeEventListener('abort', stop)
    giveUp.abort()
    await within(realTime, lingerMs, working.then(noop, noop))
  }
}

function noop(): void {}
