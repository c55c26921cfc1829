// A pipeline whose partitions several threads of one command share: stopped and run again, killed in the middle, and refused
// where threads could not share it. The user's table is counted by plain SQL.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from '@photostructure/sqlite'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { until } from '../support/fixture.ts'
import { cli, live, workFolder } from './support.ts'

let folder: ReturnType<typeof workFolder>
beforeEach(() => {
  folder = workFolder()
  writeFileSync(join(folder.path, 'clicks.mjs'), module)
})
afterEach(() => folder.remove())

const [partitions, records] = [4, 150]

/** A few records at a time, so that the test observes it while it works; the table names the thread of each. */
const module = `
import { threadId } from 'node:worker_threads'
import { count, generatedSource, pipeline, rowSink } from 'reprise/pipeline'
const inner = generatedSource((n, part) => ({ n, part }), { count: ${records}, partitions: ${partitions} })
const slowly = {
  partitions: (context) => inner.partitions(context),
  async open(from, context) {
    const reader = await inner.open(from, context)
    return {
      partitions: () => reader.partitions(),
      close: () => reader.close(),
      async read() {
        await new Promise((resolve) => setTimeout(resolve, Number(process.env.PAUSE ?? 10)))
        return reader.read(5)
      },
    }
  },
}
if (process.env.FAULT && threadId > 0) throw new Error('no thread can load this')
export const clicks = pipeline('clicks', (p) => {
  p.from('ticks', slowly, { keyed: true })
    .keyBy(({ n, part }) => \`\${part}-\${n % 3}\`)
    .aggregate('nth', count())
    .to('seen', rowSink({
      table: 'seen',
      row: ({ key, value }) => ({ key, nth: value, thread: threadId }),
      setup: 'CREATE TABLE IF NOT EXISTS seen (key TEXT, nth INTEGER, thread INTEGER)',
    }))
}, { checkpoint: { every: '50ms' } })
export const crossing = pipeline('crossing', (p) => {
  p.from('ticks', slowly)
    .keyBy(({ n, part }) => \`\${part}-\${n % 3}\`)
    .aggregate('nth', count())
    .map((result) => ({ ...result, thread: threadId }))
    .to('seen', rowSink({
      table: 'seen',
      row: ({ key, value, thread }) => ({ key, nth: value, thread }),
      setup: 'CREATE TABLE IF NOT EXISTS seen (key TEXT, nth INTEGER, thread INTEGER)',
    }))
}, { checkpoint: { every: '50ms' } })
`

function seen(): { readonly rows: readonly string[]; readonly threads: number } {
  const db = new DatabaseSync(join(folder.path, '.reprise/reprise.db'), { readOnly: true, timeout: 5000 })
  const found = db.prepare('SELECT key, nth, thread FROM seen').all() as { key: string; nth: number; thread: number }[]
  db.close()
  return {
    rows: found.map(({ key, nth }) => `${key} ${nth}`).sort(),
    threads: new Set(found.map(({ thread }) => thread)).size,
  }
}

const wanted = Array.from({ length: partitions * records }, (_, i) => {
  const [part, n] = [Math.floor(i / records), i % records]
  return `${part}-${n % 3} ${Math.floor(n / 3) + 1}`
}).sort()

it('threads share the partitions, stop with savepoints at Ctrl-C, outlive kill -9, and have every record once', async () => {
  const cwd = folder.path
  const first = live(['run', 'clicks.mjs', 'clicks', '--threads', '2', '--report', 'json'], {
    cwd,
    env: { PAUSE: '1000' },
  })
  await first.until(/"records":[1-9]/)
  // A thread that starts later gets its share.
  await until(() => seen().threads === 2)
  const stopped = await first.end('SIGINT')
  expect(stopped).toMatchObject({ code: 130, signal: null })
  expect(stopped.stdout).toMatch(/^clicks: stopped, [\d,]+ records? in all, \d partitions? in 2 threads/)
  expect(stopped.stderr).toContain('reprise run clicks.mjs clicks --threads 2')
  // A person does not need to know that they start at the same moment.
  expect(stopped.stderr).not.toMatch(/^thread \d/m)
  const second = live(['run', 'clicks.mjs', 'clicks', '--threads', '2', '--report', 'json'], { cwd })
  await second.until(/"records":[1-9]/)
  await second.end('SIGKILL')
  const last = await cli(['run', 'clicks.mjs', 'clicks', '--threads', '3', '--json'], { cwd, env: { PAUSE: '1' } })
  expect(last.code, last.stderr).toBe(0)
  expect(JSON.parse(last.stdout)).toEqual({
    ...{ pipeline: 'clicks', status: 'completed', tasks: partitions, records: partitions * records, deadLetters: 0 },
  })
  expect(seen().rows).toEqual(wanted)
}, 300_000)

it('a second Ctrl-C ends threads at once, with 130 and no crash', async () => {
  const cwd = folder.path
  for (let n = 0; n < 3; n++) {
    const run = live(['run', 'clicks.mjs', 'clicks', '--threads', '4', '--report', 'json'], {
      cwd,
      env: { PAUSE: '300' },
    })
    await run.until(/"records":[1-9]/)
    run.signal('SIGINT')
    await run.until(/press Ctrl-C again to stop at once/)
    expect(await run.end('SIGINT')).toMatchObject({ code: 130, signal: null })
  }
}, 300_000)

it('a pipeline whose partitions cannot be shared gets stages: they stop at Ctrl-C, resume on other threads, and show their tasks', async () => {
  const cwd = folder.path
  const args = ['run', 'clicks.mjs', 'crossing', '--report', 'json', '--threads']
  const first = live([...args, '2'], { cwd, env: { PAUSE: '20' } })
  await first.until(/"records":[1-9]/)
  const stopped = await first.end('SIGINT')
  expect(stopped, stopped.stderr).toMatchObject({ code: 130, signal: null })
  expect(stopped.stdout).toMatch(/^crossing: stopped/)
  expect(stopped.stderr).toContain('reprise run clicks.mjs crossing --threads 2')
  const last = await cli([...args, '3', '--json'], { cwd, env: { PAUSE: '1' } })
  expect(last.code, last.stderr).toBe(0)
  expect(JSON.parse(last.stdout)).toMatchObject({ status: 'completed', records: partitions * records })
  expect(seen().rows).toEqual(wanted)
  expect(seen().threads).toBeGreaterThan(1)
  const { stages } = JSON.parse((await cli(['show', 'pipeline/crossing', '--json'], { cwd })).stdout)
  const found = stages.map(({ name, parts }: { name: string; parts: string[] }) => [name, ...parts])
  expect(found).toEqual([
    ['stage 0 in the main thread', 'ticks', 'keyBy#1'],
    ...[1, 2, 3].map((thread) => [`stage 1 on thread ${thread}`, 'nth', 'map#1']),
    ['stage 2 in the main thread', 'seen'],
  ])
  const shown = await cli(['show', 'pipeline/crossing'], { cwd })
  expect(shown.stdout).toMatch(/stage 1 on thread 2 +nth, map#1 \(keyBy#1 sends each record to one of 3 instances\): /)
}, 300_000)

it('names the reason why threads cannot share it: another kind of run, a store of one process, a module that fails', async () => {
  const cwd = folder.path
  const run = async (...args: string[]) => {
    const { code, stderr } = await cli(['run', 'clicks.mjs', ...args], { cwd, env: { FAULT: '1' } })
    expect(code).not.toBe(0)
    return stderr
  }
  expect(await run('clicks', '--threads', '0')).toContain('from 1 to 64')
  expect(await run('clicks', '--threads', '2', '--id', 'a')).toContain('--id')
  expect(await run('clicks', '--threads', '2', '--url', 'memory:')).toContain('memory:')
  for (const name of ['clicks', 'crossing'])
    expect(await run(name, '--threads', '2')).toContain('no thread can load this')
})
