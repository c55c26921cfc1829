// Whether a command is what it declares: it runs twice, and once more without the variables it does not declare. What
// it read beside its inputs is named where strace can tell; outputs that differ, and variables that make them differ,
// are named everywhere.

import { spawnSync } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join, relative, resolve, sep } from 'node:path'
import { defaultLimits } from '../../core/limits.ts'
import { isMatchedBy, parsePatterns } from '../../engine/tree/patterns.ts'
import type { CommandOptions } from './command-options.ts'
import { execute } from './execute.ts'
import { FileDigests } from './files.ts'
import { anchoredAll } from './patterns.ts'
import { matching } from './walk.ts'

export interface CommandCheck {
  readonly isHermetic: boolean
  /** Files below the directory that it read and does not declare; null: nobody could tell, for there is no strace. */
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
const searchesMax = 40
const shownMax = 200

/** Runs the command in its directory, several times. */
export async function checkHermetic(options: CommandOptions, signal?: AbortSignal): Promise<CommandCheck> {
  const directory = resolve(options.directory ?? '.')
  const outputs = options.outputs ?? []
  const run = async (env: NodeJS.ProcessEnv = process.env) => {
    const { exitCode } = await execute(options.cmd, directory, { env, ...(signal && { signal }) })
    const digests = new FileDigests(directory, defaultLimits)
    const files: Record<string, string> = {}
    const found = matching(directory, anchoredAll(outputs), defaultLimits, { of: 'outputs' })
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
  const undeclaredEnv = unstableOutputs.length > 0 ? [] : await searchEnv(options.env ?? [], second, run)
  const found = traced && undeclared(traced, directory, options)
  const undeclaredInputs = found ? found.inside : null
  const outside = found?.outside ?? []
  const isHermetic = [undeclaredInputs ?? [], outside, undeclaredEnv, unstableOutputs].every(
    ({ length }) => length === 0,
  )
  const advice = adviceFor({ undeclaredInputs: undeclaredInputs ?? [], undeclaredEnv, unstableOutputs, outside })
  return { isHermetic, undeclaredInputs, outside, undeclaredEnv, unstableOutputs, exitCode: 0, advice }
}

type Made = { readonly exitCode: number; readonly files: Readonly<Record<string, string>> }

function differing(a: Made['files'], b: Made['files']): string[] {
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].filter((path) => a[path] !== b[path]).sort()
}

/** One variable after another: the fewest of the sorted ones whose absence changes the outcome end with a guilty one. */
async function searchEnv(
  declared: readonly string[],
  whole: Made,
  run: (env: NodeJS.ProcessEnv) => Promise<Made>,
): Promise<string[]> {
  const guilty: string[] = []
  const allowed = (name: string) => usualEnv.has(name) || declared.includes(name) || guilty.includes(name)
  let runs = 0
  const isSameWithout = async (names: ReadonlySet<string>) => {
    runs += 1
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !names.has(name)))
    const made = await run(env)
    return made.exitCode === whole.exitCode && differing(made.files, whole.files).length === 0
  }
  while (runs < searchesMax) {
    const names = Object.keys(process.env)
      .filter((name) => !allowed(name))
      .sort()
    if (names.length === 0 || (await isSameWithout(new Set(names)))) return guilty
    let [low, high] = [0, names.length]
    while (high - low > 1 && runs < searchesMax) {
      const middle = (low + high) >> 1
      if (await isSameWithout(new Set(names.slice(0, middle)))) low = middle
      else high = middle
    }
    guilty.push(names[high - 1]!)
  }
  return guilty
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
  found: Pick<CommandCheck, 'outside' | 'undeclaredEnv' | 'unstableOutputs'> & {
    readonly undeclaredInputs: readonly string[]
  },
): string[] {
  const { undeclaredInputs, undeclaredEnv, unstableOutputs, outside } = found
  const advice: string[] = []
  const files = undeclaredInputs.filter((path) => path !== 'node_modules')
  if (files.length > 0) advice.push(`inputs: [${files.map((path) => `'${path}'`).join(', ')}]`)
  if (files.length < undeclaredInputs.length) advice.push("inputs: ['package-lock.json'], for it reads node_modules")
  if (undeclaredEnv.length > 0) advice.push(`env: [${undeclaredEnv.map((name) => `'${name}'`).join(', ')}]`)
  if (unstableOutputs.length > 0) advice.push('make its outputs the same every time, or leave them out of outputs')
  if (outside.length > 0)
    advice.push('copy what it reads elsewhere into its directory, or raise version when that changes')
  return advice
}
