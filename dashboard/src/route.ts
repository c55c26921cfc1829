// The address holds all state of the page, behind the hash: #/runs?status=failed&text=order. Back, forward, reload and a copied
// address all lead to the same view.

import { signal } from '@preact/signals'

export interface Place {
  readonly path: readonly string[]
  readonly query: URLSearchParams
}

function read(): Place {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?')
  return { path: path.split('/').filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query) }
}

export const place = signal<Place>(read())
window.addEventListener('hashchange', () => {
  place.value = read()
})

export type Changes = Readonly<Record<string, string | readonly string[] | null>>

export function hrefOf(path: readonly string[], query: URLSearchParams | Changes = {}): string {
  const search = query instanceof URLSearchParams ? query : changed(new URLSearchParams(), query)
  const text = search.toString()
  return `#/${path.map(encodeURIComponent).join('/')}${text && `?${text}`}`
}

/** The same place with these changed; null takes one away. */
export function withQuery(changes: Changes): string {
  const { path, query } = place.value
  return hrefOf(path, changed(new URLSearchParams(query), changes))
}

/** `replace`: going back does not lead through every letter that was typed. */
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
