// The verdict of a soak, from numbers alone. A run is cut into windows, with one number per figure and window. The first quarter
// is warm-up: caches fill, the store reaches the size that retention gives it. After that a figure is flat if its rise from the
// first window to the last stays within its bound. The rise is that of the median slope between all pairs of windows (Theil and
// Sen): one window with a fault in it does not bend it, and a steady leak cannot hide in noise.

/** The share of the windows that is not judged. */
export const warmUpShare = 1 / 4
const windowsMin = 6

/**
 * The permitted rise of each figure over the judged windows: `share` of its level, or `least`, whichever is more. A figure that
 * is a ratio of two times on a shared machine gets a wider bound than a count, and must come with a `time` that rose as well:
 * where the machine became faster, work that does not depend on its disk weighs more, and nothing became worse.
 */
export const bounds = {
  heapMb: { share: 0.1, least: 3 },
  residentMb: { share: 0.15, least: 16 },
  descriptors: { share: 0.1, least: 3 },
  storeMb: { share: 0.2, least: 4 },
  tableMb: { share: 0.25, least: 2 },
  deadRows: { share: 0.5, least: 3000 },
  logMb: { share: 0.5, least: 8 },
  timelines: { share: 0.2, least: 100 },
  appendRatio: { share: 0.4, least: 0.5, time: 'appendMs' },
  orderRatio: { share: 0.4, least: 0.5, time: 'orderMs' },
  cpuMsPerOrder: { share: 0.5, least: 0.5 },
}

/**
 * `windows`: one object of figures each, in order; `worker.heapMb` is judged like `heapMb`. A figure without a bound is shown
 * and not judged; a window without the figure is skipped for it.
 * @example judge([{ 'worker.heapMb': 20 }, …])[0] // { figure, first: 20, last: 20, rise: 0, allowed: 3, isFlat: true }
 */
export function judge(windows) {
  const judged = windows.slice(Math.ceil(windows.length * warmUpShare))
  const figures = [...new Set(judged.flatMap((window) => Object.keys(window)))]
  return figures.map((figure) => judgeFigure(figure, judged))
}

function judgeFigure(figure, windows) {
  const points = pointsOf(figure, windows)
  const third = Math.max(1, Math.floor(points.length / 3))
  const first = levelOf(points)
  const last = medianOf(points.slice(-third).map(({ value }) => value))
  const rise = medianSlope(points) * (windows.length - 1)
  const bound = bounds[figure.split('.').at(-1)]
  if (!bound) return { figure, first, last, rise, allowed: null, isFlat: null }
  const allowed = Math.max(bound.least, bound.share * first)
  const isWithin = rise <= allowed || (bound.time !== undefined && !rose(bound, windows))
  // Too few windows prove nothing, and that is not a pass.
  return { figure, first, last, rise, allowed, isFlat: points.length >= windowsMin && isWithin }
}

function rose({ time, share }, windows) {
  const points = pointsOf(time, windows)
  return points.length === 0 || medianSlope(points) * (windows.length - 1) > share * levelOf(points)
}

/** Where it began: in the first third. */
function levelOf(points) {
  return medianOf(points.slice(0, Math.max(1, Math.floor(points.length / 3))).map(({ value }) => value))
}

function pointsOf(figure, windows) {
  return windows.flatMap((window, at) => (Number.isFinite(window[figure]) ? [{ at, value: window[figure] }] : []))
}

/** The median of the slopes between all pairs of points, per window. */
function medianSlope(points) {
  const slopes = points.flatMap((a, index) => points.slice(index + 1).map((b) => (b.value - a.value) / (b.at - a.at)))
  return medianOf(slopes) ?? 0
}

/** The median; null of an empty list. */
export function medianOf(numbers) {
  return numbers.length === 0 ? null : [...numbers].sort((a, b) => a - b)[numbers.length >> 1]
}
