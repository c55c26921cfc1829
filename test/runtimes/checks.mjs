// Run by another runtime, from an installed package: `bun checks.mjs URL` prints one line of JSON per check, and
// `bun checks.mjs URL slice` those of the slice alone. `bun checks.mjs URL job FOLDER` is the process that a check kills.

import { spawn, spawnSync } from 'node:child_process'
import { appendFileSync, existsSync, mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { open } from 'reprise'
import { job } from 'reprise/job'
import { expect, models, runChecks } from './models.mjs'

const [, , url, part, folder] = process.argv
const self = fileURLToPath(import.meta.url)
const bin = fileURLToPath(new URL('node_modules/reprise/dist/cli/bin.cjs', import.meta.url))
/** Deno needs its permissions again in a child. */
const again = globalThis.Deno ? ['run', '-A'] : []

const items = Array.from({ length: 60 }, (_, i) => ({ id: `i${i}` }))
const slow = job('slow', {
  source: items,
  key: (item) => item.id,
  concurrency: 2,
  each: async (item) => {
    appendFileSync(join(folder ?? '', 'done.txt'), `${item.id}\n`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  },
})
const checks = {
  ...models,
  async 'jobs: kill -9 and resume'() {
    const place = mkdtempSync(join(tmpdir(), 'reprise-runtime-'))
    const done = () =>
      existsSync(join(place, 'done.txt')) ? readFileSync(join(place, 'done.txt'), 'utf8').trim().split('\n') : []
    for (let kills = 0; kills < 2; kills++) {
      const before = done().length
      const child = spawn(process.execPath, [...again, self, url, 'job', place], { stdio: 'ignore' })
      const exit = new Promise((resolve) => child.once('exit', resolve))
      while (done().length < before + 8 && child.exitCode === null)
        await new Promise((resolve) => setTimeout(resolve, 5))
      child.kill('SIGKILL')
      await exit
    }
    const { status } = spawnSync(process.execPath, [...again, self, url, 'job', place], { stdio: 'inherit' })
    expect(status, 0)
    expect(new Set(done()).size, items.length)
    if (done().length > items.length + 4) throw new Error(`${done().length - items.length} items were repeated`)
  },
  async 'command line: ls, doctor, verify'() {
    const doctor = spawnSync(process.execPath, [...again, bin, 'doctor', '--json', '--url', url], { encoding: 'utf8' })
    // The first line of the report: the file of the runtime that package.json chose.
    expect(JSON.parse(doctor.stdout).checks[0].name, globalThis.Bun ? 'bun' : globalThis.Deno ? 'deno' : 'node')
    for (const command of ['ls', 'doctor', 'verify']) {
      const { status, stderr } = spawnSync(process.execPath, [...again, bin, command, '--url', url], {
        encoding: 'utf8',
      })
      if (status !== 0) throw new Error(`${command} exited with ${status}: ${stderr}`)
    }
  },
}

if (part === 'job') {
  const rp = await open(url)
  await rp.run(slow).result()
  await rp.close()
  process.exit(0)
}

const slice = [
  'workflows: calls outside a step are refused',
  'jobs: kill -9 and resume',
  'command line: ls, doctor, verify',
]
const chosen = Object.entries(checks).filter(([check]) => part !== 'slice' || slice.includes(check))
await runChecks(url, Object.fromEntries(chosen), (checked) => console.log(JSON.stringify(checked)))
process.exit(0)
