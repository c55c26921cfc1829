// The URL of a PostgreSQL store: our own parameters, the part for the driver, and the part to show.

import { RepriseError } from '../../core/errors.ts'

export interface Location {
  /** For the driver. */
  readonly url: string
  /** For people: without user and password. */
  readonly shown: string
  /** ?durability=relaxed: a server that may lose acknowledged commits is accepted. */
  readonly isRelaxed: boolean
  /** ?prepare=false: no prepared statements, even where they would work. */
  readonly isPrepared: boolean
}

/** @example parseLocation('postgres://me@localhost/app?durability=relaxed') */
export function parseLocation(text: string): Location {
  let url: URL
  try {
    url = new URL(text)
  } catch (cause) {
    throw new RepriseError('INVALID_ARGUMENT', 'this is not a postgres:// URL', {}, cause)
  }
  if (!/^postgres(ql)?:$/.test(url.protocol)) {
    throw new RepriseError(
      'INVALID_ARGUMENT',
      `the URL of a PostgreSQL store must start with postgres:// (got ${url.protocol}//)`,
    )
  }
  const durability = url.searchParams.get('durability') ?? 'full'
  const prepare = url.searchParams.get('prepare') ?? 'true'
  if (durability !== 'full' && durability !== 'relaxed') {
    throw new RepriseError('INVALID_ARGUMENT', 'durability in the URL must be full or relaxed', { durability })
  }
  if (prepare !== 'true' && prepare !== 'false') {
    throw new RepriseError('INVALID_ARGUMENT', 'prepare in the URL must be true or false', { prepare })
  }
  url.searchParams.delete('durability')
  url.searchParams.delete('prepare')
  const shown = `postgres://${url.host}${url.pathname}`
  return { url: url.href, shown, isRelaxed: durability === 'relaxed', isPrepared: prepare === 'true' }
}
