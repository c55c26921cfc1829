// Keeps this process running while somebody waits for us. Our own timers never do that, so a program that awaits a
// sleeping workflow, or that only works for others, would end with nothing said.

/** The returned function lets the process end again. Real time on purpose: a simulated clock must not see it. */
export function stayAlive(): () => void {
  const timer = setInterval(() => undefined, 2 ** 31 - 1)
  return () => clearInterval(timer)
}

/** @example return await whileAwaited(this.#outcome()) */
export async function whileAwaited<T>(outcome: Promise<T>): Promise<T> {
  const release = stayAlive()
  try {
    return await outcome
  } finally {
    release()
  }
}
