// Repairs damaged rows among the lives of forgotten ids. Their table has one copy, so a row is recovered from its checksum: of
// all rows that differ from it in one bit, at most one matches. A row with more damage is lost together with the name of its
// id: every id without a row then starts far above, so that no key of an earlier life is reused.

import { createHash } from 'node:crypto'
import { raisedLives } from '../../core/limits.ts'
import type { PastLife, PastRepair } from '../../core/store/ports.ts'
import type { Connections, RunSql } from './connect.ts'
import { nowMs } from './functions.ts'
import { damagedPast, recallIn } from './past.ts'
import { isSoundPast } from './tables.ts'

interface DamagedRow {
  readonly name: string
  readonly life: string
  readonly epoch: string
  /** The eight bytes of the number, in hexadecimal. */
  readonly time: string
  readonly checksum: string | null
}

export async function mendPasts(connections: Connections, s: string, ns: number): Promise<PastRepair> {
  connections.checkOpen()
  return await connections.transaction('mending the lives of forgotten ids', async (run) => {
    const found = await run(
      `SELECT name, life::text, epoch::text, encode(float8send(forgotten_at), 'hex') AS time, checksum FROM ${s}.past p
       WHERE ns = $1 AND ${isSoundPast('p')} IS NOT TRUE ORDER BY name FOR UPDATE`,
      [ns],
    )
    const rows = found.rows as unknown as DamagedRow[]
    const mended = rows.flatMap((row) => soundOf(ns, row) ?? [])
    await run(`DELETE FROM ${s}.past WHERE ns = $1 AND name = ANY($2::text[])`, [ns, rows.map(({ name }) => name)])
    await recallIn(run, s, ns, mended)
    const lost = rows.filter((row) => soundOf(ns, row) === null)
    const names = rows.filter((row) => !lost.includes(row)).map(({ name }) => damagedPast.replace('%s', name))
    return { mended: names, lost: lost.length === 0 ? [] : [await startAbove(run, s, ns, lost.length)] }
  })
}

/** Returns the loss in words. */
async function startAbove(run: RunSql, s: string, ns: number, count: number): Promise<string> {
  const { rows } = await run(`SELECT coalesce(max(life), 0) AS life, ${nowMs} AS now FROM ${s}.past WHERE ns = $1`, [
    ns,
  ])
  const { life: highest, now } = rows[0] as { readonly life: number; readonly now: number }
  const life = Number(highest) + raisedLives
  await recallIn(run, s, ns, [{ name: '', life, epoch: 0, forgottenAt: Number(now) }])
  return `${count === 1 ? 'the life of a deleted id is' : `the lives of ${count} deleted ids are`} lost: an id without one starts above life ${life}, so that no earlier key returns`
}

/** The row before one of its bits changed. Null: more than one did. */
function soundOf(ns: number, row: DamagedRow): PastLife | null {
  if (row.checksum === null) return null
  const isOf = (one: DamagedRow) => checksumOf(ns, one) === row.checksum
  const sound = isOneBitOff(checksumOf(ns, row), row.checksum) ? row : [...oneBitOff(row)].find(isOf)
  if (!sound) return null
  const { name, life, epoch, time } = sound
  return { name, life: Number(life), epoch: Number(epoch), forgottenAt: Buffer.from(time, 'hex').readDoubleBE() }
}

/** As the server computes it (tables.ts, pastChecksum). */
function checksumOf(ns: number, { name, life, epoch, time }: DamagedRow): string {
  return createHash('md5').update(`${ns} ${name} ${life} ${epoch} ${time}`).digest('hex')
}

function* oneBitOff(row: DamagedRow): Generator<DamagedRow> {
  for (let bit = 0n; bit < 64n; bit++) {
    const flip = (number: string) => String(BigInt.asIntN(64, BigInt(number) ^ (1n << bit)))
    yield { ...row, life: flip(row.life) }
    yield { ...row, epoch: flip(row.epoch) }
  }
  for (const time of bytesOneBitOff(Buffer.from(row.time, 'hex'))) yield { ...row, time: time.toString('hex') }
  for (const name of bytesOneBitOff(Buffer.from(row.name))) yield { ...row, name: name.toString() }
}

function* bytesOneBitOff(bytes: Buffer): Generator<Buffer> {
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const flipped = Buffer.from(bytes)
    flipped[bit >> 3]! ^= 1 << (bit & 7)
    yield flipped
  }
}

function isOneBitOff(text: string, other: string): boolean {
  return [...bytesOneBitOff(Buffer.from(other))].some((bytes) => bytes.toString() === text)
}
