// Writes `lib`, which the package ships: the compiled files of `dist` joined into a few. Node needs a third of a millisecond for
// each file of a module, so importing a kernel of 280 files took longer than the start of Node. Code that several entries use is
// in shared files, so a program and the command line have the same classes.

import { copyFileSync, readFileSync, rmSync } from 'node:fs'
import { dirname, isAbsolute, join, posix, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

const root = fileURLToPath(new URL('..', import.meta.url))
const dist = join(root, 'dist/')
const lib = join(root, 'lib/')

const { exports, imports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const library = Object.values(exports).flatMap((entry) => (entry.default ? entry.default.slice('./lib/'.length) : []))
/** Files that are started by their path. */
const programs = ['cli/main.js', 'cli/thread.js', 'cli/commands/demo-child.js', 'cli/stage-thread.js']
/** One file per runtime: the conditions of `#runtime` choose one of them. */
const runtimes = Object.entries(imports['#runtime']).flatMap(([condition, path]) =>
  condition === 'types' ? [] : path.slice('./lib/'.length),
)
const launchers = ['cli/bin.cjs', 'cli/start.cjs']

const partOf = parts()
const bundle = await rolldown({
  input: Object.fromEntries(
    [...library, ...programs, ...runtimes].map((path) => [path.slice(0, -'.js'.length), dist + path]),
  ),
  platform: 'node',
  preserveEntrySignatures: 'allow-extension',
  external: (id) => !id.startsWith('.') && !isAbsolute(id),
  // Programs that need only some of the models import them one by one.
  checks: { ineffectiveDynamicImport: false },
  plugins: [{ name: 'places', transform: markPlaces, renderChunk: namePlaces }],
})
rmSync(lib, { recursive: true, force: true })
await bundle.write({
  dir: lib,
  format: 'esm',
  // People read the stack traces, and neither shorter names nor less white space made it measurably faster.
  minify: false,
  comments: false,
  entryFileNames: '[name].js',
  chunkFileNames: 'parts/[name]-[hash].js',
  codeSplitting: {
    includeDependenciesRecursively: false,
    groups: [{ debugName: 'parts', name: (path) => partOf.get(inDist(path)) ?? null }],
  },
})
for (const name of launchers) copyFileSync(dist + name, lib + name)

/**
 * The modules that share a file: the kernel as a program that imports `reprise` needs it, the stores, and workflows. Other
 * modules are grouped by their importers: one file per model slowed down `reprise ls`, which needs a little of every model.
 * Modules that are loaded on demand, by `import()`, stay apart.
 */
function parts() {
  const found = new Map()
  const add = (name, modules) => {
    for (const each of modules) if (!found.has(each)) found.set(each, name)
  }
  add('kernel', reachable('index.js'))
  for (const folder of ['stores/sqlite', 'stores/postgres', 'layers/workflow']) {
    const own = reachable(`${folder}/index.js`).filter((each) => each.startsWith(`${folder}/`))
    add(posix.basename(folder), own)
  }
  return found
}

/** The module and its static imports. */
function reachable(path, seen = new Set()) {
  if (!seen.has(path)) {
    seen.add(path)
    const text = readFileSync(dist + path, 'utf8')
    for (const [, other] of text.matchAll(/^(?:(?:import|export) [^'"();=]*?from |import )'(\.{1,2}\/[^']+)'/gm)) {
      reachable(posix.join(posix.dirname(path), other), seen)
    }
  }
  return [...seen]
}

/** A module resolves relative paths from the place of its own file, not from that of the bundle. */
function markPlaces(code, path) {
  if (!code.includes('import.meta.url')) return null
  return code.replaceAll('import.meta.url', `__placeInPackage(${JSON.stringify(inDist(path))})`)
}

function namePlaces(code, { fileName }) {
  return code.replaceAll(/__placeInPackage\("([^"]+)"\)/g, (_, place) => {
    const from = relative(dirname(fileName), place).replaceAll('\\', '/')
    // Not `new URL('…', import.meta.url)`: webpack and Turbopack take it for a file that they must find, Turbopack also through
    // a function, and no such file is shipped.
    return `(import.meta.url.replace(/[^/]*$/, '') + ${JSON.stringify(from)})`
  })
}

function inDist(path) {
  return path.slice(dist.length).replaceAll('\\', '/')
}
