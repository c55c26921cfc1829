// Makes the package that `package.ts` names: the built library and command line, in a few dozen files and not in hundreds.
// node bundle-package.mjs FOLDER

import { copyFileSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build } from 'esbuild'

const folder = process.argv[2]
const root = fileURLToPath(new URL('../..', import.meta.url))
const dist = join(root, 'dist')
const own = `${folder}.${process.pid}`

const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const library = Object.values(exports).flatMap((entry) => entry.default ?? [])
const programs = ['dist/cli/main.js', 'dist/cli/thread.js', 'dist/cli/commands/demo-child.js']
// What is shared lies in files that are shared: whoever imports the library gets the one that the command line uses.
await build({
  entryPoints: [...library, ...programs].map((path) => join(root, path)),
  outbase: dist,
  outdir: join(own, 'dist'),
  chunkNames: 'parts/[hash]',
  bundle: true,
  splitting: true,
  platform: 'node',
  format: 'esm',
  target: 'node20',
  packages: 'external',
  keepNames: true,
  logLevel: 'error',
  plugins: [{ name: 'places', setup: keepPlaces }],
})
for (const name of ['bin.cjs', 'start.cjs']) copyFileSync(join(dist, 'cli', name), join(own, 'dist/cli', name))
for (const name of ['docs', 'dist/dashboard', 'node_modules']) symlinkSync(join(root, name), join(own, name))
copyFileSync(join(root, 'package.json'), join(own, 'package.json'))

// Whole or not at all: another test file may make it in this moment, and then it has it.
try {
  renameSync(own, folder)
} catch (error) {
  if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
  rmSync(own, { recursive: true })
}

/** A module finds what lies beside it where it would lie if it were a file of its own. */
function keepPlaces({ onLoad }) {
  onLoad({ filter: /[/\\]dist[/\\].*\.js$/ }, ({ path }) => {
    const text = readFileSync(path, 'utf8')
    if (!path.startsWith(dist) || !text.includes('import.meta.url')) return undefined
    const place = pathToFileURL(join(folder, path.slice(root.length))).href
    return { contents: text.replaceAll('import.meta.url', JSON.stringify(place)), loader: 'js' }
  })
}
