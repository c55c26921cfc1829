/**
 * The pause before the next attempt: it doubles after each failure, up to a limit. Attempts count from 1.
 *
 * @example growingPause(3, 20, 2000) // 80
 */
export function growingPause(attempt: number, firstMs: number, longestMs: number): number {
  return Math.min(longestMs, firstMs * 2 ** Math.min(attempt - 1, 10))
}
