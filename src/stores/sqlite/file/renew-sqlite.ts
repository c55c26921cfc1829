// Rewrites a SQLite file that no longer opens from its intact parts.

import type { Renewal } from '../../../core/store/ports.ts'
import { renewCopy, renewFile } from '../salvage/renew.ts'
import type { SqliteOptions } from '../store.ts'
import { loadDriver } from './driver.ts'
import { toStoreError } from './failure.ts'
import { realPath } from './real-path.ts'

/**
 * For a file that no longer opens (Salvage.renew); with `dryRun`, works on a copy of it.
 * @example await renewSqlite('.reprise/reprise.db', { namespace, hash })
 */
export async function renewSqlite(
  location: string,
  options: SqliteOptions & { readonly dryRun?: boolean },
): Promise<Renewal> {
  const { namespace, hash, busyMs = 10_000, clock = Date.now } = options
  const file = realPath(location)
  const driver = options.driver ?? (await loadDriver())
  const renew = options.dryRun ? renewCopy : renewFile
  try {
    return await renew(driver, file, { namespace, hash, busyMs, now: clock() })
  } catch (error) {
    throw toStoreError(error, 'renew', file)
  }
}
