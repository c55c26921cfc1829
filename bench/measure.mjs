// Helpers of the suites: medians, timing, and pairs of measurements that take turns at going first.

/** @example median([3, 1, 2]) // 2 */
export function median(values) {
  if (values.length === 0) throw new Error('a median needs at least one value')
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

/** The spread of the values, as a share of their median: 0.1 is ten percent between the lowest and the highest. */
export function spread(values) {
  const middle = median(values)
  return middle === 0 ? 0 : (Math.max(...values) - Math.min(...values)) / Math.abs(middle)
}

/** @example const { elapsedMs, result } = await time(() => work()) */
export async function time(work) {
  const start = performance.now()
  const result = await work()
  return { elapsedMs: performance.now() - start, result }
}

/** Operations per second. @example await perSecond(1000, () => appendAThousand()) */
export async function perSecond(count, work) {
  const { elapsedMs } = await time(work)
  return (count * 1000) / elapsedMs
}

/**
 * A `run` from two measurements. Each returns a number; every second run starts with the baseline, so that neither always gets
 * the warmer machine.
 * @example run: pair({ value: () => perSecond(1000, ours), baseline: () => perSecond(1000, bare) })
 */
export function pair({ value, baseline }) {
  return async ({ index }) => {
    if (index % 2 === 1) {
      const first = await baseline()
      return { value: await value(), baseline: first }
    }
    const first = await value()
    return { value: first, baseline: await baseline() }
  }
}

/**
 * The result of the work, and the longest time that the event loop stood still meanwhile. While other processes had the
 * processor, only the processor time of this process counts.
 */
export async function longestStall(work) {
  let stallMs = 0
  let last = performance.now()
  let cpu = process.cpuUsage()
  const look = () => {
    const now = performance.now()
    const { user, system } = process.cpuUsage(cpu)
    stallMs = Math.max(stallMs, Math.min(now - last - 1, (user + system) / 1000))
    last = now
    cpu = process.cpuUsage()
  }
  const timer = setInterval(look, 1)
  try {
    const result = await work()
    look()
    return { result, stallMs }
  } finally {
    clearInterval(timer)
  }
}
