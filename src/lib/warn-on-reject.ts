// Listeners of the user may be async functions: a rejection must not end the process as unhandled, nor vanish.

/**
 * Prints a warning if the result of a listener is a promise that rejects.
 * @example warnOnReject(listener(event), 'on()')
 */
export function warnOnReject(result: unknown, place: string): void {
  if (!(result instanceof Promise)) return
  result.catch((error: unknown) => {
    const shown = error instanceof Error ? (error.stack ?? error.message) : String(error)
    process.emitWarning(`a listener of ${place} rejected: ${shown}`, 'RepriseListener')
  })
}
