// Finds the handler of a method and a path. A fixed segment takes precedence over a parameter, and a parameter over the rest of
// a path.

interface Place<Handler> {
  readonly fixed: Map<string, Place<Handler>>
  parameter: Place<Handler> | null
  /** By method: handlers of the path that ends here, and of every path that continues below. */
  readonly ending: Map<string, Handler>
  readonly below: Map<string, Handler>
}

export class Router<Handler> {
  readonly #root: Place<Handler> = newPlace()

  /** `isDeep`: the last parameter takes the rest of the path, including slashes. The first of two equal routes counts. */
  add(method: string, path: string, handler: Handler, isDeep = false): void {
    const segments = path.split('/')
    let place = this.#root
    for (const segment of isDeep ? segments.slice(0, -1) : segments) place = next(place, segment)
    const handlers = isDeep ? place.below : place.ending
    if (!handlers.has(method)) handlers.set(method, handler)
  }

  match(method: string, path: string): Handler | undefined {
    return find(this.#root, method, path.split('/'), 0)
  }
}

function next<Handler>(place: Place<Handler>, segment: string): Place<Handler> {
  if (/^\{\w+\}$/.test(segment)) {
    place.parameter ??= newPlace()
    return place.parameter
  }
  const known = place.fixed.get(segment) ?? newPlace<Handler>()
  place.fixed.set(segment, known)
  return known
}

function find<Handler>(
  place: Place<Handler>,
  method: string,
  segments: readonly string[],
  at: number,
): Handler | undefined {
  if (at === segments.length) return place.ending.get(method)
  const segment = segments[at]!
  const fixed = place.fixed.get(segment)
  const found = fixed && find(fixed, method, segments, at + 1)
  if (found !== undefined) return found
  const { parameter } = place
  const under = segment !== '' && parameter ? find(parameter, method, segments, at + 1) : undefined
  if (under !== undefined) return under
  const hasRest = at < segments.length - 1 || segment !== ''
  return hasRest ? place.below.get(method) : undefined
}

function newPlace<Handler>(): Place<Handler> {
  return { fixed: new Map(), parameter: null, ending: new Map(), below: new Map() }
}
