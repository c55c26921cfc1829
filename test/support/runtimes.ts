// Other runtimes, which npm installs into a cache that test runs share. Where npm cannot, the reason is printed and the runtime
// is skipped.

import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run } from './parts.ts'

export interface Runtime {
  readonly name: string
  readonly spec: string
  /** Packages that it needs beside it. Its other peers are not installed. */
  readonly beside?: readonly string[]
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

/** The library that starts workerd. */
export const miniflare: Runtime = {
  name: 'workerd',
  spec: 'miniflare@4.20260426.0',
  programs: ['miniflare/dist/src/index.js'],
}

/** PostgreSQL in WebAssembly, behind a socket. */
export const pglite: Runtime = {
  name: 'PGlite',
  spec: '@electric-sql/pglite-socket@0.2.17',
  beside: ['@electric-sql/pglite@0.5.14'],
  programs: ['@electric-sql/pglite-socket/dist/index.js'],
}

/** Installs the package as users get it, from its packed tarball, and other packages beside it. */
export function installPackage(folder: string, others: readonly string[] = []): void {
  const root = fileURLToPath(new URL('../..', import.meta.url))
  const failed = run('npm', ['pack', '--silent', '--pack-destination', folder], root)
  if (failed !== null) throw new Error(`npm pack: ${failed}`)
  const tarball = join(folder, readdirSync(folder).find((name) => name.endsWith('.tgz'))!)
  writeFileSync(join(folder, 'package.json'), '{"private":true,"type":"module"}')
  const refused = run('npm', ['install', tarball, ...others, ...quiet], folder)
  if (refused !== null) throw new Error(`npm install: ${refused}`)
}

const quiet = ['--no-audit', '--no-fund', '--loglevel=error']

/** Null where npm has no program for this machine. */
export function programOf({ spec, programs, beside = [] }: Runtime): string | null {
  const home = join(tmpdir(), `reprise-runtime-${spec.replaceAll(/[@/]+/g, '-')}`)
  const find = () => programs.map((path) => join(home, 'node_modules', path)).find((path) => existsSync(path)) ?? null
  if (find()) return find()
  mkdirSync(home, { recursive: true })
  writeFileSync(join(home, 'package.json'), '{"private":true}')
  const failed = run('npm', ['install', spec, ...beside, '--legacy-peer-deps', ...quiet], home)
  if (!find()) console.warn(`${spec} is left out: ${failed ?? 'npm brought no program'}`)
  return find()
}
