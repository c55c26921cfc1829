// Times, sizes and counts in readable form.

import { formatMs } from '../core/duration.ts'

export { bytes, count, relative } from '../operations/figures-as-text.ts'

export function when(at: number | null): string {
  return at === null || at === 0 ? '-' : new Date(at).toISOString()
}

export function ms(value: number): string {
  return value < 1 ? `${value.toFixed(2)}ms` : formatMs(Math.round(value * 10) / 10)
}

/** A value on one line, truncated: for lists, never for ids. */
export function brief(text: string, length: number): string {
  const line = text.replace(/\s+/g, ' ')
  return line.length > length ? `${line.slice(0, Math.max(1, length - 1))}…` : line
}
