// Reads a file of an older version without changing it: views of this connection compute the newer tables from existing rows.
// The views follow the file, even while a process of the older release writes it, but they detect no missing rows, since they
// count only the rows that exist.

import type { Connection } from './connection.ts'

/**
 * Version 1 counted nothing. Since version 2 only newer indexes are missing, and no read uses them. Up to version 5, heads
 * have no copy and row counts no checksum.
 */
export function showAsNow(connection: Connection, version: number): void {
  connection.isOlder = true
  if (version > 1) {
    if (version < 6) {
      connection.exec(`CREATE TEMP VIEW reprise_witness AS SELECT *, NULL AS crc FROM main.reprise_witness;
CREATE TEMP VIEW reprise_head_mark AS SELECT *, NULL AS state FROM main.reprise_head_mark;`)
    }
    return
  }
  const sum = (table: string, where = '') =>
    `(SELECT coalesce(sum(crc), 0) & 4294967295 FROM main.reprise_${table} x WHERE x.tid = t.tid ${where})`
  connection.exec(`
CREATE TEMP VIEW reprise_witness AS SELECT t.space, t.name, t.tid, t.crc AS row,
  ${sum('inbox', 'AND x.consumed_at IS NULL')} AS mail, ${sum('manifest')} AS checkpoints, ${sum('cursor')} AS cursors,
  (SELECT count(*) FROM main.reprise_timeline x WHERE x.parent = t.tid) AS forks, NULL AS crc FROM main.reprise_timeline t;
CREATE TEMP VIEW reprise_head_mark AS SELECT tid, ${firstWord} AS crc, NULL AS state FROM main.reprise_head;
CREATE TEMP VIEW reprise_tally AS
  SELECT 'attribute' AS kind, key || value AS key, count(*) AS count, 0 AS sum FROM main.reprise_attribute GROUP BY key, value
  UNION ALL SELECT 'owner', space || '/' || owner, count(*), 0 FROM main.reprise_timeline
    WHERE owner IS NOT NULL GROUP BY space, owner
  UNION ALL SELECT 'worker', cast(space AS TEXT), count(*), sum(crc) & 4294967295 FROM main.reprise_worker GROUP BY space;
`)
}

/** The first four bytes of a head as a number, little-endian: SQLite reads bytes as digits only. */
const firstWord = [0, 1, 2, 3]
  .flatMap((byte) => [0, 1].map((digit) => ({ place: 1 + 2 * byte + digit, weight: 256 ** byte * 16 ** (1 - digit) })))
  .map(
    ({ place, weight }) => `(instr('0123456789ABCDEF', substr(hex(substr(state, 1, 4)), ${place}, 1)) - 1) * ${weight}`,
  )
  .join(' + ')
