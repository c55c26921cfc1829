// Other runtimes, which npm brings into a cache that test runs share. Where npm cannot, the reason is printed and the runtime is
// left out.

import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from './parts.ts'

export interface Runtime {
  readonly name: string
  readonly spec: string
  /** Paths of its program below node_modules: npm may or may not run install scripts. */
  readonly programs: readonly string[]
  readonly args?: readonly string[]
}

const platform = `${process.platform}-${process.arch}`

export const nodeAt = (version: string): Runtime => ({
  name: `Node ${version}`,
  spec: `node@${version}`,
  programs: ['node/bin/node', `node-bin-${platform}/bin/node`, `node-${platform}/bin/node`],
})

export const bun: Runtime = {
  name: 'Bun 1.4',
  spec: 'bun@1.4.4',
  programs: [`@oven/bun-${platform}/bin/bun`, 'bun/bin/bun.exe'],
}

export const deno: Runtime = {
  name: 'Deno 2.9',
  spec: 'deno@2.9.6',
  programs: [`@deno/${platform}-glibc/deno`, 'deno/deno'],
  args: ['run', '-A'],
}

/** Null where npm brings no program for this machine. */
export function programOf({ spec, programs }: Runtime): string | null {
  const home = join(tmpdir(), `reprise-runtime-${spec.replace('@', '-')}`)
  const find = () => programs.map((path) => join(home, 'node_modules', path)).find((path) => existsSync(path)) ?? null
  if (find()) return find()
  mkdirSync(home, { recursive: true })
  writeFileSync(join(home, 'package.json'), '{"private":true}')
  const failed = run('npm', ['install', spec, '--no-audit', '--no-fund', '--loglevel=error'], home)
  if (!find()) console.warn(`${spec} is left out: ${failed ?? 'npm brought no program'}`)
  return find()
}
