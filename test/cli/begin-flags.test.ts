// A pipeline whose code changed: `ls`, `show` and `doctor` show the reason, and the advice of its error works in `run`, `work`
// and `resume`. Options of every command may precede it.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { cli, live, workFolder } from './support.ts'

let folder: ReturnType<typeof workFolder>
beforeEach(() => {
  folder = workFolder()
})
afterEach(() => folder.remove())

/** Reads forever, unless TOTAL is set; OUT is the name of its sink. */
const module = `
import { collectSink, pipeline } from 'reprise/pipeline'
const total = Number(process.env.TOTAL ?? Infinity)
const ticks = {
  partitions: async () => ['0', '1'],
  async open(from, { signal, partitions }) {
    const own = partitions ?? ['0', '1']
    const at = new Map(own.map((name) => [name, Number(from?.get(name) ?? 0)]))
    return {
      partitions: () => own,
      close: async () => undefined,
      async read() {
        await new Promise((resolve) => setTimeout(resolve, 2))
        for (const [partition, n] of at) {
          if (signal.aborted || n >= total) continue
          at.set(partition, n + 1)
          return { partition, values: [n], position: n + 1 }
        }
        return null
      },
    }
  },
}
export const ticking = pipeline('ticking', (p) => {
  p.from('ticks', ticks).to(process.env.OUT ?? 'out', collectSink())
}, { checkpoint: { every: '50ms' } })
`

const changes = '{"rename":{"out":"results"}}'

it('run: the reason is shown until --changes mends it; --from goes back, --wait and --takeover take it from another', async () => {
  const cwd = folder.path
  writeFileSync(join(cwd, 'ticking.mjs'), module)
  const run = ['run', 'ticking.mjs', '--report', 'json']
  const interrupt = { after: /"checkpoint":[1-9]/, signals: ['SIGINT'] as const }
  expect(await cli(run, { cwd, interrupt })).toMatchObject({ code: 130 })
  expect((await cli(['doctor'], { cwd })).code).toBe(0)
  const env = { OUT: 'results' }
  const failed = await cli(run, { cwd, env })
  expect(failed.code).toBe(2)
  expect(failed.stderr).toContain('{ changes }')
  expect(failed.stderr).toContain('Here: --changes JSON')
  expect((await cli(['ls'], { cwd })).stdout).toMatch(/REASON\n.*pipeline\/ticking +failed .*the code and its newest/s)
  expect((await cli(['show', 'ticking'], { cwd })).stdout).toMatch(/reason +failed .*the code and its newest/)
  const doctor = await cli(['doctor', '--json'], { cwd })
  expect(doctor.code).toBe(1)
  const bad = (JSON.parse(doctor.stdout) as { checks: { name: string; state: string; what: string }[] }).checks
  expect(bad.filter(({ state }) => state === 'bad')).toMatchObject([
    { name: 'work', what: expect.stringContaining('pipeline/ticking failed') },
  ])
  const mended = await cli(['resume', 'ticking', '--changes', changes, '--report', 'none'], {
    cwd,
    env: { ...env, TOTAL: '1' },
  })
  expect([mended.code, mended.stdout]).toEqual([0, expect.stringMatching(/^ticking: completed/)])
  expect(await cli(['doctor'], { cwd })).toMatchObject({ code: 0 })
  // Back to its first checkpoint, with another process in its way.
  const listed = JSON.parse((await cli(['--json', 'checkpoints', 'ticking'], { cwd })).stdout) as { id: string }[]
  const from = ['--from', listed.at(-1)!.id, '--changes', changes]
  const busy = live([...run, ...from], { cwd, env })
  await busy.until(/"status":"running"/)
  const owned = await cli([...run, ...from], { cwd, env })
  expect(owned).toMatchObject({ code: 6 })
  expect(owned.stderr).toContain('--takeover')
  expect((await cli([...run, '--wait', '10ms'], { cwd, env })).code).toBe(6)
  const taking = live([...run, '--takeover'], { cwd, env })
  const displaced = await busy.ended
  expect([displaced.code, displaced.stderr]).toEqual([6, expect.stringContaining('FENCED')])
  await taking.end('SIGINT')
})

it('work: tasks of changed code name the reason, and take --changes and --from', async () => {
  const cwd = folder.path
  writeFileSync(join(cwd, 'ticking.mjs'), module)
  const first = live(['work', 'ticking.mjs'], { cwd })
  await first.until(/working on/)
  const heads = async () =>
    JSON.parse((await cli(['--url', 'sqlite:.reprise/reprise.db', 'ls', '--json'], { cwd })).stdout) as {
      readonly timeline: string
      readonly seq: number
      readonly failure: { readonly reason: string; readonly attempts: number } | null
    }[]
  const tasksOf = (all: Awaited<ReturnType<typeof heads>>) => all.filter(({ timeline }) => timeline.includes('@'))
  const until = async (isMet: (all: Awaited<ReturnType<typeof heads>>) => boolean) => {
    for (;;) {
      const found = tasksOf(await heads().catch(() => []))
      if (isMet(found)) return found
    }
  }
  await until((all) => all.length === 2 && all.every(({ seq }) => seq > 2))
  await first.end('SIGINT')
  const env = { OUT: 'results' }
  const second = live(['work', 'ticking.mjs'], { cwd, env })
  const failing = await until((all) => all.every(({ failure }) => (failure?.attempts ?? 0) > 1))
  expect(failing[0]!.failure!.reason).toContain('results')
  expect(second.said()).toContain('the code and its newest checkpoint do not match')
  expect((await cli(['doctor'], { cwd })).code).toBe(1)
  // The name of the pipeline is enough to see which of its tasks fail, and why.
  const shown = (await cli(['show', 'ticking'], { cwd })).stdout
  expect(shown.match(/^reason +pipeline\/ticking\/@\S+ failed .*results/gm)).toHaveLength(2)
  await second.end('SIGINT')
  const third = live(['work', 'ticking.mjs', '--changes', changes, '--from', new Date().toISOString()], { cwd, env })
  await until((all) => all.every(({ failure }) => failure === null))
  await third.end('SIGINT')
  expect((await cli(['work', 'ticking.mjs', '--from', '0123456789abcdef'], { cwd })).stderr).toContain('must be a time')
})
