// The programs that tests start and kill, each with the built library in one file: a process that loads one file starts in half
// the time of one that loads hundreds, and the tests start hundreds of them. Built on first use, and again after each build.

import { existsSync, mkdirSync, readdirSync, renameSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildSync } from 'esbuild'

const root = fileURLToPath(new URL('../..', import.meta.url))
const programs = join(root, 'test/programs')
// Two folders deep, like the library's own files: relative lookups work from here too.
const bundles = join(root, '.built/programs')
// Some of them run an example.
const examples = join(root, 'examples')
const library = join(root, 'dist/index.js')

/** @example spawn(process.execPath, [programPath('job-worker'), url]) */
export function programPath(name: string): string {
  if (!existsSync(library)) {
    throw new Error('child programs use the built library: run `npm run build` first (npm test does)')
  }
  const bundle = join(bundles, `${name}.mjs`)
  const sources = [programs, examples].flatMap((folder) => readdirSync(folder).map((file) => join(folder, file)))
  if (changedAt(bundle) <= changedAt(library, ...sources)) make(name, bundle)
  return bundle
}

function make(name: string, bundle: string): void {
  mkdirSync(bundles, { recursive: true })
  const own = `${bundle}.${process.pid}`
  buildSync({
    entryPoints: [join(programs, `${name}.mjs`)],
    outfile: own,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    packages: 'external',
    keepNames: true,
    logLevel: 'error',
  })
  // Whole or not at all: another test file may start it in this moment.
  renameSync(own, bundle)
}

function changedAt(...paths: readonly string[]): number {
  return Math.max(...paths.map((path) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0))
}
