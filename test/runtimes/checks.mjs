// Run by another runtime, from an installed package: `bun checks.mjs URL` prints one line of JSON per check, and
// `bun checks.mjs URL slice` those of the slice alone. `bun checks.mjs URL job FOLDER` and `… order FOLDER` are the
// processes that checks kill.

import { spawn, spawnSync } from 'node:child_process'
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { open } from 'reprise'
import { job } from 'reprise/job'
import { table } from 'reprise/table'
import { crashEverywhere } from 'reprise/testing'
import { workflow } from 'reprise/workflow'
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
const places = table('places')
const order = workflow('order', async (ctx) => {
  for (const { id } of items) {
    await ctx.step(id, async () => {
      appendFileSync(join(folder ?? '', 'done.txt'), `${id}\n`)
      await new Promise((resolve) => setTimeout(resolve, 10))
    })
  }
  return items.length
})
/** The work of a killed process until its end. */
const programs = {
  job: async (rp) => await rp.run(slow).result(),
  async order(rp) {
    const rows = await rp.open(places)
    await (await rp.run(order, { id: 'one' })).result()
    await rows.transaction((tx) => {
      for (const { id } of items) tx.set(id, { id })
    })
  },
}

/** Kills the program twice in the middle of its 60 effects, and lets the third process end it. */
async function killAndResume(program) {
  const place = mkdtempSync(join(tmpdir(), 'reprise-checks-'))
  const args = [...again, self, url, program, place]
  const done = () =>
    existsSync(join(place, 'done.txt')) ? readFileSync(join(place, 'done.txt'), 'utf8').trim().split('\n') : []
  for (let kills = 0; kills < 2; kills++) {
    const before = done().length
    const child = spawn(process.execPath, args, { stdio: 'ignore' })
    const exit = new Promise((resolve) => child.once('exit', resolve))
    while (done().length < before + 8 && child.exitCode === null) await new Promise((resolve) => setTimeout(resolve, 5))
    child.kill('SIGKILL')
    await exit
  }
  expect(spawnSync(process.execPath, args, { stdio: 'inherit' }).status, 0)
  expect(new Set(done()).size, items.length)
  if (done().length > items.length + 4) throw new Error(`${done().length - items.length} items were repeated`)
  rmSync(place, { recursive: true, force: true })
}

function cli(...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [...again, bin, ...args], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${args[0]} exited with ${status}: ${stderr}`)
  return stdout
}

const checks = {
  ...models,
  async 'workflows: a crash at every point'() {
    const pay = workflow('pay', async (ctx, sum) => {
      const paid = await ctx.step('pay', async () => sum)
      await ctx.sleep('1h')
      return paid + (await ctx.step('thank', async () => 1))
    })
    const { undisturbed, crashes } = await crashEverywhere(
      async (kit) => await kit.result(await kit.run(pay, 3, { id: '1' })),
    )
    expect([undisturbed, ...new Set(crashes.map(({ outcome }) => outcome))], [4, 4])
    if (crashes.length < 8) throw new Error(`only ${crashes.length} points`)
  },
  'jobs: kill -9 and resume': () => killAndResume('job'),
  async 'workflows and tables: kill -9 and resume'(rp) {
    await killAndResume('order')
    expect((await rp.open(places)).get('i59'), { id: 'i59' })
  },
  async 'command line: ls, doctor, verify'() {
    const { checks } = JSON.parse(cli('doctor', '--json', '--url', url))
    // The file of the runtime that package.json chose.
    expect(checks[0].name, globalThis.Bun ? 'bun' : globalThis.Deno ? 'deno' : 'node')
    for (const command of ['ls', 'verify']) cli(command, '--url', url)
  },
  async 'command line: demo, killed twice'() {
    const { lost, kills } = JSON.parse(cli('demo', '--items', '200', '--kills', '2', '--json'))
    expect([lost, kills], [0, 2])
  },
}

if (programs[part]) {
  const rp = await open(url)
  await programs[part](rp)
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
