// The address holds all state of the page, behind the hash: #/runs?status=failed&text=order, or #/@shop/runs in a namespace
// other than the first. Back, forward, reload and a copied address all lead to the same view.

import { signal } from '@preact/signals'

export interface Place {
  /** Null: the server's default. */
  readonly namespace: string | null
  readonly path: readonly string[]
  readonly query: URLSearchParams
}

function read(): Place {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?')
  const parts = path.split('/').filter(Boolean).map(decoded)
  const namespace = parts[0]?.startsWith('@') ? parts.shift()!.slice(1) : null
  return { namespace, path: parts, query: new URLSearchParams(query) }
}

/** An address may be typed by hand. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

export const place = signal<Place>(read())
window.addEventListener('hashchange', () => {
  place.value = read()
})

export type Changes = Readonly<Record<string, string | readonly string[] | null>>

/** In the current namespace. */
export function hrefOf(path: readonly string[], query: URLSearchParams | Changes = {}): string {
  return hrefIn(place.peek().namespace, path, query)
}

export function hrefIn(
  namespace: string | null,
  path: readonly string[],
  query: URLSearchParams | Changes = {},
): string {
  const search = query instanceof URLSearchParams ? query : changed(new URLSearchParams(), query)
  const text = search.toString()
  const parts = path.map(encodeURIComponent)
  if (namespace !== null) parts.unshift(`@${encodeURIComponent(namespace)}`)
  return `#/${parts.join('/')}${text && `?${text}`}`
}

/** The current place with these changes; null removes a parameter. */
export function withQuery(changes: Changes): string {
  const { path, query } = place.value
  return hrefOf(path, changed(new URLSearchParams(query), changes))
}

/** `replace`: keeps single keystrokes out of the browser history. */
export function go(href: string, how: 'push' | 'replace' = 'push'): void {
  if (how === 'push') {
    location.hash = href
    return
  }
  history.replaceState(null, '', href)
  place.value = read()
}

function changed(query: URLSearchParams, changes: Changes): URLSearchParams {
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name)
    for (const each of typeof value === 'string' ? [value] : (value ?? [])) if (each !== '') query.append(name, each)
  }
  return query
}
