// Checks a command against its declaration: it runs twice, and once more without its undeclared variables. Undeclared inputs
// are found with strace, or, without it, by running in a copy of the directory (check-copy.ts). Outputs that differ, and
// variables that make them differ, are named.

import { spawnSync } from 'node:child_process'
import { realpathSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative, resolve, sep } from 'node:path'
import { defaultLimits } from '../../core/limits.ts'
import { parsePatterns } from '../../engine/base/file-tree/patterns.ts'
import { readsInCopy } from './check-copy.ts'
import type { CommandOptions } from './command-options.ts'
import { affectingElements } from './delta-debugging.ts'
import { execute } from './execute.ts'
import { FileDigests } from './files.ts'
import { byFolder } from './input-files.ts'
import { anchoredAll } from './patterns.ts'
import { isCovered, type OutsideRead, readsOutside, type Traced } from './undeclared-reads.ts'
import { matching } from './walk.ts'

export interface CommandCheck {
  readonly isHermetic: boolean
  /**
   * Undeclared files below the directory that the command read. Without strace: the files it needs, found by leaving files
   * out in a copy of the directory; null: unknown, because the command's result differs in a copy or in a second run.
   */
  readonly undeclaredInputs: readonly string[] | null
  /**
   * Undeclared reads outside the directory: packages by their folders, single files, programs. Folders of the operating
   * system and caches of tools are omitted. Known only with strace.
   */
  readonly outside: readonly string[]
  /** Undeclared variables that change the outputs. */
  readonly undeclaredEnv: readonly string[]
  /** Outputs that two runs wrote differently. */
  readonly unstableOutputs: readonly string[]
  /** Exit code of the first run. If it failed, nothing else was checked. */
  readonly exitCode: number
  /** Additions to the definition. */
  readonly declare: {
    readonly inputs: readonly string[]
    readonly tools: readonly string[]
    readonly env: readonly string[]
  }
  /** The same as text, with further advice. */
  readonly advice: readonly string[]
}

/** Variables that every command may read. */
const usualEnv = new Set([
  'PATH',
  'HOME',
  'TMPDIR',
  'LANG',
  'LC_ALL',
  'USER',
  'LOGNAME',
  'SHELL',
  'TERM',
  'PWD',
  'OLDPWD',
  'SHLVL',
  '_',
])
const shownMax = 200

/** Runs the command in its directory several times. */
export async function checkHermetic(options: CommandOptions, signal?: AbortSignal): Promise<CommandCheck> {
  const directory = followed(resolve(options.directory ?? '.'))
  const outputs = options.outputs ?? []
  const run = async (env: NodeJS.ProcessEnv = process.env, where = directory): Promise<Made> => {
    const { exitCode } = await execute(options.cmd, where, { env, ...(signal && { signal }) })
    const digests = new FileDigests(where, defaultLimits)
    const files: Record<string, string> = {}
    const found = matching(where, anchoredAll(outputs), defaultLimits, { of: 'outputs' })
    for await (const path of found) files[path] = await digests.digestOf(path)
    return { exitCode, files }
  }
  const traced = canTrace() ? await readsOf(options, directory, signal) : null
  const first = await run()
  const declareNothing = { inputs: [], tools: [], env: [] }
  const nothing = {
    undeclaredInputs: null,
    outside: [],
    undeclaredEnv: [],
    unstableOutputs: [],
    declare: declareNothing,
  }
  if (first.exitCode !== 0) {
    return { ...nothing, isHermetic: false, exitCode: first.exitCode, advice: ['make it succeed first'] }
  }
  const second = await run()
  const unstableOutputs = differing(first.files, second.files)
  const isStable = unstableOutputs.length === 0
  const isSame = (made: Made) => made.exitCode === 0 && differing(made.files, second.files).length === 0
  const undeclaredEnv = isStable ? await searchEnv(options.env ?? [], async (env) => isSame(await run(env))) : []
  const found = traced
    ? undeclared(traced, directory, options)
    : {
        // Outputs that differ in any case allow no conclusion.
        inside: isStable
          ? await readsInCopy(options, directory, async (copy) => isSame(await run(process.env, copy)))
          : null,
        outside: [],
      }
  const undeclaredInputs = found.inside
  const outside = found.outside.map(({ path }) => path)
  const lists = [undeclaredInputs ?? [], outside, undeclaredEnv, unstableOutputs]
  const isHermetic = undeclaredInputs !== null && lists.every(({ length }) => length === 0)
  const declare = { ...additionsFor(undeclaredInputs ?? [], found.outside), env: undeclaredEnv }
  const advice = adviceFor({ undeclaredInputs, unstableOutputs, declare })
  return { isHermetic, undeclaredInputs, outside, undeclaredEnv, unstableOutputs, exitCode: 0, declare, advice }
}

type Made = { readonly exitCode: number; readonly files: Readonly<Record<string, string>> }

function differing(a: Made['files'], b: Made['files']): string[] {
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].filter((path) => a[path] !== b[path]).sort()
}

function searchEnv(
  declared: readonly string[],
  isSame: (env: NodeJS.ProcessEnv) => Promise<boolean>,
): Promise<string[]> {
  const names = Object.keys(process.env).filter((name) => !usualEnv.has(name) && !declared.includes(name))
  return affectingElements(names.sort(), (without) =>
    isSame(Object.fromEntries(Object.entries(process.env).filter(([name]) => !without.has(name)))),
  )
}

function canTrace(): boolean {
  return process.platform === 'linux' && spawnSync('strace', ['-V'], { stdio: 'ignore' }).status === 0
}

/** Files that were executed, or opened for reading without being written before. */
async function readsOf(options: CommandOptions, directory: string, signal?: AbortSignal): Promise<Traced> {
  const folder = await mkdtemp(join(tmpdir(), 'reprise-check-'))
  try {
    const log = join(folder, 'calls')
    const { cmd } = options
    const line = typeof cmd === 'string' ? ['sh', '-c', cmd] : cmd
    const trace = [
      'strace',
      '-f',
      '-qq',
      '-y',
      '-e',
      'trace=open,openat,execve',
      '-e',
      'signal=none',
      '-s',
      '4096',
      '-o',
      log,
      ...line,
    ]
    await execute(trace, directory, { ...(signal && { signal }) })
    const [read, written, executed] = [new Set<string>(), new Set<string>(), new Set<string>()]
    for (const call of (await readFile(log, 'utf8')).split('\n')) {
      const program = /execve\("((?:[^"\\]|\\.)*)".*\) = 0$/.exec(call)?.[1]
      if (program !== undefined) executed.add(followed(resolve(directory, program)))
      const opened = /open(?:at)?\(.*?"(?:[^"\\]|\\.)*", ([A-Z_|]+).*\) = \d+<(.*)>$/.exec(call)
      if (!opened) continue
      const [, flags, path] = opened as unknown as [string, string, string]
      if (/O_DIRECTORY/.test(flags)) continue
      if (/O_WRONLY|O_RDWR|O_CREAT/.test(flags)) written.add(path)
      else if (!written.has(path)) read.add(path)
    }
    for (const path of executed) if (!written.has(path)) read.add(path)
    return { read, executed }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

function followed(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}

function undeclared(traced: Traced, directory: string, options: CommandOptions) {
  const { inputs, outputs = [] } = options
  const rules = parsePatterns(anchoredAll([...byFolder(inputs).get('')!, ...outputs]).join('\n'))
  const inside = new Set<string>()
  for (const path of traced.read) {
    const below = relative(directory, path)
    if (below === '' || below.startsWith('..')) continue
    const name = below.split(sep).join('/')
    const packages = name.split('/').indexOf('node_modules')
    if (packages >= 0) {
      if (!inputs.some((pattern) => /lock|node_modules/.test(pattern))) inside.add('node_modules')
    } else if (!name.startsWith('.git/') && !name.startsWith('.reprise/') && !isCovered(rules, name)) inside.add(name)
  }
  return {
    inside: [...inside].sort().slice(0, shownMax),
    outside: readsOutside(traced, directory, options).slice(0, shownMax),
  }
}

function adviceFor(found: Pick<CommandCheck, 'unstableOutputs' | 'undeclaredInputs' | 'declare'>): string[] {
  const { undeclaredInputs, unstableOutputs, declare } = found
  const advice: string[] = []
  if (undeclaredInputs === null && unstableOutputs.length === 0)
    advice.push(
      'make its outputs the same in a copy of its directory: it reads its own earlier outputs, or an absolute path',
    )
  for (const [option, names] of Object.entries(declare)) {
    if (names.length > 0) advice.push(`${option}: [${names.map((name) => `'${name}'`).join(', ')}]`)
  }
  if (unstableOutputs.length > 0) advice.push('make its outputs the same every time, or omit them from outputs')
  return advice
}

/** Installed packages are declared by their lock file. */
function additionsFor(
  inside: readonly string[],
  outside: readonly OutsideRead[],
): Omit<CommandCheck['declare'], 'env'> {
  const once = (names: readonly string[]) => [...new Set(names)]
  const above = outside.flatMap(({ add }) => ('input' in add ? add.input : []))
  return {
    inputs: once([...inside.map((path) => (path === 'node_modules' ? 'package-lock.json' : path)), ...above]),
    tools: once(outside.flatMap(({ add }) => ('tool' in add ? add.tool : []))),
  }
}
