// The place of an archive: `wal` has the segments of the server's write-ahead log, which archive_command copies there; `base`
// has copies of the whole server (pg_basebackup), each with a note beside it. The note goes last: a base without one does not
// exist, and the next base removes it.

import { chownSync, existsSync, mkdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { RepriseError } from '../../../core/errors.ts'
import type { LogArchive } from '../../../core/store/store-facts.ts'
import { makeFolder, syncFolder, syncNow } from '../../../lib/durable-file.ts'
import { realTime, sleep } from '../../../lib/waiting.ts'
import { parseLocation } from '../location.ts'
import { findPrograms, mustRun, namesIn, type Programs } from './programs.ts'

/** The note of a base. */
export interface Base {
  readonly name: string
  readonly major: number
  readonly user: string
  readonly database: string
  readonly startedAt: number
  /** A restore reaches any moment from here on. */
  readonly endedAt: number
  /** The first segment of the log that a restore from this base reads. */
  readonly segment: string
}

export interface BaseOptions {
  readonly server: LogArchive
  /** The server's clock. */
  readonly now: () => number
  /** Bases older than this are removed, with the log before the oldest that is kept. Default: all are kept. */
  readonly keepMs?: number
  readonly programs?: string
  readonly waitMs?: number
}

export interface BaseReport extends Base {
  readonly place: string
  readonly removed: readonly string[]
}

const pollMs = 250
const archivedWithinMs = 60_000

export const walOf = (place: string): string => join(place, 'wal')
const baseOf = (place: string): string => join(place, 'base')
export const dataOf = (place: string, base: Base): string => join(baseOf(place), base.name)

/** True if the folder has the form of an archive. */
export function isArchive(place: string): boolean {
  return ['wal', 'base'].every((name) => statSync(join(place, name), { throwIfNoEntry: false })?.isDirectory())
}

/** The complete bases, the oldest first. */
export function basesIn(place: string): Base[] {
  const notes = namesIn(baseOf(place)).filter((name) => name.endsWith('.json'))
  const bases = notes.map((name) => JSON.parse(readFileSync(join(baseOf(place), name), 'utf8')) as Base)
  return bases.sort((a, b) => a.endedAt - b.endedAt)
}

/** Copies the whole server while it is used. @example await takeBase('postgres://me@db/app', '/backup/pg', { server, now }) */
export async function takeBase(url: string, folder: string, options: BaseOptions): Promise<BaseReport> {
  const { server, now } = options
  const place = resolve(folder)
  await makePlace(place)
  const programs = await findPrograms(place, server.major, options.programs)
  for (const each of [walOf(place), baseOf(place)]) own(each, programs)
  removeUnfinished(place)
  const startedAt = now()
  const name = new Date(startedAt).toISOString().replaceAll(':', '-')
  const data = join(baseOf(place), name)
  const to = ['-D', data, '-d', plainUrl(url), '--checkpoint=fast', '--no-password']
  await mustRun(programs, 'pg_basebackup', to)
  const label = readFileSync(join(data, 'backup_label'), 'utf8')
  const segment = /^START WAL LOCATION: .*\(file ([0-9A-F]{24})\)/m.exec(label)![1]!
  const { major, user, database } = server
  const base: Base = { name, major, user, database, startedAt, endedAt: now(), segment }
  await untilArchived(place, segment, options.waitMs ?? archivedWithinMs)
  await writeNote(place, base)
  const removed = options.keepMs === undefined ? [] : await removeOld(place, programs, now() - options.keepMs)
  return { ...base, place, removed }
}

/** Without our own parameters, which PostgreSQL's programs refuse. */
function plainUrl(url: string): string {
  const plain = new URL(parseLocation(url).url)
  plain.searchParams.delete('schema')
  return plain.href
}

/** The folder and its two parts. */
async function makePlace(place: string): Promise<void> {
  await makeFolder(place)
  for (const part of ['wal', 'base']) if (!existsSync(join(place, part))) mkdirSync(join(place, part), { mode: 0o700 })
}

function own(path: string, { account }: Programs): void {
  if (account && statSync(path).uid === 0) chownSync(path, account.uid, account.gid)
}

/** Of a base backup that was killed. */
function removeUnfinished(place: string): void {
  const complete = new Set(basesIn(place).map(({ name }) => name))
  const names = namesIn(baseOf(place)).filter((name) => !name.endsWith('.json') && !complete.has(name))
  for (const name of names) rmSync(join(baseOf(place), name), { recursive: true, force: true })
}

/** Without the log since its start, a base contains one moment only. */
async function untilArchived(place: string, segment: string, waitMs: number): Promise<void> {
  const until = performance.now() + waitMs
  while (!existsSync(join(walOf(place), segment))) {
    if (performance.now() > until) {
      const what = `the server did not archive ${segment} to ${walOf(place)}: archive_command fails, or copies elsewhere`
      const cure = `Run reprise backup --plan ${place}, correct the settings, and repeat the command.`
      throw new RepriseError('TIMEOUT', what, { place, segment }, undefined, cure)
    }
    await sleep(realTime, pollMs)
  }
}

async function writeNote(place: string, base: Base): Promise<void> {
  const note = join(baseOf(place), `${base.name}.json`)
  await writeFile(`${note}.part`, `${JSON.stringify(base, null, 2)}\n`)
  syncNow(`${note}.part`)
  await rename(`${note}.part`, note)
  await syncFolder(baseOf(place))
}

/** Keeps the newest base that reaches back to this moment. */
async function removeOld(place: string, programs: Programs, since: number): Promise<string[]> {
  const bases = basesIn(place)
  const first = bases.findLastIndex(({ endedAt }) => endedAt <= since)
  const old = bases.slice(0, Math.max(0, first))
  for (const { name } of old) {
    // The note goes first: a base without one does not exist.
    rmSync(join(baseOf(place), `${name}.json`))
    rmSync(join(baseOf(place), name), { recursive: true, force: true })
  }
  if (old.length > 0) await mustRun(programs, 'pg_archivecleanup', [walOf(place), bases[first]!.segment])
  return old.map(({ name }) => name)
}
