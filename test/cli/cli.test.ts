// The command line in a pipe: output, stream and exit code of each command.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { commands } from '../../src/cli/commands.ts'
import { help } from '../../src/cli/help.ts'
import { Output } from '../../src/cli/output.ts'
import { cli as ownProcess, workFolder } from './support.ts'
import { cli, json } from './warm.ts'

const folder = workFolder()
const at = { cwd: folder.path }
const escapeCharacter = String.fromCharCode(27)

const jobFile = `
import { setTimeout as sleep } from 'node:timers/promises'
import { job } from 'reprise/job'
export const numbers = job('numbers', {
  source: Array.from({ length: 300 }, (_, i) => ({ id: 'n-' + i })),
  key: (item) => item.id,
  concurrency: 4,
  retry: { attempts: 2, backoff: 1 },
  each: async (item) => {
    await sleep(Number(process.env.ITEM_MS ?? 1))
    if (item.id === process.env.BAD) throw new Error('cannot do ' + item.id)
  },
})
`

beforeAll(() => {
  writeFileSync(join(folder.path, 'numbers.mjs'), jobFile)
})
afterAll(() => folder.remove())

describe('reprise', () => {
  it('prints ten lines of help without arguments', async () => {
    const ran = await cli([], at)
    expect(ran.code).toBe(0)
    expect(ran.stdout.trimEnd().split('\n').length).toBeLessThanOrEqual(10)
    expect(ran.stdout).toContain('reprise demo')
  })

  it('never prints colours or moves the cursor in a pipe', async () => {
    for (const args of [[], ['help'], ['explain'], ['doctor'], ['nonsense']]) {
      const ran = await cli(args, at)
      expect(ran.stdout + ran.stderr).not.toContain(escapeCharacter)
    }
  })

  it.each([
    [['nonsense'], 2],
    [['ls', '--nonsense'], 2],
    [['show'], 2],
    [['ls'], 4],
    [['explain', 'NO_SUCH_CODE'], 2],
    [['run', 'missing.mjs'], 4],
    [['ls', '--url', 'ftp://x'], 2],
  ] as const)('%o ends with exit code %i', async (args, code) => {
    const ran = await cli(args, { cwd: folder.path, env: { REPRISE_URL: 'sqlite:none/at-all.db' } })
    expect(ran.code).toBe(code)
    expect(ran.stderr).not.toContain('    at ')
  })

  it('prints code, message and remedy, and a stack only on request', async () => {
    const ran = await cli(['show', 'x', '--url', 'sqlite:none.db'], at)
    expect(ran.stderr).toMatch(/^NOT_FOUND there is no store at none.db/)
    expect(ran.stderr).toContain('cure ')
    const verbose = await cli(['show', 'x', '--url', 'sqlite:none.db', '--verbose'], at)
    expect(verbose.stderr).toContain('    at ')
    const { value } = await json<{ error: { code: string; hint: string } }>(
      ['show', 'x', '--url', 'sqlite:none.db'],
      at,
    )
    expect(value.error).toMatchObject({ code: 'NOT_FOUND' })
  })

  it('answers for a dead database by itself, with its code', async () => {
    const ran = await cli(['ls', '--url', 'postgres://nobody@127.0.0.1:1/none'], at)
    expect(ran.code).toBe(7)
    expect(ran.stderr).toContain('STORE_UNREACHABLE')
  })

  it('reports a Node that is too old in one sentence, with exit code 9', async () => {
    const ran = await ownProcess(['ls'], { cwd: folder.path, env: { REPRISE_TEST_NODE_VERSION: '18.19.1' } })
    expect(ran.code).toBe(9)
    expect(ran.stderr.trim().split('\n')).toHaveLength(1)
    expect(ran.stderr).toContain('20.19')
  })

  it('has help for every command', async () => {
    for (const spec of commands) {
      let text = ''
      const stream = { write: (piece: string) => (text += piece) }
      expect(help(new Output({ stdout: stream, stderr: stream, env: {} }, false), spec.name)).toBe(0)
      expect(text).toContain(`reprise ${spec.usage}`)
      for (const option of Object.keys(spec.options ?? {})) expect(text).toContain(`--${option}`)
    }
    expect((await cli(['help', 'ls'], at)).stdout).toContain('reprise ls [ID]')
  })

  it('suggests the intended command', async () => {
    expect((await cli(['lss'], at)).stderr).toContain('did you mean ls')
  })

  it.each(['bash', 'zsh', 'fish'])('writes completion for %s that names every command', async (shell) => {
    const ran = await cli(['completion', shell], at)
    for (const spec of commands) expect(ran.stdout).toContain(spec.name)
  })
})

describe('reprise run', () => {
  it('runs a job: progress on stderr, the result on stdout, exit code 3 when dead letters are left', async () => {
    const ran = await cli(['run', 'numbers.mjs'], { cwd: folder.path, env: { BAD: 'n-7' } })
    expect(ran.code).toBe(3)
    expect(ran.stdout).toMatch(/^numbers: 299 items done, 1 failed, in /)
    expect(ran.stderr).toContain('gave up on n-7')
  })

  it('shows, re-drives and finishes what failed', async () => {
    const { value } = await json<{ key: string; item: unknown; timeline: string }[]>(['dead'], at)
    expect(value).toMatchObject([{ key: 'n-7', item: { id: 'n-7' }, timeline: 'job/numbers' }])
    expect((await cli(['redrive', 'numbers'], at)).code).toBe(2)
    expect((await cli(['redrive', 'numbers', 'n-8'], at)).code).toBe(4)
    expect((await cli(['redrive', 'numbers', '--all'], at)).stdout).toContain('1 item will be retried')
    const again = await json<{ done: number; skipped: number }>(['run', 'numbers.mjs', '--report', 'none'], at)
    expect(again).toMatchObject({ code: 0, value: { done: 1, skipped: 300 } })
  })

  it('finishes the work in flight on Ctrl-C, and prints a line that resumes when pasted', async () => {
    writeFileSync(join(folder.path, 'slow job.mjs'), jobFile.replaceAll("'numbers'", "'slow'"))
    const ran = await ownProcess(['run', 'slow job.mjs', '--report', 'json'], {
      cwd: folder.path,
      env: { ITEM_MS: '30' },
      interrupt: { after: /"done":[1-9]/, signals: ['SIGINT'] },
    })
    expect(ran.code).toBe(130)
    const line = ran.stderr.split('\n').find((each) => each.startsWith('  reprise run'))!
    expect(line.trim()).toBe("reprise run 'slow job.mjs' slow")
    const first = JSON.parse(`{${/"done":\d+/.exec(ran.stderr.split('"type":"ended"')[1]!)![0]}}`) as { done: number }
    const resumed = await json<{ done: number; skipped: number; resumedFrom: unknown }>(
      ['resume', 'slow', '--report', 'none'],
      at,
    )
    expect(resumed.code).toBe(0)
    expect(resumed.value.resumedFrom).toMatchObject({ timeline: 'job/slow' })
    expect(resumed.value.done + first.done).toBe(300)
    expect((await cli(['resume'], at)).stderr).toContain('nothing to resume')
  })

  it('stops at once on a second Ctrl-C, and loses only the work in flight', async () => {
    writeFileSync(join(folder.path, 'stuck.mjs'), jobFile.replaceAll("'numbers'", "'stuck'"))
    const ran = await ownProcess(['run', 'stuck.mjs', '--report', 'json'], {
      cwd: folder.path,
      env: { ITEM_MS: '1500' },
      interrupt: { after: /"done":[1-9]/, signals: ['SIGINT', 'SIGINT'] },
    })
    expect(ran.code).toBe(130)
    const resumed = await json<{ done: number; skipped: number }>(['run', 'stuck.mjs', '--report', 'none'], at)
    expect(resumed.value.done + resumed.value.skipped).toBe(300)
    expect(resumed.value.skipped).toBeGreaterThanOrEqual(4)
  })

  it('lists the definitions if the choice is ambiguous', async () => {
    writeFileSync(
      join(folder.path, 'two.mjs'),
      `${jobFile}\nexport const other = job('other', { source: [1], each: () => 1 })\n`,
    )
    expect((await cli(['run', 'two.mjs'], at)).stderr).toContain('numbers, other')
    expect((await cli(['run', 'two.mjs', 'other', '--report', 'none'], at)).code).toBe(0)
    writeFileSync(join(folder.path, 'none.mjs'), 'export const x = 1\n')
    expect((await cli(['run', 'none.mjs'], at)).code).toBe(4)
  })

  it('ends with the error of a source, exit code 1, and no stack', async () => {
    writeFileSync(
      join(folder.path, 'bad.mjs'),
      "import { job } from 'reprise/job'\nexport const bad = job('bad', { source: () => { throw new Error('no API') }, each: () => 1 })\n",
    )
    const ran = await cli(['run', 'bad.mjs'], at)
    expect(ran.code).toBe(1)
    expect(ran.stderr).toContain('no API')
    expect(ran.stderr).not.toContain('    at ')
  })

  it('ends with exit code 5 where a workflow fails, and ls and show give the reason', async () => {
    writeFileSync(
      join(folder.path, 'refused.mjs'),
      `import { workflow } from 'reprise/workflow'
       export const refused = workflow('refused', async (ctx) => {
         await ctx.step('charge', () => { throw Object.assign(new Error('no funds'), { code: 'EDECLINED' }) }, { retry: { attempts: 1 } })
       })`,
    )
    const ran = await cli(['run', 'refused.mjs', '--id', 'r'], at)
    expect(ran.code).toBe(5)
    expect(ran.stderr).toMatch(/RUN_FAILED workflow\/refused\/r failed: no funds/)
    expect((await cli(['ls', 'workflow/refused/'], at)).stdout).toMatch(/REASON[\s\S]*EDECLINED: no funds/)
    const shown = (await cli(['show', 'workflow/refused/r'], at)).stdout
    expect(shown).toMatch(/^end +failed .* ago: EDECLINED: no funds$/m)
    await cli(['delete', 'workflow/refused/r', '--yes'], at)
  })

  it('reprise changes of an unknown id is NOT_FOUND', async () => {
    const ran = await cli(['changes', 'nonsense'], at)
    expect({ code: ran.code, said: ran.stderr.split('\n')[0] }).toEqual({
      code: 4,
      said: 'NOT_FOUND there is no unfinished change nonsense',
    })
  })
})

describe('the commands that look', () => {
  it('list, show, log, card and checkpoints agree on the state of the job', async () => {
    const { value: heads } = await json<{ timeline: string; seq: number; status: string }[]>(['ls', 'job/numbers'], at)
    expect(heads).toHaveLength(1)
    const head = heads[0]!
    expect(head).toMatchObject({ timeline: 'job/numbers', status: 'completed' })
    const { value: shown } = await json<{ seq: number; summary: { finished: number } }>(['show', 'numbers'], at)
    expect(shown).toMatchObject({ seq: head.seq, summary: { finished: 300, deadLetters: 0 } })
    const log = await cli(['log', 'job/num', '--json'], at)
    const entries = log.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { seq: number; type: string })
    expect(entries).toHaveLength(head.seq)
    expect(entries[0]).toMatchObject({ seq: 1, type: 'started' })
    const { value: card } = await json<{ coordinate: { seq: number }; missing: null }>(['card', 'numbers'], at)
    expect(card).toMatchObject({ coordinate: { seq: head.seq }, missing: null })
    const { value: catalog } = await json<{ seq: number; verifiedAt: number }[]>(['checkpoints', 'numbers'], at)
    expect(catalog[0]!.seq).toBe(head.seq)
    expect(catalog[0]!.verifiedAt).toBeGreaterThan(0)
  })

  it('never cut an id, and accept a unique beginning', async () => {
    const { stdout } = await cli(['checkpoints', 'numbers'], at)
    const { value } = await json<{ id: string }[]>(['checkpoints', 'numbers'], at)
    for (const { id } of value) expect(stdout).toContain(id)
    expect((await cli(['show', 'job/numb'], at)).code).toBe(0)
    const ambiguous = await cli(['show', 'job/'], at)
    expect([ambiguous.code, ambiguous.stderr]).toEqual([2, expect.stringContaining('job/numbers')])
  })

  it('at and diff show states of the past', async () => {
    const past = await json<{ state: { done: number } }>(['at', 'numbers@1'], at)
    expect(past.value.state.done).toBe(0)
    const { value } = await json<{ changes: { path: string; kind: string }[] }>(['diff', 'numbers@1', 'numbers'], at)
    expect(value.changes).toContainEqual(expect.objectContaining({ path: 'done', kind: 'changed' }))
  })

  it('verify and drill find a sound store sound', async () => {
    expect(await json(['verify'], at)).toMatchObject({ code: 0, value: { ok: true } })
    expect(await json(['drill', 'numbers'], at)).toMatchObject({ code: 0, value: { ok: true } })
  })

  it('prune changes nothing without --yes', async () => {
    expect(await json(['prune'], at)).toMatchObject({ code: 0, value: { isDryRun: true } })
    expect((await cli(['prune'], at)).stderr).toContain('nothing was changed')
    expect(await json(['prune', '--yes'], at)).toMatchObject({ code: 0, value: { isDryRun: false } })
  })

  it('workers, queues and doctor print rows', async () => {
    expect((await json<unknown[]>(['workers', '--all'], at)).value.length).toBeGreaterThan(0)
    expect((await json<{ queue: string }[]>(['queues'], at)).value.map((row) => row.queue)).toContain('job/numbers')
    const { code, value } = await json<{ ok: boolean; checks: { name: string; state: string }[] }>(['doctor'], at)
    // Only the failed job needs attention.
    expect(value.checks.filter(({ state }) => state === 'bad').map(({ name }) => name)).toEqual(['work'])
    expect([code, value.ok]).toEqual([1, false])
    for (const name of [
      'node',
      'driver',
      'disk',
      'locks',
      'schema',
      'durability',
      'clock',
      'workers',
      'checkpoints',
      'drills',
    ]) {
      expect(value.checks.map((check) => check.name)).toContain(name)
    }
  })

  it('doctor and show print the identity of the store, and the life and branch of a timeline; incarnate keeps the id', async () => {
    type Doctor = { checks: { name: string; what: string; data?: { store: string; incarnation: string } }[] }
    const look = async () => (await json<Doctor>(['doctor'], at)).value.checks.find(({ name }) => name === 'identity')!
    const before = await look()
    const { store, incarnation } = before.data!
    expect(before.what).toBe(`store ${store}, incarnation ${incarnation}`)
    const shown = (await json<{ identity: object }>(['show', 'numbers'], at)).value.identity
    expect(shown).toMatchObject({ store, incarnation, life: 1, branch: 0, timeline: expect.stringMatching(/^\w{32}$/) })
    const text = (await cli(['show', 'numbers'], at)).stdout
    expect(text).toContain(`${store}, incarnation ${incarnation}`)
    expect(text).toContain('1, branch 0')
    const made = await json<{ namespaces: { namespace: string; store: string }[] }>(['incarnate'], at)
    expect(made).toMatchObject({ code: 0, value: { namespaces: [{ namespace: 'default', store }] } })
    const after = await look()
    expect(after.data!.store).toBe(store)
    expect(after.data!.incarnation).not.toBe(incarnation)
  })

  it('tail gives every entry of the feed as one JSON line', async () => {
    const ran = await cli(['tail', 'job/numbers', '--once', '--json'], at)
    const seqs = ran.stdout
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { seq: number }).seq)
    expect(seqs).toEqual(seqs.map((_, i) => i + 1))
  })
})

describe('the commands that change', () => {
  it('fork, savepoint, export, import and roll back', async () => {
    expect(await json(['fork', 'numbers@3', 'numbers-fork'], at)).toMatchObject({
      code: 0,
      value: { timeline: 'job/numbers-fork', seq: 3 },
    })
    expect((await cli(['fork', 'numbers@3', 'numbers-fork'], at)).code).toBe(6)
    const saved = await json<{ id: string }>(['savepoint', 'job/numbers', '--label', 'before the upgrade'], at)
    expect((await cli(['checkpoints', 'job/numbers'], at)).stdout).toContain('before the upgrade')
    expect((await cli(['savepoint', 'job/numbers', '--release', saved.value.id], at)).code).toBe(0)
    expect((await cli(['export', 'job/numbers', 'numbers.rp'], at)).code).toBe(0)
    const again = await cli(['export', 'job/numbers', 'numbers.rp'], at)
    expect([again.code, again.stderr]).toEqual([2, expect.stringContaining('--force')])
    expect((await cli(['export', 'job/numbers', 'numbers.rp', '--progress'], at)).code).toBe(2)
    expect((await cli(['export', 'job/numbers', 'numbers.rp', '--force'], at)).code).toBe(0)
    expect(await json(['import', 'numbers.rp', '--as', 'job/copied'], at)).toMatchObject({
      code: 0,
      value: { timeline: 'job/copied' },
    })
    const refused = await cli(['rollback', 'job/numbers@3'], at)
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('--yes')])
    const back = await json<{ to: { seq: number }; archive: string }>(['rollback', 'job/numbers@3', '--yes'], at)
    expect(back.value).toMatchObject({ to: { seq: 3 }, archive: 'job/numbers~1' })
    const redone = await json<{ done: number; skipped: number }>(['run', 'numbers.mjs', '--report', 'none'], at)
    expect(redone.value.done).toBeGreaterThan(0)
    expect(redone.value.done + redone.value.skipped).toBe(300)
  })

  it('exports progress as JSON Lines and imports that of a script', async () => {
    const out = await cli(['export', 'copied', '-', '--progress'], at)
    const keys = new Set(
      out.stdout
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { key: string }).key),
    )
    expect(keys.size).toBe(300)
    const script = Array.from({ length: 120 }, (_, i) => `{"id":"n-${i}"}`).join('\n')
    writeFileSync(join(folder.path, 'done.jsonl'), script)
    expect(await json(['import', 'done.jsonl', '--progress', 'moved'], at)).toMatchObject({
      code: 0,
      value: { added: 120 },
    })
    writeFileSync(join(folder.path, 'moved.mjs'), jobFile.replaceAll("'numbers'", "'moved'"))
    expect(await json(['run', 'moved.mjs', '--report', 'none'], at)).toMatchObject({
      value: { done: 180, skipped: 120 },
    })
  })

  it('signal and cancel refuse other kinds of timelines', async () => {
    expect((await cli(['signal', 'job/numbers', 'go'], at)).code).toBe(2)
    expect(await cli(['cancel', 'numbers'], at)).toMatchObject({ code: 6, stderr: expect.stringContaining('ENDED') })
    expect((await cli(['cancel', 'nothing'], at)).code).toBe(4)
  })

  it('migrations run once, and report a changed step', async () => {
    const file = join(folder.path, 'schema.mjs')
    const source = (sql: string) =>
      `import { migrations } from 'reprise/migrate'\nexport const schema = migrations('schema', { steps: [{ id: '001', sql: '${sql}' }] })\n`
    writeFileSync(file, source('CREATE TABLE note (id INTEGER)'))
    expect((await cli(['run', 'schema.mjs'], at)).stdout).toContain('1 step applied')
    expect((await cli(['run', 'schema.mjs'], at)).stdout).toContain('0 steps applied')
    writeFileSync(file, source('CREATE TABLE note (id TEXT)'))
    const drifted = await cli(['run', 'schema.mjs'], at)
    expect([drifted.code, drifted.stderr]).toEqual([6, expect.stringContaining('MIGRATION_DRIFT')])
  })
})

describe('workflows', () => {
  const source = (step: string) => `import { workflow } from 'reprise/workflow'
export const greet = workflow('greet', async (ctx, name) => {
  const text = await ctx.step('${step}', () => 'hello ' + name)
  return text + ' ' + (await ctx.signal('more'))
})
`

  it('are run, signalled, listed and checked against new code', async () => {
    writeFileSync(join(folder.path, 'greet.mjs'), source('compose'))
    const running = ownProcess(['run', 'greet.mjs', '--input', '"ann"', '--id', 'one', '--json'], at)
    await expect.poll(async () => (await cli(['ls', 'workflow/greet/'], at)).stdout).toContain('workflow/greet/one')
    await expect
      .poll(async () => (await cli(['log', 'workflow/greet/one', '--json'], at)).stdout)
      .toContain('hello ann')
    expect(await json(['check', 'greet.mjs'], at)).toMatchObject({ code: 0, value: { ok: true, checked: 1 } })
    writeFileSync(join(folder.path, 'changed.mjs'), source('another'))
    expect(await json(['check', 'changed.mjs'], at)).toMatchObject({ code: 9, value: { ok: false } })
    expect((await cli(['signal', 'workflow/greet/one', 'more', '"again"'], at)).code).toBe(0)
    const ended = await running
    expect([ended.code, JSON.parse(ended.stdout)]).toEqual([0, expect.objectContaining({ result: 'hello ann again' })])
  })
})

describe('reprise demo', () => {
  it('kills a job three times and loses nothing, in a pipe, without a question', async () => {
    const { code, value } = await json<{ lost: number; kills: number; repeated: number; items: number }>(
      ['demo', '--items', '400'],
      at,
    )
    expect([code, value.lost, value.kills, value.items]).toEqual([0, 0, 3, 400])
    expect(value.repeated).toBeLessThanOrEqual(24)
  })
})
