// The clock as code in a zone sees it: every Node API that reads the time returns the zone's time, from Date to the
// time stamp of an event. Its zero is that of Date, so that `performance.timeOrigin + performance.now()` is
// `Date.now()`.

import { type Any, derive, deriveGetter, dress, refuse, replace, replaceGetter, valuesFor } from './patch.ts'

export function guardClock(): void {
  const guarded = guardedDate(Date)
  replace(globalThis, 'Date', guarded)
  // Otherwise `new date.constructor()` would bypass the guard.
  replace(Date.prototype, 'constructor', guarded)
  guardIntl()
  const measures: Any = Object.getPrototypeOf(performance)
  derive(measures, 'performance', 'now', ({ time }) => time)
  deriveGetter(measures, 'performance', 'timeOrigin', () => 0)
  deriveGetter(measures, 'performance', 'nodeTiming')
  refuse(measures, 'performance', ['mark', 'measure', 'toJSON', 'timerify', 'eventLoopUtilization', ...entries])
  deriveGetter(Event.prototype, 'Event', 'timeStamp', ({ time }) => time)
  derive(process, 'process', 'uptime', ({ time }) => time / 1000)
  derive(process, 'process', 'hrtime', ({ time }, since?: readonly [number, number]) => {
    const [s, ns] = [Math.floor(time / 1000) - (since?.[0] ?? 0), Math.round((time % 1000) * 1e6) - (since?.[1] ?? 0)]
    return ns < 0 ? [s - 1, ns + 1e9] : [s, ns]
  })
  derive(process.hrtime, 'process.hrtime', 'bigint', ({ time }) => BigInt(Math.round(time * 1000)) * 1000n)
  refuse((globalThis as Any).Temporal?.Now, 'Temporal.Now', temporal)
}

const entries = ['getEntries', 'getEntriesByName', 'getEntriesByType']
const temporal = ['instant', 'plainDateTimeISO', 'plainDateISO', 'plainTimeISO', 'zonedDateTimeISO']

function guardedDate(Original: DateConstructor): DateConstructor {
  function Guarded(this: unknown, ...args: never[]): unknown {
    const values = args.length === 0 || !new.target ? valuesFor('Date') : null
    if (!new.target) return values === null ? Original() : new Original(values.time).toString()
    const given = values === null ? args : [values.time]
    return Reflect.construct(Original, given, new.target === Guarded ? Original : new.target)
  }
  Guarded.prototype = Original.prototype
  Object.defineProperty(Guarded, 'name', { value: 'Date' })
  Object.defineProperty(Guarded, 'length', { value: Original.length })
  const statics = {
    now: () => valuesFor('Date.now')?.time ?? Original.now(),
    parse: Original.parse,
    UTC: Original.UTC,
    [Symbol.hasInstance]: (value: unknown) => value instanceof Original,
  }
  for (const key of Reflect.ownKeys(statics)) {
    Object.defineProperty(Guarded, key, {
      value: statics[key as keyof typeof statics],
      configurable: true,
      writable: true,
    })
  }
  return Guarded as unknown as DateConstructor
}

/** Without a date argument, these functions read the clock internally. */
function guardIntl(): void {
  const formats: Any = Intl.DateTimeFormat.prototype
  const { formatToParts } = formats
  const parts = function (this: unknown, date?: unknown) {
    return Reflect.apply(formatToParts, this, [date === undefined ? valuesFor('Intl.DateTimeFormat')?.time : date])
  }
  replace(formats, 'formatToParts', dress(parts, formatToParts))
  // The native getter returns the same bound function for each formatter, and so does this one.
  const bound = new WeakMap<object, (date?: unknown) => string>()
  const get = Object.getOwnPropertyDescriptor(formats, 'format')!.get!
  replaceGetter(formats, 'format', function (this: object) {
    const original = Reflect.apply(get, this, [])
    const known = bound.get(this)
    if (known) return known
    const format = (date?: unknown) => original(date === undefined ? valuesFor('Intl.DateTimeFormat')?.time : date)
    bound.set(this, format)
    return format
  })
}
