// One attempt over a line, watched: it ends when it is asked to stop, and when nothing has moved for too long. Neither depends on
// what it waits for: a request whose server was killed may never say another word, not even that it was aborted.

import { formatMs } from '../core/duration.ts'

/** Worth another attempt: the line broke, or the server is not there or not ready. */
export class Broken extends Error {
  override readonly name = 'Broken'
}

/** An attempt that was given up has this long to end by itself, so that it does not write beside the next. */
const lingerMs = 500

/** What an attempt says and hears while it is under way. */
export interface Attempt {
  /** Fires when it is given up: pass it to whatever waits. */
  readonly signal: AbortSignal
  /** A byte came or went. */
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
  const stall = () => end(new Broken(`nothing came or went for ${formatMs(stallMs)}`))
  // Fires once per stall, not once per piece: bytes only say when the last of them was.
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
    await settled(working)
  }
}

async function settled(working: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const linger = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, lingerMs)
  })
  await Promise.race([linger, working.then(noop, noop)])
  clearTimeout(timer)
}

function noop(): void {}
