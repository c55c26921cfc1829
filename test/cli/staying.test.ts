// Commands that run until they are stopped: tail, run --work, a job in a terminal. And data that passes from one command to
// another: exports of state and of history, dry runs.

import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { cli, json, live, typeInto, workFolder } from './support.ts'

const folder = workFolder()
const at = { cwd: folder.path }
afterAll(() => folder.remove())

const ctrlC = '\x03'

async function typed(command: string, keys: readonly (readonly [RegExp, string])[], env: Record<string, string> = {}) {
  const ran = await typeInto(command, keys, { cwd: folder.path, env })
  if (!ran) console.warn('skipped: no script(1) here to make a terminal with')
  return ran
}

const write = (name: string, text: string) => writeFileSync(join(folder.path, name), text)
const jobOf = (name: string, items: number, ms = 1) => `import { setTimeout as sleep } from 'node:timers/promises'
import { job } from 'reprise/job'
export const work = job('${name}', {
  source: Array.from({ length: ${items} }, (_, i) => 'item-' + i),
  concurrency: 2,
  each: () => sleep(Number(process.env.ITEM_MS ?? ${ms})),
})
`

describe('reprise tail', () => {
  it('follows: starts with the next entry, misses nothing, and ends with Ctrl-C and exit code 0', async () => {
    write('followed.mjs', jobOf('followed', 5))
    write('other.mjs', jobOf('other', 5))
    await cli(['run', 'followed.mjs', '--report', 'none'], at)
    const before = (await json<{ seq: number }>(['show', 'followed'], at)).value.seq
    const tail = live(['tail', 'job/followed', '--json'], at)
    await tail.until(/following/)
    for (const file of ['followed.mjs', 'other.mjs', 'followed.mjs']) {
      await cli(['run', file, '--report', 'none'], at)
    }
    const after = (await json<{ seq: number }>(['show', 'followed'], at)).value.seq
    await tail.until(new RegExp(`"seq":${after},`))
    const ended = await tail.end('SIGINT')
    expect([ended.code, ended.signal]).toEqual([0, null])
    const entries = ended.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { timeline: string; seq: number })
    expect(entries.map((entry) => entry.seq)).toEqual(Array.from({ length: after - before }, (_, i) => before + 1 + i))
    expect(new Set(entries.map((entry) => entry.timeline))).toEqual(new Set(['job/followed']))
  })

  it('on a terminal, shows each entry on a line of its own until Ctrl-C', async () => {
    const ran = await typed('tail job/followed --from start', [[/job\/followed@2 {2}done/, ctrlC]])
    if (!ran) return
    expect(ran.text).toMatch(/job\/followed@1 {2}started/)
    expect(ran.code).toBe(0)
  })
})

describe('a job on a terminal', () => {
  it('finishes the work in flight on Ctrl-C, ends with 130, and the printed line resumes it when pasted', async () => {
    write('long job.mjs', jobOf('long', 200, 20))
    const ran = await typed("run 'long job.mjs'", [[/ [1-9]\d*\/200/, ctrlC]])
    if (!ran) return
    expect(ran.code).toBe(130)
    expect(ran.text).toContain('press Ctrl-C again to stop at once')
    const line = /^ {2}reprise (run .*)$/m.exec(ran.text.replaceAll('\r', ''))![1]!
    const resumed = await typed(line, [], { ITEM_MS: '0' })
    expect(resumed!.code).toBe(0)
    expect(resumed!.text).toMatch(/resumed from job\/long@\d+/)
    const { value } = await json<{ summary: { finished: number } }>(['show', 'long'], at)
    expect(value.summary.finished).toBe(200)
  })

  it('ends at once on a second Ctrl-C, though an item never ends', async () => {
    write('endless.mjs', jobOf('endless', 10, 3_600_000))
    const ran = await typed('run endless.mjs', [
      [/endless .*0\/10/, ctrlC],
      [/press Ctrl-C again to stop at once/, ctrlC],
    ])
    if (!ran) return
    expect(ran.code).toBe(130)
    const rest = await json<{ done: number }>(['run', 'endless.mjs', '--report', 'none'], {
      ...at,
      env: { ITEM_MS: '0' },
    })
    expect(rest.value.done).toBe(10)
  })
})

describe('reprise run --work', () => {
  it('takes over unfinished work of another process, and ends with Ctrl-C', async () => {
    write('left.mjs', jobOf('left', 60, 40))
    const first = await cli(['run', 'left.mjs', '--report', 'json'], {
      ...at,
      interrupt: { after: /"done":[1-9]/, signals: ['SIGTERM'] },
    })
    expect(first.code).toBe(130)
    const left = (await json<{ status: string; summary: { finished: number } }>(['show', 'left'], at)).value
    expect(left.status).toBe('stopped')
    expect(left.summary.finished).toBeLessThan(60)
    const worker = live(['run', 'left.mjs', '--work'], { ...at, env: { ITEM_MS: '1' } })
    await worker.until(/working on left/)
    const status = async () => (await json<{ status: string }>(['show', 'left'], at)).value.status
    await expect.poll(status, { interval: 300 }).toBe('completed')
    const ended = await worker.end('SIGINT')
    expect([ended.code, ended.signal]).toEqual([0, null])
    const { value } = await json<{ summary: { finished: number; round: number } }>(['show', 'left'], at)
    expect(value.summary).toMatchObject({ finished: 60, round: 1 })
  })

  it('interrupted in the middle, leaves the job for the next process', async () => {
    write('midway.mjs', jobOf('midway', 400, 30))
    await cli(['run', 'midway.mjs', '--report', 'json'], {
      ...at,
      interrupt: { after: /"done":[1-9]/, signals: ['SIGINT'] },
    })
    const worker = live(['run', 'midway.mjs', '--work'], at)
    const owner = async () => (await json<{ owner: string | null }>(['show', 'midway'], at)).value.owner
    await expect.poll(owner, { interval: 200 }).not.toBeNull()
    expect((await worker.end('SIGINT')).code).toBe(0)
    const { value } = await json<{ status: string; owner: null }>(['show', 'midway'], at)
    expect(value).toMatchObject({ status: 'stopped', owner: null })
    const rest = await json<{ done: number; resumedFrom: unknown }>(['resume', 'midway', '--report', 'none'], {
      ...at,
      env: { ITEM_MS: '0' },
    })
    expect(rest.value.resumedFrom).not.toBeNull()
    const { value: last } = await json<{ summary: { finished: number } }>(['show', 'midway'], at)
    expect(last.summary.finished).toBe(400)
  })
})

describe('reprise doctor', () => {
  it('finds a worker that died without letting go, and is content when its work was taken over', async () => {
    write('killed.mjs', jobOf('killed', 200, 20))
    const worker = live(['run', 'killed.mjs', '--report', 'json'], at)
    await worker.until(/"done":[1-9]/)
    expect((await worker.end('SIGKILL')).signal).toBe('SIGKILL')
    const states = async () => {
      const { value } = await json<{ checks: { name: string; state: string; what: string }[] }>(['doctor'], at)
      return value.checks.filter((check) => check.name === 'workers').map(({ state, what }) => `${state}: ${what}`)
    }
    expect(await states()).toEqual([expect.stringMatching(/^warning: died without releasing their work: cli~/)])
    expect((await cli(['resume', 'killed', '--report', 'none'], { ...at, env: { ITEM_MS: '0' } })).code).toBe(0)
    expect(await states()).toEqual([expect.stringMatching(/^ok: /)])
  })
})

describe('reprise export', () => {
  it('--state-only: the newest checkpoint without history continues under another name', async () => {
    write('whole.mjs', jobOf('whole', 50))
    await cli(['run', 'whole.mjs', '--report', 'none'], at)
    const head = (await json<{ seq: number }>(['show', 'whole'], at)).value
    const full = await json<{ bytes: number }>(['export', 'whole', 'full.rp'], at)
    const state = await json<{ bytes: number; coordinate: { seq: number } }>(
      ['export', 'whole', 'state.rp', '--state-only'],
      at,
    )
    expect(state).toMatchObject({ code: 0, value: { coordinate: { seq: head.seq } } })
    expect(state.value.bytes).toBeLessThan(full.value.bytes)
    expect(await json(['import', 'state.rp', '--as', 'job/moved'], at)).toMatchObject({ value: { seq: head.seq } })
    const moved = (await json<{ floor: number; summary: { finished: number } }>(['show', 'job/moved'], at)).value
    // No history was imported, and none is needed.
    expect(moved).toMatchObject({ floor: head.seq, summary: { finished: 50 } })
    write('moved.mjs', jobOf('moved', 51))
    expect(await json(['run', 'moved.mjs', '--report', 'none'], at)).toMatchObject({ value: { done: 1, skipped: 50 } })
    expect(await json(['verify', 'job/moved'], at)).toMatchObject({ code: 0, value: { ok: true } })
  })

  it('--history: what ran is checked against code of later days, in another store (check --history)', async () => {
    const source = (step: string) => `import { workflow } from 'reprise/workflow'
export const greet = workflow('greet', async (ctx, name) => await ctx.step('${step}', () => 'hello ' + name))
`
    write('greet.mjs', source('compose'))
    write('changed.mjs', source('write'))
    expect((await cli(['run', 'greet.mjs', '--input', '"ann"', '--id', 'one'], at)).code).toBe(0)
    expect(await json(['export', 'workflow/greet/one', 'one.json', '--history'], at)).toMatchObject({
      code: 0,
      value: { file: 'one.json', timeline: 'workflow/greet/one' },
    })
    expect((await cli(['export', 'whole', 'no.json', '--history'], at)).code).toBe(2)
    const elsewhere = ['--url', 'sqlite:elsewhere.db']
    await cli(['import', 'state.rp', ...elsewhere], at)
    const same = await json(['check', 'greet.mjs', '--history', 'one.json', ...elsewhere], at)
    expect(same).toMatchObject({ code: 0, value: { ok: true, checked: 1 } })
    const changed = await json(['check', 'changed.mjs', '--history', 'one.json', ...elsewhere], at)
    expect(changed).toMatchObject({ code: 9, value: { ok: false, diverging: [{ timeline: 'workflow/greet/one' }] } })
    for (const [file, code] of [
      ['greet.mjs', 8],
      ['none.json', 4],
    ] as const) {
      const ran = await cli(['check', 'greet.mjs', '--history', file, ...elsewhere], at)
      expect([ran.code, ran.stderr]).toEqual([code, expect.stringContaining(file)])
    }
  })
})

describe('reprise run --dry-run', () => {
  const url = ['--url', 'sqlite:dry/run.db']
  const steps = (more = '') => `import { migrations } from 'reprise/migrate'
export const schema = migrations('schema', { steps: [
  { id: '001-notes', sql: 'CREATE TABLE note (id INTEGER); INSERT INTO note VALUES (1)' },
  { id: '002-code', run: () => { throw new Error('the service is down') } },
  ${more}
] })
`

  it('C4: prints the planned work statement by statement, and does not even create the store', async () => {
    write('schema.mjs', steps())
    const ran = await cli(['run', 'schema.mjs', '--dry-run', ...url], at)
    expect([ran.code, ran.stdout]).toEqual([
      0,
      '001-notes\n  CREATE TABLE note (id INTEGER)\n  INSERT INTO note VALUES (1)\n002-code\n  in code\nschema: 2 steps would be applied, 0 before\n',
    ])
    expect(ran.stderr).toContain('nothing was changed')
    expect(existsSync(join(folder.path, 'dry'))).toBe(false)
  })

  it('prints where a failed run continues, and which steps are left', async () => {
    expect((await cli(['run', 'schema.mjs', ...url], at)).code).toBe(5)
    const head = await json(['show', 'migrate/schema', ...url], at)
    const plan = await json(['run', 'schema.mjs', '--dry-run', ...url], at)
    expect(plan).toMatchObject({
      code: 0,
      value: {
        status: 'planned',
        applied: [],
        pending: [{ id: '002-code', sql: null }],
        before: 1,
        resumedAt: '002-code',
      },
    })
    expect((await cli(['run', 'schema.mjs', '--dry-run', ...url], at)).stdout).toContain(
      'begun before, but not finished',
    )
    expect(await json(['show', 'migrate/schema', ...url], at)).toEqual(head)
  })

  it('finds drift, as the run itself would', async () => {
    write('schema.mjs', steps().replace('(id INTEGER)', '(id TEXT)'))
    const ran = await cli(['run', 'schema.mjs', '--dry-run', ...url], at)
    expect([ran.code, ran.stderr]).toEqual([6, expect.stringContaining('MIGRATION_DRIFT')])
  })
})
