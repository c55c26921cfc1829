// Waiting for something that another part of a test brings about. What it waits for may end without it: then the test fails at
// once and with the reason, not minutes later with none.

/** `over`: what brings it about. If that ends, it is looked once more; then the wait is given up with its error. */
export async function until(holds: () => boolean | Promise<boolean>, over?: Promise<unknown>): Promise<void> {
  let end: Error | null = null
  over?.then(
    () => {
      end = new Error('it ended, and what was waited for did not happen')
    },
    (error) => {
      end = error
    },
  )
  for (;;) {
    const isLast = end !== null
    if (await holds()) return
    if (isLast) throw end
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
