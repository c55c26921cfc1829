// PostgreSQL's own programs (pg_basebackup, pg_ctl, postgres): where they are, and how they run. They refuse to run as root:
// then they run as the account that owns the place of the archive.

import { spawn } from 'node:child_process'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { RepriseError } from '../../../core/errors.ts'

export interface Account {
  readonly uid: number
  readonly gid: number
}

export interface Programs {
  /** The folder of the programs. */
  readonly folder: string
  /** Null: the account of this process. */
  readonly account: Account | null
}

const required = ['pg_basebackup', 'pg_ctl', 'postgres', 'pg_verifybackup', 'pg_archivecleanup']
const outputMax = 20_000

/** `given`: the folder of the programs. Throws NOT_FOUND if none of this major version is installed. */
export async function findPrograms(place: string, major: number, given?: string): Promise<Programs> {
  const account = accountOf(place)
  const folders = given === undefined ? usualFolders(major) : [given]
  for (const folder of folders) {
    if (!required.every((name) => existsSync(join(folder, name)))) continue
    const { output } = await runProgram({ folder, account }, 'postgres', ['--version'])
    if (Number(/PostgreSQL\D*(\d+)/.exec(output)?.[1]) === major) return { folder, account }
  }
  const where = given ?? 'the search path and the usual folders'
  const what = `${where} has no programs of PostgreSQL ${major} (${required.join(', ')})`
  const cure = `Install the server of this version (Debian: postgresql-${major}), or name its folder with --pg-bin.`
  throw new RepriseError('NOT_FOUND', what, { major, given: given ?? null }, undefined, cure)
}

function usualFolders(major: number): string[] {
  const brew = ['/opt/homebrew/opt', '/usr/local/opt'].map((folder) => `${folder}/postgresql@${major}/bin`)
  const own = [`/usr/lib/postgresql/${major}/bin`, `/usr/pgsql-${major}/bin`, ...brew]
  return [...own, ...(process.env.PATH ?? '').split(delimiter).filter(Boolean)]
}

/** Throws INVALID_ARGUMENT if this process is root, and so is the owner of the place. */
function accountOf(place: string): Account | null {
  if (process.getuid?.() !== 0) return null
  const { uid, gid } = statSync(place)
  if (uid !== 0) return { uid, gid }
  const what = `PostgreSQL's programs do not run as root, and ${place} belongs to root`
  const cure = `Run the command as the account of the server (sudo -u postgres), or run chown postgres ${place}.`
  throw new RepriseError('INVALID_ARGUMENT', what, { place }, undefined, cure)
}

export interface ProgramRun {
  readonly code: number | null
  /** The end of stdout and stderr. */
  readonly output: string
}

/** Runs a program of the folder, or another one by its path, until it ends. */
export async function runProgram(programs: Programs, name: string, args: readonly string[]): Promise<ProgramRun> {
  const path = name.startsWith('/') ? name : join(programs.folder, name)
  const child = spawn(path, args, { ...programs.account, cwd: '/', stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  const hear = (piece: Buffer): void => {
    output = (output + String(piece)).slice(-outputMax)
  }
  child.stdout.on('data', hear)
  child.stderr.on('data', hear)
  return await new Promise<ProgramRun>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => resolve({ code, output }))
  })
}

/** Throws STORE_IO with the program's own words. */
export async function mustRun(programs: Programs, name: string, args: readonly string[]): Promise<string> {
  const { code, output } = await runProgram(programs, name, args)
  if (code === 0) return output
  const why = output.trim().split('\n').slice(-3).join('; ')
  throw new RepriseError('STORE_IO', `${name} ended with ${code}: ${why}`, { program: name, code })
}

/** The folders below, empty if there is none. */
export function namesIn(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder).sort() : []
}
