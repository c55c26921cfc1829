// The bytes a download requests (RFC 9110): one range, or all of them. A request for several ranges receives the whole file,
// which the RFC permits.

export type Wanted =
  | { readonly kind: 'whole' }
  | { readonly kind: 'range'; readonly from: number; readonly to: number }
  | { readonly kind: 'unsatisfiable' }

export interface RangeHeaders {
  readonly range: string | null
  readonly ifRange: string | null
}

/** `to` is exclusive. @example wantedOf({ range: 'bytes=2-', ifRange: null }, 5, '"a"') // { kind: 'range', from: 2, to: 5 } */
export function wantedOf({ range, ifRange }: RangeHeaders, size: number, etag: string): Wanted {
  const whole = { kind: 'whole' } as const
  if (range === null) return whole
  // A date, a weak tag or another etag: a range might not match the bytes the client has.
  if (ifRange !== null && ifRange.trim() !== etag) return whole
  const match = /^bytes=(\d{0,16})-(\d{0,16})$/.exec(range.replaceAll(' ', ''))
  if (!match) return whole
  const [, first = '', last = ''] = match
  if (first === '' && last === '') return whole
  if (first === '') {
    const count = Math.min(size, Number(last))
    return count === 0 ? { kind: 'unsatisfiable' } : { kind: 'range', from: size - count, to: size }
  }
  const from = Number(first)
  if (last !== '' && Number(last) < from) return whole
  if (from >= size) return { kind: 'unsatisfiable' }
  return { kind: 'range', from, to: last === '' ? size : Math.min(size, Number(last) + 1) }
}

/** True if the client already has these bytes. */
export function hasTag(ifNoneMatch: string | null, etag: string): boolean {
  if (ifNoneMatch === null) return false
  return ifNoneMatch.split(',').some((each) => each.trim() === '*' || each.trim().replace(/^W\//, '') === etag)
}

/** True if the client accepts these bytes. A weak tag never matches. */
export function matchesTag(ifMatch: string | null, etag: string): boolean {
  if (ifMatch === null) return true
  return ifMatch.split(',').some((each) => each.trim() === '*' || each.trim() === etag)
}
