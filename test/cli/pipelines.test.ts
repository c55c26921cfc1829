// Pipelines at the command line: run, stopped with a savepoint by Ctrl-C, looked into, and refused where another verb is right.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { cli, json, live, workFolder } from './support.ts'

let folder: ReturnType<typeof workFolder>
beforeEach(() => {
  folder = workFolder()
})
afterEach(() => folder.remove())

const module = `
import { count, generatedSource, pipeline, printSink, tumbling } from 'reprise/pipeline'
const total = Number(process.env.TOTAL ?? Infinity)
export const minutes = pipeline('minutes', (p) => {
  p.from('ticks', generatedSource((n) => n, { count: total }), { time: (n) => n * 1000 })
    .filter((n) => { if (n === 7) throw new Error('seven'); return true })
    .keyBy((n) => \`even-\${n % 2 === 0}\`)
    .window('per-minute', tumbling('1m'))
    .aggregate(count())
    .filter(({ start }) => start === 0)
    .to('lines', printSink(({ key, value }) => \`\${key} \${value}\`))
})
`

it('stops with a savepoint at Ctrl-C, resumes, and shows its state and its dead letters', async () => {
  const cwd = folder.path
  writeFileSync(join(cwd, 'minutes.mjs'), module)
  const interrupt = { after: /records/, signals: ['SIGINT'] as const }
  const first = await cli(['run', 'minutes.mjs', '--report', 'json'], { cwd, interrupt })
  expect(first).toMatchObject({ code: 130, signal: null })
  expect(first.stdout).toContain('even-true 30')
  expect(first.stdout).toContain('even-false 29')
  expect(first.stdout).toContain('minutes: stopped')
  expect(first.stderr).toContain('reprise run minutes.mjs minutes')
  expect(JSON.parse(first.stderr.split('\n').find((line) => line.startsWith('{'))!)).toMatchObject({
    status: 'running',
  })
  const state = await cli(['state', 'get', 'minutes', 'per-minute', 'even-true', '--json'], { cwd })
  expect(JSON.parse(state.stdout)).toMatchObject([{ table: 'windows', key: 'even-true' }])
  const listed = JSON.parse((await cli(['checkpoints', 'minutes', '--json'], { cwd })).stdout) as { id: string }[]
  const diff = ['state', 'diff', 'minutes', 'per-minute', 'even-true', '--json']
  const same = await cli([...diff, '--before', listed[0]!.id], { cwd })
  expect([same.code, JSON.parse(same.stdout)]).toEqual([0, []])
  expect((await cli(diff, { cwd })).stderr).toContain('--before CHECKPOINT')
  const dead = await cli(['dead', '--json'], { cwd })
  expect(JSON.parse(dead.stdout)).toMatchObject([
    { timeline: 'pipeline/minutes', item: 7, error: { message: 'in filter#1: seven' } },
  ])
  const rollback = await cli(['rollback', 'pipeline/minutes@0', '--yes'], { cwd })
  expect(rollback.stderr).toContain('{ from: CHECKPOINT }')
  // A source that has fewer records than were read has none left: it ends at once, and shows nothing twice.
  const second = await cli(['resume', 'minutes', '--report', 'none'], { cwd, env: { TOTAL: '1' } })
  expect(second).toMatchObject({ code: 3, signal: null })
  expect(second.stdout).toMatch(/^minutes: completed/)
})

it('one that was stopped or cancelled from elsewhere exits with 130, and resume continues just that run', async () => {
  const cwd = folder.path
  writeFileSync(join(cwd, 'minutes.mjs'), module)
  for (const [verb, status] of [
    ['stop', 'stopped'],
    ['cancel', 'cancelled'],
  ] as const) {
    const run = live(['run', 'minutes.mjs', '--id', verb, '--report', 'json'], { cwd })
    await run.until(/"records":[1-9]/)
    expect((await cli([verb, `minutes/${verb}`], { cwd })).code).toBe(0)
    const ended = await run.ended
    expect(ended).toMatchObject({ code: 130, signal: null })
    expect(ended.stdout).toContain(`minutes: ${status}`)
    expect(ended.stderr).toContain(`reprise run minutes.mjs minutes --id ${verb}`)
    const { value } = await json(['show', `minutes/${verb}`], { cwd })
    expect(value).toMatchObject({ status, summary: { stage: status } })
    const again = await cli(['resume', `minutes/${verb}`, '--report', 'none'], { cwd, env: { TOTAL: '1' } })
    expect(again).toMatchObject({ code: 3, stdout: expect.stringMatching(/^minutes: completed/) })
  }
  const { value } = await json<{ timeline: string; status: string }[]>(['ls'], { cwd })
  expect(value.map(({ timeline, status }) => [timeline, status])).toEqual([
    ['pipeline/minutes/cancel', 'completed'],
    ['pipeline/minutes/stop', 'completed'],
  ])
})

it('a completed one gets no prompt, and its remedy works: it is forked at an earlier place', async () => {
  const cwd = folder.path
  writeFileSync(join(cwd, 'minutes.mjs'), module)
  const run = (...more: string[]) =>
    cli(['run', 'minutes.mjs', '--report', 'none', ...more], { cwd, env: { TOTAL: '65' } })
  const first = await run()
  expect(first.code).toBe(3)
  const asked = await cli(['terminate', 'minutes'], { cwd })
  expect(asked).toMatchObject({ code: 6, stderr: expect.stringMatching(/^ENDED .* had already ended: completed/) })
  expect(asked.stderr).toContain('fork it')
  expect(asked.stderr).not.toMatch(/Continue\?|run restarts it/)
  // A second run reports completion and prints nothing twice.
  expect((await run()).stdout).toBe('minutes: completed, 65 records in all\n')
  expect((await cli(['fork', 'pipeline/minutes@0', 'pipeline/minutes/b'], { cwd })).code).toBe(0)
  expect((await run('--id', 'b')).stdout).toBe(first.stdout)
})
