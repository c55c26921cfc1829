// Whether a command is what it declares: it runs twice, and once more without the variables it does not declare. What
// it read beside its inputs is told by strace, else by what it needs in a copy of its directory (check-copy.ts). Outputs that
// differ, and variables that make them differ, are named.

import { spawnSync } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join, relative, resolve, sep } from 'node:path'
import { defaultLimits } from '../../core/limits.ts'
import { isMatchedBy, parsePatterns } from '../../engine/tree/patterns.ts'
import { readsInCopy } from './check-copy.ts'
import type { CommandOptions } from './command-options.ts'
import { execute } from './execute.ts'
import { FileDigests } from './files.ts'
import { anchoredAll } from './patterns.ts'
import { guiltyOnes } from './search.ts'
import { matching } from './walk.ts'

export interface CommandCheck {
  readonly isHermetic: boolean
  /**
   * Files below the directory that it read and does not declare. Without strace: those that it needs, found by leaving files out
   * in a copy of the directory; null: nobody could tell, for in a copy, or the second time, it gives something else.
   */
  readonly undeclaredInputs: readonly string[] | null
  /** Files of yours elsewhere that it read. */
  readonly outside: readonly string[]
  /** Variables that change what it writes, and are not declared. */
  readonly undeclaredEnv: readonly string[]
  /** Outputs that two runs wrote differently. */
  readonly unstableOutputs: readonly string[]
  /** Of the first run. Nothing else was looked at if it failed. */
  readonly exitCode: number
  /** What to add to the definition. */
  readonly advice: readonly string[]
}

/** What every program may see. */
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

/** Runs the command in its directory, several times. */
export async function checkHermetic(options: CommandOptions, signal?: AbortSignal): Promise<CommandCheck> {
  const directory = resolve(options.directory ?? '.')
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
  const nothing = { undeclaredInputs: null, outside: [], undeclaredEnv: [], unstableOutputs: [] }
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
        // Of outputs that differ anyway nothing can be told.
        inside: isStable
          ? await readsInCopy(options, directory, async (copy) => isSame(await run(process.env, copy)))
          : null,
        outside: [],
      }
  const undeclaredInputs = found.inside
  const outside = found.outside
  const lists = [undeclaredInputs ?? [], outside, undeclaredEnv, unstableOutputs]
  const isHermetic = undeclaredInputs !== null && lists.every(({ length }) => length === 0)
  const advice = adviceFor({ undeclaredInputs, undeclaredEnv, unstableOutputs, outside })
  return { isHermetic, undeclaredInputs, outside, undeclaredEnv, unstableOutputs, exitCode: 0, advice }
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
  return guiltyOnes(names.sort(), (without) =>
    isSame(Object.fromEntries(Object.entries(process.env).filter(([name]) => !without.has(name)))),
  )
}

function canTrace(): boolean {
  return process.platform === 'linux' && spawnSync('strace', ['-V'], { stdio: 'ignore' }).status === 0
}

/** Absolute paths of files that were opened to be read and not written before. */
async function readsOf(options: CommandOptions, directory: string, signal?: AbortSignal): Promise<ReadonlySet<string>> {
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
      'trace=open,openat',
      '-e',
      'signal=none',
      '-s',
      '4096',
      '-o',
      log,
      ...line,
    ]
    await execute(trace, directory, { ...(signal && { signal }) })
    const [read, written] = [new Set<string>(), new Set<string>()]
    for (const call of (await readFile(log, 'utf8')).split('\n')) {
      const opened = /open(?:at)?\(.*?"(?:[^"\\]|\\.)*", ([A-Z_|]+).*\) = \d+<(.*)>$/.exec(call)
      if (!opened) continue
      const [, flags, path] = opened as unknown as [string, string, string]
      if (/O_DIRECTORY/.test(flags)) continue
      if (/O_WRONLY|O_RDWR|O_CREAT/.test(flags)) written.add(path)
      else if (!written.has(path)) read.add(path)
    }
    return read
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

function undeclared(reads: ReadonlySet<string>, directory: string, { inputs, outputs = [] }: CommandOptions) {
  const rules = parsePatterns(anchoredAll([...inputs, ...outputs]).join('\n'))
  const [inside, outside] = [new Set<string>(), new Set<string>()]
  for (const path of reads) {
    const below = relative(directory, path)
    if (below === '' || below.startsWith('..')) {
      if (path.startsWith(homedir() + sep) && !/[/\\](\.cache|\.npm|\.nvm|\.pyenv)[/\\]/.test(path)) outside.add(path)
      continue
    }
    const name = below.split(sep).join('/')
    const packages = name.split('/').indexOf('node_modules')
    if (packages >= 0) {
      if (!inputs.some((pattern) => /lock|node_modules/.test(pattern))) inside.add('node_modules')
    } else if (!name.startsWith('.git/') && !name.startsWith('.reprise/') && !isCovered(rules, name)) inside.add(name)
  }
  return { inside: [...inside].sort().slice(0, shownMax), outside: [...outside].sort().slice(0, shownMax) }
}

/** It matches, or a folder that it lies in does. */
function isCovered(rules: ReturnType<typeof parsePatterns>, path: string): boolean {
  const names = path.split('/')
  let isIn = false
  for (let i = 1; i <= names.length; i++)
    isIn = isMatchedBy(rules, names.slice(0, i).join('/'), i < names.length) ?? isIn
  return isIn
}

function adviceFor(
  found: Pick<CommandCheck, 'outside' | 'undeclaredEnv' | 'unstableOutputs' | 'undeclaredInputs'>,
): string[] {
  const { undeclaredInputs, undeclaredEnv, unstableOutputs, outside } = found
  const advice: string[] = []
  const files = (undeclaredInputs ?? []).filter((path) => path !== 'node_modules')
  if (undeclaredInputs === null && unstableOutputs.length === 0)
    advice.push(
      'make it give the same in a copy of its directory: it reads what it wrote before, or by an absolute path',
    )
  if (files.length > 0) advice.push(`inputs: [${files.map((path) => `'${path}'`).join(', ')}]`)
  if (files.length < (undeclaredInputs?.length ?? 0))
    advice.push("inputs: ['package-lock.json'], for it reads node_modules")
  if (undeclaredEnv.length > 0) advice.push(`env: [${undeclaredEnv.map((name) => `'${name}'`).join(', ')}]`)
  if (unstableOutputs.length > 0) advice.push('make its outputs the same every time, or leave them out of outputs')
  if (outside.length > 0)
    advice.push('copy what it reads elsewhere into its directory, or raise version when that changes')
  return advice
}
