// A broken promise: what was promised (the number in GUARANTEES) and what was found instead.

export class Violation extends Error {
  name = 'Violation'

  constructor(promise, message) {
    super(`${promise}: ${message}`)
  }
}
