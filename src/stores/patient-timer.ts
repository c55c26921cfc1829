// A time limit for an answer that this process itself may be too busy to read. Only time in which the event loop turned
// counts: a function that computes for ten seconds is not a server that was silent for ten seconds. Before the limit takes
// effect, the sockets are read once more.

/** The minimum number of event loop turns in a limit: a connection takes several. */
const stepsMin = 16
const longestStepMs = 250

/** Calls `expire` after `limitMs` of such time, unless it was ended. Returns a function that ends it. */
export function patientTimer(limitMs: number, expire: () => void, keepsAlive = true): () => void {
  const stepMs = Math.min(limitMs / stepsMin, longestStepMs)
  let leftMs = limitMs
  let last: NodeJS.Immediate | null = null
  let timer = wait()
  function wait(): NodeJS.Timeout {
    const next = setTimeout(look, stepMs)
    return keepsAlive ? next : next.unref()
  }
  /** A step counts with its planned duration, however late it is called. */
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
