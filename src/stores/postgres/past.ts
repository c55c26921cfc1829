// The lives of forgotten ids (ports.ts, past), outside of commits: read, listed, and imported from another store.

import type { TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { pastLives } from '../../core/limits.ts'
import type { PastLife } from '../../core/store/ports.ts'
import type { Connections } from './connect.ts'
import { pastName } from './functions.ts'
import { isSoundPast } from './tables.ts'

/** With the name of the id's row. */
export const damagedPast = 'the life of a forgotten id (%s) does not match its checksum'

export async function pastOf(
  connections: Connections,
  s: string,
  ns: number,
  timelines: readonly TimelineId[],
): Promise<PastLife[]> {
  connections.checkOpen()
  const text = `SELECT ${pastName('i.id')} AS name, coalesce(p.life, f.life, 0) AS life, coalesce(p.epoch, 0) AS epoch,
      coalesce(p.forgotten_at, 0) AS "forgottenAt",
      coalesce(${isSoundPast('p')}, ${isSoundPast('f')}, true) AS "isSound"
    FROM unnest($2::text[]) WITH ORDINALITY AS i(id, n)
    LEFT JOIN ${s}.past p ON p.ns = $1 AND p.name = ${pastName('i.id')}
    LEFT JOIN ${s}.past f ON f.ns = $1 AND f.name = '' ORDER BY i.n`
  return (await connections.rows<PastRow>(text, [ns, timelines], 'safe')).map(toPast)
}

export async function listPasts(
  connections: Connections,
  s: string,
  ns: number,
  after: string | null,
  limit: number,
): Promise<PastLife[]> {
  connections.checkOpen()
  const text = `SELECT name, life, epoch, forgotten_at AS "forgottenAt", ${isSoundPast('p')} AS "isSound" FROM ${s}.past p
    WHERE ns = $1 AND ($2::text IS NULL OR name > $2) ORDER BY name LIMIT $3`
  return (await connections.rows<PastRow>(text, [ns, after, limit], 'safe')).map(toPast)
}

interface PastRow extends PastLife {
  readonly isSound: boolean
}

function toPast({ isSound, ...past }: PastRow): PastLife {
  if (isSound) return past
  throw new RepriseError('STORE_DAMAGED', damagedPast.replace('%s', past.name), { name: past.name })
}

export async function recall(
  connections: Connections,
  s: string,
  ns: number,
  pasts: readonly PastLife[],
): Promise<void> {
  connections.checkOpen()
  await recallIn((text, values) => connections.rows(text, values ?? [], 'safe'), s, ns, pasts)
}

/** The same inside a transaction. */
export async function recallIn(
  run: (text: string, values?: readonly unknown[]) => Promise<unknown>,
  s: string,
  ns: number,
  pasts: readonly PastLife[],
): Promise<void> {
  const text = `INSERT INTO ${s}.past AS p (ns, name, life, epoch, forgotten_at)
    SELECT $1, x.name, max(x.life), max(x.epoch), max(x."forgottenAt")
    FROM jsonb_to_recordset($2::jsonb) AS x(name text, life bigint, epoch bigint, "forgottenAt" double precision)
    GROUP BY x.name ORDER BY x.name
    ON CONFLICT (ns, name) DO UPDATE SET ${highest} WHERE ${isSoundPast('p')}`
  await run(text, [ns, JSON.stringify(pasts)])
}

/** Ids forgotten long ago are reduced to the highest life that any of them had. */
export async function tidyPasts(connections: Connections, s: string, ns: number, before: number): Promise<void> {
  const text = `WITH old AS (
      DELETE FROM ${s}.past o WHERE ns = $1 AND name <> '' AND forgotten_at < $2 AND ${isSoundPast('o')} RETURNING life
    ) INSERT INTO ${s}.past AS p (ns, name, life, epoch, forgotten_at)
    SELECT $1, '', max(life), 0, $2 FROM old HAVING count(*) > 0
    ON CONFLICT (ns, name) DO UPDATE SET ${highest}`
  await connections.rows(text, [ns, before - pastLives.keptMs], 'safe')
}

const highest = `life = greatest(p.life, excluded.life), epoch = greatest(p.epoch, excluded.epoch),
      forgotten_at = excluded.forgotten_at`
