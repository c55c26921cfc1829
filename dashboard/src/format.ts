// Numbers, times and ids in readable form.

export function count(value: number, noun?: string): string {
  const text = value.toLocaleString('en')
  return noun === undefined ? text : `${text} ${noun}${value === 1 ? '' : 's'}`
}

export function bytes(value: number): string {
  if (value < 1000) return `${value} B`
  const units = ['kB', 'MB', 'GB', 'TB']
  let [size, unit] = [value / 1000, 0]
  while (size >= 999.5 && unit < units.length - 1) {
    size /= 1000
    unit += 1
  }
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`
}

/** @example duration(62_000) // '1 min 2 s' */
export function duration(ms: number): string {
  if (ms < 0) return `-${duration(-ms)}`
  if (ms < 1) return '0 ms'
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`
  const seconds = Math.round(ms / 1000)
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return seconds % 60 === 0 ? `${minutes} min` : `${minutes} min ${seconds % 60} s`
  const hours = Math.floor(minutes / 60)
  if (hours < 48) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`
  return `${Math.floor(hours / 24)} d`
}

/** @example relative(now - 61_000, now) // '1 min ago' */
export function relative(time: number, now: number): string {
  const ms = now - time
  const size = Math.abs(ms)
  const text = size < 60_000 ? `${Math.round(size / 1000)} s` : rounded(size)
  return ms >= 0 ? (size < 1500 ? 'just now' : `${text} ago`) : size < 1500 ? 'now' : `in ${text}`
}

function rounded(ms: number): string {
  const minutes = Math.round(ms / 60_000)
  if (minutes < 60) return `${minutes} min`
  const hours = Math.round(ms / 3_600_000)
  return hours < 48 ? `${hours} h` : `${Math.round(ms / 86_400_000)} d`
}

export function exact(time: number): string {
  const date = new Date(time)
  const offset = new Date(time - date.getTimezoneOffset() * 60_000).toISOString()
  return offset.slice(0, 23).replace('T', ' ')
}

/** Marks of writing direction and invisible characters, which can make one id look like another. */
const unseen = /[\u200b-\u200f\u2028-\u202e\u2060-\u2069\u061c\ufeff]/g

/** @example visible('a\u202eb') // 'a\\u202eb' */
export function visible(text: string): string {
  return text.replace(unseen, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** A word for the shell, quoted if necessary. */
export function quoted(text: string): string {
  return /^[\w@%+=:,./~-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
