// Makes `lib`, which is what the package ships: the compiled files of `dist` joined into a few. Node takes a third of a
// millisecond for each file of a module, and a kernel in 280 of them took longer to import than Node takes to start. What
// entries share lies in files that they share, so whoever imports the library has the classes that the command line has.

import { copyFileSync, readFileSync, rmSync } from 'node:fs'
import { dirname, isAbsolute, join, posix, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

const root = fileURLToPath(new URL('..', import.meta.url))
const dist = join(root, 'dist/')
const lib = join(root, 'lib/')

const { exports, imports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const library = Object.values(exports).flatMap((entry) => (entry.default ? entry.default.slice('./lib/'.length) : []))
/** Files that are started as such, by their path. */
const programs = ['cli/main.js', 'cli/thread.js', 'cli/commands/demo-child.js']
/** One per runtime; its conditions choose one of them, so each is a file of its own. */
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
  // Models are imported one by one by those who may need only some of them.
  checks: { ineffectiveDynamicImport: false },
  plugins: [{ name: 'places', transform: markPlaces, renderChunk: namePlaces }],
})
rmSync(lib, { recursive: true, force: true })
await bundle.write({
  dir: lib,
  format: 'esm',
  // Stack traces are read by people, and neither shorter names nor fewer spaces made it measurably faster.
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
 * Which modules lie in one file: the kernel as a program that imports `reprise` needs it, the stores, and workflows. The rest
 * is cut by who needs it: a file for each model made `reprise ls` slower, which needs a little of all of them. What is loaded
 * when it is asked for, by `import()`, stays apart.
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

/** It, and all that it imports at once. */
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

/** A module finds what lies beside it where it would lie if it were a file of its own. */
function markPlaces(code, path) {
  if (!code.includes('import.meta.url')) return null
  return code.replaceAll('import.meta.url', `__placeInPackage(${JSON.stringify(inDist(path))})`)
}

function namePlaces(code, { fileName }) {
  return code.replaceAll(/__placeInPackage\("([^"]+)"\)/g, (_, place) => {
    const from = relative(dirname(fileName), place).replaceAll('\\', '/')
    // Not `new URL('…', import.meta.url)`: webpack and Turbopack take that for a file which they must find, the latter also
    // through a function, and no such file is shipped.
    return `(import.meta.url.replace(/[^/]*$/, '') + ${JSON.stringify(from)})`
  })
}

function inDist(path) {
  return path.slice(dist.length).replaceAll('\\', '/')
}
