// Builds the dashboard (dashboard/) into dist/dashboard: one page, its scripts, one style and an icon, each named by its
// content. Fails if the scripts together are larger, compressed, than a first view may cost.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'

const scriptsMaxBytes = 150_000
const root = fileURLToPath(new URL('..', import.meta.url))
const source = `${root}dashboard/`
const target = `${root}dist/dashboard/`

const { outputFiles } = await build({
  entryPoints: { app: `${source}src/main.tsx`, style: `${source}src/all.css`, icon: `${source}icon.svg` },
  bundle: true,
  minify: true,
  format: 'esm',
  // Code that only one screen needs is loaded when that screen is opened.
  splitting: true,
  target: ['chrome111', 'firefox113', 'safari16.4'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  loader: { '.svg': 'copy' },
  entryNames: '[name]-[hash]',
  chunkNames: 'chunk-[hash]',
  outdir: `${target}assets`,
  write: false,
  legalComments: 'none',
  logLevel: 'warning',
})

const files = outputFiles.map(({ path, contents }) => ({ name: basename(path), contents }))
const named = (start) => `assets/${files.find(({ name }) => name.startsWith(start)).name}`

rmSync(target, { recursive: true, force: true })
mkdirSync(`${target}assets`, { recursive: true })
for (const { name, contents } of files) writeFileSync(`${target}assets/${name}`, contents)
const page = readFileSync(`${source}index.html`, 'utf8')
  .replace('%ICON%', named('icon-'))
  .replace('%STYLE%', named('style-'))
  .replace('%SCRIPT%', named('app-'))
writeFileSync(`${target}index.html`, page)

const packedBytes = (contents) => gzipSync(contents).length
const scripts = files.filter(({ name }) => name.endsWith('.js'))
const packed = scripts.reduce((sum, { contents }) => sum + packedBytes(contents), 0)
if (packed > scriptsMaxBytes) {
  console.error(`the dashboard's scripts have ${packed} bytes compressed, and may have ${scriptsMaxBytes}`)
  process.exit(1)
}
if (process.argv.includes('--sizes')) {
  for (const { name, contents } of files) {
    console.log(`${name} ${contents.length} bytes, ${packedBytes(contents)} compressed`)
  }
}
