// What becomes due: a timeline that nobody owns, with mail or a wakeup, in a queue.

import type { Commit } from './ports.ts'

/** False: after this commit nothing is due that was not before, whatever it finds. So nobody has to look. */
export function mayMakeDue({ guard, release, queue, send, branch, userSql }: Commit): boolean {
  if (guard === null || userSql || branch || (send && send.length > 0)) return true
  return release === true && queue !== null
}
