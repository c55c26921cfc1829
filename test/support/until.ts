// Waiting for a condition that another part of a test fulfils, and gates that hold work until the test opens them. Programs
// that tests start use it too.

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/**
 * `over`: the work that fulfils the condition. If it ends, the condition is read once more, and then the wait fails with its
 * error.
 */
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
    await pause(5)
  }
}

export interface Gate {
  /** Resolves once the gate is open. */
  readonly opened: Promise<void>
  open(): void
}

export function newGate(): Gate {
  let open = (): void => undefined
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open: () => open() }
}
