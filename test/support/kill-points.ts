// The points of a sweep that kills a process at each of its writes. A kill before write n leaves the store as a kill after
// write n - 1 does, so one of the two visits every state of the store; the other differs in the answer that is lost, and is
// tried at every fourth write. REPRISE_SWEEP=all tries both at every write.

export type Fate = 'fail-before' | 'fail-after'

/** How to kill at the n-th write. A step of 3 skips two of three writes, after the first few, which differ most. */
export function fatesAt(n: number, step = 1): readonly Fate[] {
  if (process.env.REPRISE_SWEEP === 'all') return ['fail-before', 'fail-after']
  if (n > 8 && (n - 1) % step !== 0) return []
  return n % 4 === 2 ? ['fail-before', 'fail-after'] : ['fail-before']
}
