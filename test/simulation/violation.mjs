// A broken promise: the promise (the number in GUARANTEES) and the observation.

/** @param {unknown} error Whatever was thrown. */
export function stackOf(error) {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

/** @param {unknown} error The code of an error of ours, or the error as text. */
export function codeOf(error) {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error)
}

export class Violation extends Error {
  /** @override */
  name = 'Violation'

  /** @param {string} promise @param {string} message */
  constructor(promise, message) {
    super(`${promise}: ${message}`)
  }
}
