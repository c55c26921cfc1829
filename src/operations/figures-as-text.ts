// Counts, sizes and times as text, for findings and for the command line.

/** @example relative(now - 90_000, now) // '1m ago' */
export function relative(at: number | null, now: number): string {
  if (at === null || at === 0) return '-'
  const ms = Math.abs(now - at)
  const [size, unit] =
    ms < 1000
      ? [ms, 'ms']
      : ms < 60_000
        ? [ms / 1000, 's']
        : ms < 3_600_000
          ? [ms / 60_000, 'm']
          : ms < 86_400_000
            ? [ms / 3_600_000, 'h']
            : [ms / 86_400_000, 'd']
  const text = `${Math.floor(size as number)}${unit}`
  return at <= now ? `${text} ago` : `in ${text}`
}

export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString('en-US')} ${n === 1 ? one : many}`
}

/** @example bytes(1536) // '1.5 KB' */
export function bytes(count: number | null): string {
  if (count === null) return '-'
  const units = ['B', 'KB', 'MB', 'GB', 'TB']
  let size = count
  let unit = 0
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024
    unit += 1
  }
  return `${unit === 0 ? size : size.toFixed(1)} ${units[unit]}`
}
