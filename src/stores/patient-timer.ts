// A time limit for an answer that this process itself may be too busy to read. What counts is time in which the event loop
// turned: a function that computes for ten seconds is no server that was silent for ten seconds. Before the limit takes effect,
// whatever lies in the sockets is read once more.

/** A limit is made of so many turns of the event loop at least: a connection takes several. */
const stepsMin = 16
const longestStepMs = 250

/** Calls `expire` when nobody ended it for `limitMs` of such time. Returns what ends it. */
export function patientTimer(limitMs: number, expire: () => void, keepsAlive = true): () => void {
  const stepMs = Math.min(limitMs / stepsMin, longestStepMs)
  let leftMs = limitMs
  let last: NodeJS.Immediate | null = null
  let timer = wait()
  function wait(): NodeJS.Timeout {
    const next = setTimeout(look, stepMs)
    return keepsAlive ? next : next.unref()
  }
  /** However late this is called, a step counts as what it was to be. */
  function look(): void {
    leftMs -= stepMs
    if (leftMs > 0) timer = wait()
    else last = setImmediate(expire)
  }
  return () => {
    clearTimeout(timer)
    if (last) clearImmediate(last)
  }
}
