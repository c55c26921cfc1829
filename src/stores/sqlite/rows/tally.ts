// The number of rows in a list that is read through one index alone: timelines with one value of an attribute, one owner or one
// status, and the workers of a namespace. It is updated in the transaction that changes the list. Listed rows are looked up and
// compared anyway, so a count detects missing ones; where rows change in place (workers), the sum of their checksums does.

import type { WorkerId } from '../../../core/coordinate.ts'
import type { Connection } from '../file/connection.ts'

export type TallyKind = 'attribute' | 'owner' | 'status' | 'worker'

export interface Tally {
  readonly count: number
  readonly sum: number
}

const add = `INSERT INTO reprise_tally (kind, key, count, sum) VALUES (?, ?, ?, ?)
  ON CONFLICT DO UPDATE SET count = count + excluded.count, sum = (sum + excluded.sum) & 4294967295`

/** From `space/` to `space0`, the character after the slash. */
const owners = `SELECT key, count FROM reprise_tally WHERE kind = 'owner' AND key >= ? AND key < ?`

/** Collects the changes of one transaction, so that each tally is written once. */
export class Tallies {
  readonly #connection: Connection
  readonly #changes = new Map<string, { kind: TallyKind; key: string; count: number; sum: number }>()

  constructor(connection: Connection) {
    this.#connection = connection
  }

  add(kind: TallyKind, key: string, count: number, sum = 0): void {
    const id = `${kind} ${key}`
    const change = this.#changes.get(id)
    if (change) {
      change.count += count
      change.sum = (change.sum + sum) % 2 ** 32
    } else this.#changes.set(id, { kind, key, count, sum })
  }

  flush(): void {
    for (const { kind, key, count, sum } of this.#changes.values()) {
      if (count === 0 && sum === 0) continue
      this.#connection.run(add, kind, key, count, sum)
      if (count < 0) {
        this.#connection.run('DELETE FROM reprise_tally WHERE kind = ? AND key = ? AND count = 0', kind, key)
      }
    }
    this.#changes.clear()
  }
}

export function readTally(connection: Connection, kind: TallyKind, key: string): Tally {
  const row = connection.get('SELECT count, sum FROM reprise_tally WHERE kind = ? AND key = ?', kind, key)
  return { count: (row?.count as number | undefined) ?? 0, sum: (row?.sum as number | undefined) ?? 0 }
}

/** The owners of timelines in a namespace, with the number of timelines of each. */
export function talliedOwners(connection: Connection, space: number): { owner: WorkerId; count: number }[] {
  const rows = connection.all(owners, ownerKey(space, ''), `${space}0`)
  const from = ownerKey(space, '').length
  return rows.map(({ key, count }) => ({ owner: (key as string).slice(from) as WorkerId, count: count as number }))
}

/** Both are JSON texts, so the boundary between them is unambiguous. */
export function attributeKey(key: string, value: string): string {
  return `${key}${value}`
}

export function ownerKey(space: number, owner: string): string {
  return `${space}/${owner}`
}

export function statusKey(space: number, status: string): string {
  return `${space}/${status}`
}

/** For a file of an older version: trusts all existing rows. */
export const tallyAll = `
INSERT INTO reprise_tally SELECT 'attribute', key || value, count(*), 0 FROM reprise_attribute GROUP BY key, value;
INSERT INTO reprise_tally SELECT 'owner', space || '/' || owner, count(*), 0 FROM reprise_timeline
  WHERE owner IS NOT NULL GROUP BY space, owner;
INSERT INTO reprise_tally SELECT 'worker', space, count(*), sum(crc) & 4294967295 FROM reprise_worker GROUP BY space;
`

/** The same for statuses. Since version 4. */
export const tallyStatus = `
INSERT INTO reprise_tally SELECT 'status', space || '/' || status, count(*), 0 FROM reprise_timeline GROUP BY space, status;
`
