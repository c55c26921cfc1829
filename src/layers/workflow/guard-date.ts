// Date as workflow code sees it: without arguments it is the run's own time.

import { currentScope } from './scope.ts'

export function guardedDate(Original: DateConstructor): DateConstructor {
  const time = () => {
    const scope = currentScope()
    return scope === null ? null : (scope.run as unknown as { readonly time: number }).time
  }
  function Guarded(this: unknown, ...args: never[]): unknown {
    const at = args.length === 0 ? time() : null
    const given = at === null ? args : [at]
    if (new.target) return Reflect.construct(Original, given, new.target === Guarded ? Original : new.target)
    return at === null ? Original() : new Original(at).toString()
  }
  Guarded.prototype = Original.prototype
  Object.defineProperty(Guarded, 'name', { value: 'Date' })
  Object.defineProperty(Guarded, 'length', { value: Original.length })
  const statics = {
    now: () => time() ?? Original.now(),
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
