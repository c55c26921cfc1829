// Records a program's operations on its files, with strace, in the order in which they finished. Where strace is missing or may
// not trace, `whyNoStrace` has the reason, and the tests that need it are skipped.

import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

export type Operation =
  | { readonly kind: 'write'; readonly path: string; readonly offset: number | null; readonly bytes: Uint8Array }
  | { readonly kind: 'truncate'; readonly path: string; readonly size: number }
  | { readonly kind: 'sync'; readonly path: string }
  | { readonly kind: 'create'; readonly path: string; readonly isEmptied: boolean }
  | { readonly kind: 'folder'; readonly path: string }
  | { readonly kind: 'remove'; readonly path: string }
  | { readonly kind: 'rename'; readonly path: string; readonly to: string }
  /** A line on standard output. */
  | { readonly kind: 'said'; readonly line: string }

/** Those that this kernel does not have are passed over (?). */
const calls =
  'openat,?open,pwrite64,write,?pwritev,?writev,fsync,fdatasync,ftruncate,?unlink,unlinkat,?rename,renameat,?renameat2,?mkdir,mkdirat,?fallocate'

/** Null where strace works. */
export function whyNoStrace(): string | null {
  const tried = spawnSync('strace', ['-f', '-qq', '-e', 'trace=fsync', 'true'], { encoding: 'utf8' })
  if (tried.error) return `strace is not there (${(tried.error as NodeJS.ErrnoException).code})`
  return tried.status === 0 ? null : `strace may not trace here: ${tried.stderr.trim().slice(0, 200)}`
}

/** Runs the commands one after another, and returns their operations below `root`. Standard output is returned as lines. */
export function record(root: string, commands: readonly (readonly string[])[]): Operation[] {
  const trace = join(tmpdir(), `reprise-trace-${process.pid}-${Date.now()}`)
  const operations: Operation[] = []
  for (const command of commands) {
    const words = [
      '-f',
      '--seccomp-bpf',
      '-qq',
      '-y',
      '-xx',
      '-s',
      '16777216',
      '-e',
      `trace=${calls}`,
      '-o',
      trace,
      ...command,
    ]
    const done = spawnSync('strace', words, { encoding: 'utf8', env: { ...process.env, UV_THREADPOOL_SIZE: '1' } })
    if (done.status !== 0) throw new Error(`the traced program failed: ${done.stderr}`)
    operations.push(...parse(readFileSync(trace, 'latin1'), resolve(root)))
    rmSync(trace)
  }
  return operations
}

function parse(text: string, root: string): Operation[] {
  const operations: Operation[] = []
  /** Calls of other threads may interleave: by thread, the part before the interruption. */
  const begun = new Map<string, string>()
  for (const line of text.split('\n')) {
    const [, thread, rest] = /^(\d+)\s+(.*)$/.exec(line) ?? []
    if (thread === undefined || rest === undefined) continue
    if (rest.endsWith('<unfinished ...>')) {
      begun.set(thread, rest.slice(0, -'<unfinished ...>'.length))
      continue
    }
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/.exec(rest)
    const call = /^(\w+)\((.*)\)\s+= (-?\d+)(.*)$/.exec(resumed ? (begun.get(thread) ?? '') + resumed[1] : rest)
    if (!call || Number(call[3]) < 0) continue
    for (const operation of toOperations(call[1]!, call[2]!.trim(), Number(call[3]), call[4]!)) {
      if (operation.kind === 'said' || isBelow(operation.path, root)) operations.push(operation)
    }
  }
  return operations
}

function isBelow(path: string, root: string): boolean {
  return (path === root || path.startsWith(`${root}/`)) && !path.endsWith('-shm')
}

function toOperations(name: string, words: string, result: number, after: string): Operation[] {
  const path = handleOf(words) ?? ''
  const texts = [...words.matchAll(/"((?:\\x[0-9a-f]{2})*)"/g)].map((found) => fromEscapes(found[1]!))
  const numbers = /(?:, (\d+))?, (\d+)$/.exec(words)
  switch (name) {
    case 'write':
      if (words.startsWith('1<'))
        return texts[0]!
          .toString()
          .split('\n')
          .filter(Boolean)
          .map((line) => ({ kind: 'said', line }))
      return [{ kind: 'write', path, offset: null, bytes: texts[0]!.subarray(0, result) }]
    case 'pwrite64':
      return [{ kind: 'write', path, offset: Number(numbers![2]), bytes: texts[0]!.subarray(0, result) }]
    case 'writev':
      return [{ kind: 'write', path, offset: null, bytes: Buffer.concat(texts).subarray(0, result) }]
    case 'pwritev':
      return [{ kind: 'write', path, offset: Number(numbers![2]), bytes: Buffer.concat(texts).subarray(0, result) }]
    case 'fsync':
    case 'fdatasync':
      return [{ kind: 'sync', path }]
    case 'ftruncate':
      return [{ kind: 'truncate', path, size: Number(numbers![2]) }]
    case 'fallocate':
      throw new Error('fallocate is not modelled: model it before trusting this test')
    case 'open':
    case 'openat':
      if (!words.includes('O_CREAT')) return []
      return [{ kind: 'create', path: handleOf(`0${after}`) ?? '', isEmptied: words.includes('O_TRUNC') }]
    case 'mkdir':
    case 'mkdirat':
      return [{ kind: 'folder', path: resolve(texts[0]!.toString()) }]
    case 'unlink':
    case 'unlinkat':
      return [{ kind: 'remove', path: resolve(texts[0]!.toString()) }]
    case 'rename':
    case 'renameat':
    case 'renameat2':
      return [{ kind: 'rename', path: resolve(texts[0]!.toString()), to: resolve(texts[1]!.toString()) }]
    default:
      return []
  }
}

/** With -y a handle is followed by its path. */
function handleOf(words: string): string | null {
  const found = /^\d+<((?:\\x[0-9a-f]{2})*)>/.exec(words)
  return found ? fromEscapes(found[1]!).toString() : null
}

function fromEscapes(text: string): Buffer {
  return Buffer.from(text.replaceAll('\\x', ''), 'hex')
}
