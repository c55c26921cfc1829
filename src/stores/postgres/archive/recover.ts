// Recovers a server from the archive into a new data directory, in steps that can be repeated after a kill: the base is copied
// to DATA.part, a server without network replays the log there up to the moment, and DATA.part becomes DATA at the end.

import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { appendFile, readFile, rename } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { RepriseError } from '../../../core/errors.ts'
import { makeFolder, syncFolder, syncNow } from '../../../lib/durable-file.ts'
import { isRunning } from '../../../lib/process-stat.ts'
import { realTime, sleep } from '../../../lib/waiting.ts'
import { loadDriver } from '../driver.ts'
import { type Base, basesIn, dataOf, isArchive, walOf } from './base.ts'
import { findPrograms, mustRun, namesIn, type Programs, runProgram } from './programs.ts'

export interface RecoverOptions {
  /** Restore the last commit at or before this time. Default: the newest in the archive. */
  readonly at?: number
  readonly programs?: string
}

/** A server that runs on the recovered data, without network. */
export interface RecoveredServer {
  readonly base: Base
  /** The last commit that was replayed; null: none since the base. */
  readonly lastCommitAt: number | null
  /** The archive ends before the requested time: the newest commit was restored. */
  readonly isLater: boolean
  /** The address of each store of Reprise in the server. */
  stores(): Promise<string[]>
  urlOf(database: string, schema: string): string
  /** Stops it. `keep`: the data becomes the new data directory; `drop`: it is removed; `leave`: a repeated call uses it. */
  end(what: 'keep' | 'drop' | 'leave'): Promise<void>
}

const noTarget = 'recovery ended before configured recovery target was reached'
const cure = 'Complete the archive, restore an earlier time, or restore from another base or copy.'
const pollMs = 50
const startWithinS = 7 * 86_400

/** @example const server = await recoverServer('/backup/pg', '/var/lib/postgresql/15/restored', { at }) */
export async function recoverServer(
  given: string,
  target: string,
  options: RecoverOptions = {},
): Promise<RecoveredServer> {
  const [place, data] = [resolve(given), resolve(target)]
  const base = chooseBase(place, options.at)
  const programs = await findPrograms(place, base.major, options.programs)
  if (namesIn(data).length > 0) {
    throw new RepriseError('EXISTS', `${data} already exists: move it away, or restore into another folder`, { data })
  }
  const part = `${data}.part`
  await endLeftover(programs, part)
  await copyBase(programs, place, base, part, options.at)
  const folder = mkdtempSync(join(tmpdir(), 'rp-'))
  const own = (path: string): void => {
    if (programs.account) chownSync(path, programs.account.uid, programs.account.gid)
  }
  for (const [name, content] of [
    ['postgresql.conf', ''],
    ['pg_hba.conf', 'local all all trust\n'],
    ['log', ''],
  ] as const) {
    writeFileSync(join(folder, name), content)
    own(join(folder, name))
  }
  own(folder)
  try {
    const isLater = await replay(programs, place, part, folder, options.at)
    const lastCommitAt = lastCommitIn(readFileSync(join(folder, 'log'), 'utf8'))
    return {
      base,
      lastCommitAt,
      isLater,
      urlOf: (database, schema) => urlIn(folder, base.user, database, schema),
      stores: () => storesIn(folder, base),
      async end(what) {
        await stop(programs, part, 'fast')
        rmSync(folder, { recursive: true, force: true })
        if (what === 'keep') await settle(part, data)
        if (what === 'drop') remove(part)
      },
    }
  } catch (error) {
    await stop(programs, part, 'immediate')
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
}

/** The newest base that was complete at that time. */
function chooseBase(place: string, at: number | undefined): Base {
  if (!isArchive(place)) {
    const what = `${place} has no archive of PostgreSQL: it would have the folders wal and base`
    throw new RepriseError('NOT_FOUND', what, { place })
  }
  const bases = basesIn(place)
  if (bases.length === 0) {
    throw new RepriseError('NOT_FOUND', `${place} has no base: reprise backup ${place} --base makes one`, { place })
  }
  const base = bases.findLast(({ endedAt }) => at === undefined || endedAt <= at)
  if (base) return base
  const first = new Date(bases[0]!.endedAt).toISOString()
  throw new RepriseError('OUT_OF_RANGE', `the archive reaches back to ${first}`, { at: at ?? null, first })
}

/** The server of a restore that was killed. */
async function endLeftover(programs: Programs, part: string): Promise<void> {
  if (existsSync(join(part, 'postmaster.pid'))) await stop(programs, part, 'immediate')
}

/** A copy that is complete, for the same moment, is used again. */
async function copyBase(
  programs: Programs,
  place: string,
  base: Base,
  part: string,
  at: number | undefined,
): Promise<void> {
  const note = `${part}.json`
  const wanted = JSON.stringify({ place, base: base.name, at: at ?? null })
  if (existsSync(note) && readFileSync(note, 'utf8') === wanted) return
  remove(part)
  await makeFolder(dirname(part))
  mkdirSync(part, { mode: 0o700 })
  if (programs.account) chownSync(part, programs.account.uid, programs.account.gid)
  await mustRun(programs, '/bin/cp', ['-a', `${dataOf(place, base)}/.`, part])
  chmodSync(part, 0o700)
  writeFileSync(join(part, 'recovery.signal'), '')
  if (programs.account) chownSync(join(part, 'recovery.signal'), programs.account.uid, programs.account.gid)
  writeFileSync(note, wanted)
  syncNow(note)
}

/** Returns true if the archive ends before that time. */
async function replay(programs: Programs, place: string, part: string, folder: string, at: number | undefined) {
  if (await start(programs, place, part, folder, at ?? null)) return false
  await start(programs, place, part, folder, null)
  return true
}

/** Returns once the server accepts connections. False: the log ended before the target. Throws STORE_DAMAGED. */
async function start(programs: Programs, place: string, part: string, folder: string, at: number | null) {
  const settings = {
    config_file: join(folder, 'postgresql.conf'),
    hba_file: join(folder, 'pg_hba.conf'),
    unix_socket_directories: folder,
    listen_addresses: '',
    port: '5432',
    ssl: 'off',
    // The archive belongs to the server that is lost, not to this one.
    archive_mode: 'off',
    hot_standby: 'off',
    max_prepared_transactions: '1000',
    logging_collector: 'off',
    log_destination: 'stderr',
    log_timezone: 'UTC',
    lc_messages: 'C',
    restore_command: `cp "${walOf(place)}/%f" "%p"`,
    recovery_target_action: 'promote',
    ...(at !== null && { recovery_target_time: serverTime(at) }),
  }
  const words = Object.entries(settings).map(([name, value]) => `-c ${name}=${quoted(value)}`)
  const log = join(folder, 'log')
  const args = ['-D', part, '-w', '-t', String(startWithinS), '-l', log, '-o', words.join(' '), 'start']
  const { code } = await runProgram(programs, 'pg_ctl', args)
  if (code === 0 && (await becameReady(part))) return true
  const text = await readFile(log, 'utf8')
  if (at !== null && text.includes(noTarget)) return false
  const why =
    text.match(/^.*(?:FATAL|PANIC): (?!.*not accepting connections).*$/gm)?.at(-1) ?? text.trim().split('\n').at(-1)
  const what = `PostgreSQL could not recover from ${place}: ${why}`
  throw new RepriseError('STORE_DAMAGED', what, { place }, undefined, cure)
}

/** pg_ctl does not wait for the end of a recovery. False: the server ended. */
async function becameReady(part: string): Promise<boolean> {
  for (;;) {
    const lines = (await readFile(join(part, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n')
    if (lines[7]?.trim() === 'ready') return true
    if (lines[0] === '' || !isRunning(Number(lines[0]))) return false
    await sleep(realTime, pollMs)
  }
}

/** PostgreSQL knows no Z in this setting. */
const serverTime = (at: number): string => new Date(at).toISOString().replace('T', ' ').replace('Z', '+00')

/** For a shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`

function lastCommitIn(log: string): number | null {
  const last = [...log.matchAll(/last completed transaction was at log time (\S+) ([\d:.]+)\+00/g)].at(-1)
  return last ? Date.parse(`${last[1]}T${last[2]}Z`) : null
}

function urlIn(folder: string, user: string, database: string, schema?: string): string {
  const url = new URL(`postgres://localhost:5432/${encodeURIComponent(database)}`)
  url.username = user
  url.searchParams.set('host', folder)
  if (schema !== undefined) url.searchParams.set('schema', schema)
  return url.href
}

async function storesIn(folder: string, { user, database }: Base): Promise<string[]> {
  const databases = await rowsOf(
    urlIn(folder, user, database),
    'SELECT datname AS name FROM pg_database WHERE datallowconn AND NOT datistemplate ORDER BY 1',
  )
  const urls: string[] = []
  for (const each of databases) {
    const schemas = await rowsOf(
      urlIn(folder, user, each),
      `SELECT nspname AS name FROM pg_namespace n WHERE (SELECT count(*) FROM pg_class c WHERE c.relnamespace = n.oid
        AND c.relkind = 'r' AND c.relname IN ('meta', 'namespace', 'timeline', 'run', 'guard')) >= 4 ORDER BY 1`,
    )
    urls.push(...schemas.map((schema) => urlIn(folder, user, each, schema)))
  }
  return urls
}

async function rowsOf(url: string, text: string): Promise<string[]> {
  const { Client } = await loadDriver()
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query({ text })).rows.map(({ name }) => String(name))
  } finally {
    await client.end()
  }
}

async function stop(programs: Programs, part: string, mode: 'fast' | 'immediate'): Promise<void> {
  await runProgram(programs, 'pg_ctl', ['-D', part, '-m', mode, '-w', '-t', '600', 'stop'])
}

/** The server archives nothing until a person names a new place: the log of two servers must not mix. */
async function settle(part: string, data: string): Promise<void> {
  await appendFile(join(part, 'postgresql.auto.conf'), "archive_command = ''\n")
  syncNow(join(part, 'postgresql.auto.conf'))
  if (existsSync(data)) rmdirSync(data)
  await rename(part, data)
  await syncFolder(dirname(data))
  rmSync(`${part}.json`, { force: true })
}

function remove(part: string): void {
  rmSync(`${part}.json`, { force: true })
  rmSync(part, { recursive: true, force: true })
}
