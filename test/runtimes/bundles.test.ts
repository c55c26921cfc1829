// A program with the package inside: bundled by esbuild and by Vite, and as a single binary of Bun and of Deno. Each is killed
// twice and then ends its job. `deno compile` downloads the program `denort`, or takes that of DENORT_BIN: only
// `npm run test:runtimes` does this, and it skips with the reason where it cannot.

import { spawn, spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build as esbuild } from 'esbuild'
import { build as vite } from 'vite'
import { expect, it } from 'vitest'
import { temporaryFolder, until } from '../support/fixture.ts'
import { bun, deno, installPackage, programOf } from '../support/runtimes.ts'

const source = fileURLToPath(new URL('program.mjs', import.meta.url))
const folder = temporaryFolder('bundles')
// A bundle has no native files: before Node 22.13 the SQLite driver is installed beside it.
symlinkSync(fileURLToPath(new URL('../../node_modules', import.meta.url)), join(folder, 'node_modules'))
const requiring =
  "import { createRequire as requireIn } from 'node:module'; const require = requireIn(import.meta.url);"

/** Each returns the command that runs the program; null: it cannot be made here. */
const bundlers: Readonly<Record<string, (out: string) => Promise<readonly string[] | null>>> = {
  async esbuild(out) {
    return [process.execPath, await byEsbuild(`${out}.mjs`, [])]
  },
  async 'esbuild for Deno'(out) {
    const program = programOf(deno)
    return program ? [program, 'run', '-A', await byEsbuild(`${out}.mjs`, ['deno'])] : null
  },
  async vite(out) {
    await vite({
      root: dirname(source),
      configFile: false,
      logLevel: 'error',
      ssr: { noExternal: true, external: ['pg', 'pg-native', 'aws4fetch'] },
      build: { ssr: source, outDir: `${out}.out`, rolldownOptions: { output: { entryFileNames: 'program.mjs' } } },
    })
    return [process.execPath, `${out}.out/program.mjs`]
  },
  async 'bun build --compile'(out) {
    const program = programOf(bun)
    if (!program) return null
    const { status, stderr } = spawnSync(program, ['build', '--compile', source, '--outfile', out], {
      encoding: 'utf8',
    })
    expect(status, stderr).toBe(0)
    return [out]
  },
  async 'deno compile'(out) {
    const program = process.env.REPRISE_RUNTIMES === 'all' ? programOf(deno) : null
    if (!program) return null
    const place = temporaryFolder('deno-compile')
    installPackage(place)
    copyFileSync(source, join(place, 'program.mjs'))
    const args = ['compile', '-A', '--no-check', '-o', out, 'program.mjs']
    const { status, stderr } = spawnSync(program, args, { cwd: place, encoding: 'utf8' })
    if (status !== 0 && stderr.includes('denort')) {
      console.warn(`deno compile is left out: ${/error sending request.*/.exec(stderr)?.[0] ?? stderr}`)
      return null
    }
    expect(status, stderr).toBe(0)
    return [out]
  },
}

async function byEsbuild(outfile: string, conditions: string[]): Promise<string> {
  const options = { bundle: true, format: 'esm', platform: 'node', banner: { js: requiring } } as const
  await esbuild({ entryPoints: [source], outfile, conditions, external: ['pg'], logLevel: 'error', ...options })
  return outfile
}

it.each(Object.keys(bundlers))('E1: a program of %s is killed twice, and ends its job', async (name) => {
  const out = join(folder, name.replaceAll(/\W/g, '-'))
  const command = await bundlers[name]!(out)
  if (!command) return
  const file = `${out}.done`
  const done = () => (existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [])
  const args = [...command.slice(1), `sqlite:${out}.db`, file]
  for (let kills = 0; kills < 2; kills++) {
    const before = done().length
    const child = spawn(command[0]!, args, { stdio: ['ignore', 'ignore', 'inherit'] })
    const ended = new Promise((resolve) => child.once('exit', resolve))
    await until(() => done().length >= before + 8, ended)
    child.kill('SIGKILL')
    await ended
  }
  const { status, stderr } = spawnSync(command[0]!, args, { encoding: 'utf8' })
  expect([status, stderr]).toEqual([0, ''])
  expect(new Set(done()).size).toBe(60)
  expect(done().length).toBeLessThanOrEqual(60 + 4)
})
