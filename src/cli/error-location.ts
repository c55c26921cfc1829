// Locates an error in the user's own files: the first line of its stack that belongs neither to Node nor to Reprise. Node only
// prints the location of a syntax error, so a second Node process is started to read it: a module that cannot be parsed has not
// run, so nothing runs twice.

import { spawnSync } from 'node:child_process'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'

export interface Place {
  readonly file: string
  readonly line: number
  readonly column: number | null
}

const own = fileURLToPath(new URL('..', import.meta.url))
const known = new WeakMap<object, Place>()

/** The loader's location takes precedence over the stack. */
export function notePlace(error: unknown, place: Place | null): void {
  if (place && typeof error === 'object' && error !== null) known.set(error, place)
}

/** @example placeOf(error) // { file: 'papers.mjs', line: 12, column: 5 } */
export function placeOf(error: unknown): Place | null {
  for (let each: unknown = error; each instanceof Error; each = each.cause) {
    const place = known.get(each) ?? inStack(each.stack ?? '')
    if (place) return place
  }
  return null
}

/** The location in a module that could not be loaded. */
export function placeOfSyntaxError(error: unknown, url: string, hooks: string | null): Place | null {
  const built = (error as { errors?: readonly { location?: { line: number; column: number } | null }[] }).errors?.[0]
  const file = /^(?:Transform failed.*\n)?(file:\S+|\/\S+):\d+:\d+:/m.exec((error as Error).message)?.[1]
  if (built?.location && file) return place(file, built.location.line, built.location.column + 1)
  if (!(error instanceof SyntaxError)) return null
  // A stack with user frames: running code loaded the module, and it must not run again.
  const found = inStack(error.stack ?? '')
  if (found) return found
  const code = 'import(process.argv[1])'
  const args = hooks === null ? ['-e', code, url] : ['--import', hooks, '-e', code, url]
  const { stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 10_000 })
  return inStack(stderr)
}

function inStack(stack: string): Place | null {
  for (const line of stack.split('\n')) {
    const frame =
      /^\s+at .*?(file:\/\/[^)]+|\/[^):]+|[A-Za-z]:\\[^):]+):(\d+):(\d+)\)?$/.exec(line) ??
      /^(file:\/\/\S+|\/\S+|[A-Za-z]:\\\S+):(\d+)$/.exec(line)
    if (!frame || line.includes('node:')) continue
    const found = place(frame[1]!, Number(frame[2]), frame[3] === undefined ? null : Number(frame[3]))
    if (found) return found
  }
  return null
}

function place(where: string, line: number, column: number | null): Place | null {
  const path = where.startsWith('file:') ? fileURLToPath(where) : where
  if (path.startsWith(own) || /[\\/]node_modules[\\/]/.test(path)) return null
  return { file: relative(process.cwd(), path) || path, line, column }
}
