// Keyed operators on worker threads: the results are those of a plain loop, whatever the number of threads, through kills of the
// process and deaths of threads.

import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { DatabaseSync } from '@photostructure/sqlite'
import { afterEach, expect, it, vi } from 'vitest'
import type { PipelineDefinition } from '../../src/layers/pipeline/index.ts'
import { amount, newFolder, removeFolder } from '../crash/support.ts'
import { randomFrom } from '../programs/crash-model.mjs'
import * as programs from '../programs/staged-pipelines.mjs'

// Threads load the built library, and the test uses the same one.
const built = new URL('../../dist/index.js', import.meta.url).href
const { open } = (await import(built)) as typeof import('../../src/index.ts')

const { gate, orders, records } = programs
// The program imports the built library, whose types differ by name only.
const { disordered, failing, hanging, spread, staged, stored, unsendable } = programs as unknown as Readonly<
  Record<string, PipelineDefinition>
>
const { seen, windows } = programs as unknown as Readonly<Record<string, { readonly values: unknown[] }>>

// Each start of threads loads the module in each of them, which takes long beside other work.
vi.setConfig({ testTimeout: 600_000 })

const kills = amount('REPRISE_STAGED_KILLS', 3)
const folders: string[] = []
afterEach(() => {
  gate.limit = Number.POSITIVE_INFINITY
  gate.batch = 64
  seen!.values.length = 0
  windows!.values.length = 0
  for (const folder of folders.splice(0)) removeFolder(folder)
})

function folder(): string {
  const made = newFolder()
  folders.push(made)
  return made
}

interface Expected {
  readonly numbered: ReadonlyMap<number, number>
  readonly totals: ReadonlyMap<string, number>
}

function plain(): Expected {
  const [users, numbered, totals] = [new Map<string, number>(), new Map<number, number>(), new Map<string, number>()]
  for (let n = 0; n < records; n++) {
    const { user, item, at } = orders(n)
    const nth = (users.get(user) ?? 0) + 1
    users.set(user, nth)
    numbered.set(n, nth)
    const window = `${item}@${Math.floor(at / 700) * 700}`
    totals.set(window, (totals.get(window) ?? 0) + nth)
  }
  return { numbered, totals }
}

/** The rows, counted by plain SQL. */
function audit(file: string): void {
  const db = new DatabaseSync(file, { readOnly: true })
  try {
    const { numbered, totals } = plain()
    const rows = db.prepare('SELECT n, nth FROM numbered').all() as { n: number; nth: number }[]
    expect(rows.length).toBe(records)
    expect(new Map(rows.map(({ n, nth }) => [n, nth]))).toEqual(numbered)
    const found = db.prepare('SELECT item, start_ms, total FROM totals').all() as Record<string, unknown>[]
    expect(found.length).toBe(totals.size)
    expect(new Map(found.map(({ item, start_ms, total }) => [`${item}@${start_ms}`, total]))).toEqual(totals)
  } finally {
    db.close()
  }
}

it.each([1, 2, 3])(
  'A9.3: a pipeline with two keys on worker threads has the results of a plain loop, with %i',
  async (threads) => {
    const rp = await open('memory:')
    const run = await rp.run(staged!, { parallelism: 3, threads, checkpoint: { every: 500 } })
    expect((await run.result()).status).toBe('completed')
    const { numbered, totals } = plain()
    const given = seen!.values as { n: number; nth: number }[]
    expect(given.length).toBe(records)
    expect(new Map(given.map(({ n, nth }) => [n, nth]))).toEqual(numbered)
    const results = windows!.values as { key: string; start: number; value: number }[]
    expect(results.length).toBe(totals.size)
    expect(new Map(results.map(({ key, start, value }) => [`${key}@${start}`, value]))).toEqual(totals)
    const { operators, stages } = run.status()
    expect(operators.find(({ name }) => name === 'numbered')).toMatchObject({ records })
    expect(stages.map(({ stage, threads: own }) => [stage, own.length])).toEqual([
      [0, 1],
      [1, threads],
      [2, 1],
      [2, threads],
      [3, 1],
    ])
    await rp.close()
  },
)

it('A9.3: state of threads is in savepoints, and is divided anew for other threads, or for none', async () => {
  const rp = await open('memory:')
  const steps = [{ threads: 2, parallelism: 4 }, { threads: 3, parallelism: 3 }, { parallelism: 2 }, { threads: 4 }]
  for (const [i, options] of steps.entries()) {
    gate.limit = 600 * (i + 1)
    const run = await (await rp.run(staged!, options)).started()
    while (run.status().records < 600) await new Promise((resolve) => setImmediate(resolve))
    await run.stop()
  }
  gate.limit = Number.POSITIVE_INFINITY
  await rp.run(staged!, { threads: 2 }).result()
  const { numbered, totals } = plain()
  const given = seen!.values as { n: number; nth: number }[]
  expect(given.length).toBe(records)
  expect(new Map(given.map(({ n, nth }) => [n, nth]))).toEqual(numbered)
  expect(windows!.values.length).toBe(totals.size)
  await rp.close()
})

it('G5, B7 (exactly once): a process with threads that is killed again and again, with other threads each time', async () => {
  const at = join(folder(), 'staged.db')
  const random = randomFrom(amount('REPRISE_CRASH_SEED', 7))
  const program = fileURLToPath(new URL('../programs/staged-killed.mjs', import.meta.url))
  for (let kill = 0; kill <= kills; kill++) {
    const given = {
      url: `sqlite:${at}`,
      threads: 1 + (kill % 4),
      ...(kill % 3 === 2 && { parallelism: 2 + (kill % 2) }),
    }
    const child = spawn(process.execPath, [program, JSON.stringify(given)], { stdio: ['ignore', 'pipe', 'pipe'] })
    let [lines, errors] = ['', '']
    const ready = new Promise<void>((resolve) => {
      child.stdout.on('data', (piece) => {
        lines += piece
        if (lines.includes('READY')) resolve()
      })
    })
    child.stderr.on('data', (piece) => {
      errors += piece
    })
    const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
    if (kill < kills) {
      await Promise.race([ready, ended])
      await new Promise((resolve) => setTimeout(resolve, random.below(150)))
      child.kill('SIGKILL')
    }
    await ended
    expect(errors).toBe('')
    if (kill === kills) expect(lines).toContain('DONE completed')
  }
  audit(at)
})

it('a dead thread is replaced, and the run resumes from its checkpoint in the same process', async () => {
  const own = folder()
  process.env.REPRISE_STAGED_DEATHS = join(own, 'died')
  const at = join(own, 'staged.db')
  // Each window's result ends its thread once.
  for (let start = 0; start < records * 10; start += 700)
    if (start % 14_000 !== 1400) writeFileSync(join(own, `died-${start}`), '')
  const rp = await open(`sqlite:${at}`)
  const problems: unknown[] = []
  rp.events.on('problem', ({ error }) => void problems.push(error))
  try {
    gate.batch = 20
    expect((await rp.run(stored!, { threads: 2, checkpoint: { every: 100 } }).result()).status).toBe('completed')
    expect(problems.length).toBeGreaterThan(0)
    expect(problems).toEqual(problems.map(() => expect.objectContaining({ code: 'RUN_FAILED' })))
    audit(at)
  } finally {
    delete process.env.REPRISE_STAGED_DEATHS
    await rp.close()
  }
})

it('dead letters of threads are kept in the main thread, and go back to the thread of their key', async () => {
  const mended = join(folder(), 'mended')
  process.env.REPRISE_STAGED_MENDED = mended
  const rp = await open('memory:')
  try {
    gate.limit = records - 100
    const run = await (await rp.run(failing!, { threads: 2 })).started()
    await expect.poll(async () => (await run.deadLetters()).length).toBe(Math.floor((gate.limit - 8) / 500) + 1)
    await run.stop()
    writeFileSync(mended, '')
    const again = await (await rp.run(failing!, { threads: 3 })).started()
    const letters = await again.deadLetters()
    expect(letters.map(({ operator, error }) => [operator, error])).toEqual(
      letters.map(() => ['picky', 'Error: not today']),
    )
    expect(await again.redrive()).toBe(letters.length)
    gate.limit = Number.POSITIVE_INFINITY
    expect(await again.result()).toMatchObject({ status: 'completed', deadLetters: 0 })
    const last = new Map((windows!.values as { key: number; value: number }[]).map(({ key, value }) => [key, value]))
    expect(last).toEqual(new Map([0, 1, 2, 3, 4].map((key) => [key, records / 5])))
  } finally {
    delete process.env.REPRISE_STAGED_MENDED
    await rp.close()
  }
})

it('a task that hangs aborts the checkpoint visibly, and later checkpoints succeed', async () => {
  const mended = join(folder(), 'mended')
  process.env.REPRISE_STAGED_MENDED = mended
  const rp = await open('memory:')
  try {
    // The sources do not end: the last checkpoint of a run has no more time than any other.
    gate.limit = records - 500
    const run = await rp.run(hanging!, { threads: 2, checkpoint: { every: '10ms' }, checkpointTimeout: '400ms' })
    await expect.poll(() => run.status().checkpoints.lastFailure).toMatch(/its barrier to reach every task/)
    writeFileSync(mended, '')
    const last = () =>
      new Map((windows!.values as { key: number; value: number }[]).map(({ key, value }) => [key, value]))
    await expect.poll(last).toEqual(new Map([0, 1, 2, 3, 4].map((key) => [key, gate.limit / 5])))
    expect(windows!.values.length).toBe(gate.limit)
    await run.cancel()
  } finally {
    delete process.env.REPRISE_STAGED_MENDED
    await rp.close()
  }
})

it.each([{ threads: 2 }, { parallelism: 3 }])(
  'rebalance() divides work without keys, and neither loses a record nor makes one late, with %j',
  async (options) => {
    const rp = await open('memory:')
    const run = await rp.run(spread!, { ...options, checkpoint: { every: 500 } })
    expect(await run.result()).toMatchObject({ status: 'completed', deadLetters: 1 })
    const wanted = Array.from({ length: records }, (_, n) => n).filter((n) => n % 10 !== 9 && n !== 77)
    const given = seen!.values as { n: number; score: number; isElsewhere: boolean }[]
    expect(given.map(({ n }) => n).sort((a, b) => a - b)).toEqual(wanted)
    expect(given.filter(({ n, score }) => score !== 2 * n)).toEqual([])
    expect(new Set(given.map(({ isElsewhere }) => isElsewhere))).toEqual(new Set(['threads' in options]))
    const totals = new Map<string, number>()
    for (const { item, at, n } of wanted.map(orders)) {
      const window = `${item}@${Math.floor(at / 700) * 700}`
      totals.set(window, (totals.get(window) ?? 0) + 2 * n)
    }
    const results = windows!.values as { key: string; start: number; value: number }[]
    expect(new Map(results.map(({ key, start, value }) => [`${key}@${start}`, value]))).toEqual(totals)
    expect(results.length).toBe(totals.size)
    expect(run.status().lateRecords).toBe(0)
    await rp.close()
  },
)

it('refuses what threads cannot do, with the reason', async () => {
  const rp = await open('memory:')
  const refused = (words: string) => ({ code: 'INVALID_ARGUMENT', message: expect.stringContaining(words) })
  await expect(rp.run(disordered!, { threads: 2 }).result()).rejects.toMatchObject(refused('would lose their order'))
  await expect(rp.run(unsendable!, { threads: 2 }).result()).rejects.toMatchObject(refused('cannot be sent'))
  await expect(rp.run(staged!, { threads: 0 }).result()).rejects.toMatchObject(refused('threads'))
  await expect(rp.run(staged!, { threads: 2, module: 'x' }).result()).rejects.toMatchObject(refused('module'))
  const elsewhere = { threads: 2, module: new URL('../programs/crash-model.mjs', import.meta.url).href }
  await expect(rp.run(staged!, elsewhere).result()).rejects.toMatchObject({ code: 'NOT_FOUND' })
  // Without threads, it runs.
  expect((await rp.run(disordered!, { parallelism: 2 }).result()).status).toBe('completed')
  await rp.close()
})
