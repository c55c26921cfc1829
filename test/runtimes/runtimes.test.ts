// The packed tarball under other runtimes, which npm installs (offline they are skipped with the reason), and the conformance
// suite of the stores. `npm test` runs a slice of both on SQLite; `npm run test:runtimes` runs all on both stores and writes
// docs/runtimes.md. Some runtimes alone, whose columns are replaced:
//
//     REPRISE_RUNTIMES='Node 22,Bun 1.4' npx vitest run test/runtimes/runtimes.test.ts --update

import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bun, deno, installPackage, nodeAt, programOf, type Runtime } from '../support/runtimes.ts'
import { readTable, tableLines } from '../support/runtimes-table.ts'
import { storeUrls } from '../support/store-urls.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const chosen = process.env.REPRISE_RUNTIMES ?? ''
const runsAll = chosen !== ''
const scratch = mkdtempSync(join(tmpdir(), 'reprise-runtimes-'))

/** The whole suite runs on Node 20, and the package is tested on Node 24 in test/cli/package.test.ts. */
const all: readonly Runtime[] = [...['20', '22', '24', '26'].map(nodeAt), bun, deno]
const inCi = ['Node 22', 'Node 26', bun.name, deno.name]
const names = chosen === 'all' ? all.map(({ name }) => name) : chosen ? chosen.split(',') : inCi
const runtimes = names.map((name) => {
  const runtime = all.find((each) => each.name === name)
  if (!runtime) throw new Error(`REPRISE_RUNTIMES: ${name} is none of ${all.map((each) => each.name).join(', ')}`)
  return runtime
})

interface Checked {
  readonly check: string
  readonly ok: boolean
  readonly error: string | null
}
interface Group {
  readonly count: number
  readonly failed: readonly string[]
}
const results = new Map<string, readonly Checked[]>()
/** By runtime and store: how many cases of the conformance suite passed, of how many. */
const conformed = new Map<string, string>()

function run(command: string, args: readonly string[], cwd: string) {
  const env = { ...process.env, NODE_OPTIONS: '' }
  const ran = spawnSync(command, args, { cwd, encoding: 'utf8', timeout: 590_000, env })
  return { code: ran.status, stdout: ran.stdout ?? '', stderr: ran.stderr ?? '' }
}

beforeAll(() => {
  installPackage(scratch, runsAll ? ['pg@8'] : [])
  for (const name of ['checks.mjs', 'models.mjs']) copyFileSync(join(root, 'test/runtimes', name), join(scratch, name))
}, 600_000)
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

describe.each(runtimes)('E1: the package on $name', (runtime) => {
  it.each(runsAll ? ['sqlite', 'postgres'] : ['sqlite'])(
    'passes the checks on %s, and prints no warning',
    (kind) => {
      const program = programOf(runtime)
      if (!program) return
      const { url, remove } = storeUrls[kind]!()
      try {
        const args = [...(runtime.args ?? []), 'checks.mjs', url, ...(runsAll ? [] : ['slice'])]
        const { stdout, stderr } = run(program, args, scratch)
        const checked = stdout
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line) as Checked)
        results.set(`${runtime.name} ${kind}`, checked)
        expect(checked.filter(({ ok }) => !ok)).toEqual([])
        expect(checked.length).toBeGreaterThanOrEqual(3)
        expect(stderr).toBe('')
      } finally {
        remove()
      }
    },
    300_000,
  )

  it.each(runsAll ? ['sqlite', 'postgres'] : ['sqlite'])(
    'passes the conformance suite of the store on %s',
    (kind) => {
      const program = programOf(runtime)
      if (!program) return
      const { url, remove } = storeUrls[kind]!()
      try {
        const place = kind === 'sqlite' ? mkdtempSync(join(scratch, 'conformance-')) : url
        const args = [...(runtime.args ?? []), join(root, 'test/runtimes/conformance.mjs'), kind, place]
        const { code, stdout, stderr } = run(program, [...args, ...(runsAll ? [] : ['commits,feed,blobs'])], root)
        expect([code, stderr]).toEqual([0, ''])
        const groups = stdout
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line) as Group)
        const failed = groups.flatMap((group) => group.failed)
        const count = groups.reduce((sum, group) => sum + group.count, 0)
        conformed.set(`${runtime.name} ${kind}`, `${count - failed.length} of ${count}`)
        expect(failed).toEqual([])
        expect(count).toBeGreaterThan(20)
      } finally {
        remove()
      }
    },
    600_000,
  )
})

describe('E1: permissions of Deno', () => {
  const text = `import { open } from 'reprise'
    import { workflow } from 'reprise/workflow'
    const greet = workflow('greet', async (ctx) => await ctx.step('say', () => 'hello'))
    const outcome = async () => {
      const rp = await open('sqlite:permissions.db')
      const said = await (await rp.run(greet)).result()
      await rp.close()
      return said
    }
    console.log(await outcome().catch(({ code, message }) => code + ' ' + message))`
  const outcome = (flags: readonly string[]) => {
    const file = join(scratch, 'permissions.mjs')
    writeFileSync(file, text)
    return run(programOf(deno)!, ['run', '--no-prompt', ...flags, file], scratch).stdout.trim()
  }
  const enough = ['--allow-read', '--allow-write', '--allow-env', '--allow-sys']

  it.runIf(programOf(deno))('those of docs/guides/where-it-runs.md are enough', () => {
    expect(outcome(enough)).toBe('hello')
  })

  it.runIf(programOf(deno))('each that is missing is named at open', () => {
    for (const missing of enough) {
      const refused = outcome(enough.filter((flag) => flag !== missing))
      expect(refused).toMatch(/^STORE_DENIED deno refused a permission: /)
      expect(refused).toContain(missing)
    }
  })
})

it('E1: a program on Node 22 prints its own warnings, and none about the driver', () => {
  const program = programOf(nodeAt('22'))
  if (!program) return
  const text = `import { open } from 'reprise'
    process.emitWarning('before')
    const rp = await open('sqlite:warnings.db')
    await rp.close()
    process.emitWarning('SQLite is not the reason')`
  const { code, stderr } = run(program, ['--input-type=module', '-e', text], scratch)
  expect(code, stderr).toBe(0)
  expect(stderr.match(/Warning: .*/g)).toEqual(['Warning: before', 'Warning: SQLite is not the reason'])
})

it('E3: a connection of another driver than the store has is refused in Node 22, as a second copy of SQLite', () => {
  const program = programOf(nodeAt('22'))
  if (!program) return
  const text = `import { DatabaseSync as BuiltIn } from 'node:sqlite'
    import { open } from 'reprise'
    import { within } from 'reprise/within'
    const rp = await open('sqlite:drivers.db')
    class DatabaseSync { isTransaction = true; prepare() {} exec() {} }
    const own = new BuiltIn('drivers.db')
    own.exec('BEGIN')
    within(rp, own)
    own.close()
    try { within(rp, new DatabaseSync()) } catch (error) { console.log(error.code, error.message) }
    await rp.close()`
  const { stdout } = run(program, ['--input-type=module', '-e', text], scratch)
  expect(stdout).toMatch(/^INVALID_ARGUMENT @photostructure\/sqlite loads a second copy of SQLite/)
})

it.runIf(runsAll)('docs/runtimes.md is the table of these checks', async () => {
  const file = join(root, 'docs/runtimes.md')
  const kinds = ['sqlite', 'postgres']
  const checks = [...new Set([...results.values()].flatMap((checked) => checked.map(({ check }) => check)))]
  const passed = (name: string, check: string) => results.get(name)?.find((each) => each.check === check)?.ok
  const both = (name: string, check: string) =>
    kinds.map((kind) => (passed(`${name} ${kind}`, check) ? 'yes' : 'no')).join(', ')
  const cases = (name: string) => kinds.map((kind) => conformed.get(`${name} ${kind}`)).join(', ')
  const versionOf = (runtime: Runtime) => /\d+\.\d+\.\d+/.exec(run(programOf(runtime)!, ['--version'], root).stdout)![0]
  expect(results.size).toBe(2 * runtimes.length)
  const row = (cellOf: (runtime: Runtime) => string) => new Map(runtimes.map((each) => [each.name, cellOf(each)]))
  const cells = new Map([
    ['version', row(versionOf)],
    ['cases of the conformance suite', row(({ name }) => cases(name))],
    ...checks.map((check) => [check, row(({ name }) => both(name, check))] as const),
  ])
  const columns = all.map(({ name }) => name)
  const page = [
    '# Where it runs',
    '',
    'Node 20.19 or newer, Bun and Deno, from the same package. The table is written by `npm run test:runtimes`: each cell has the result',
    'on SQLite, then on PostgreSQL. The whole test suite runs on Node 20.',
    '',
    ...tableLines(columns, { columns: names, cells }, readTable(readFileSync(file, 'utf8'))),
    '',
    '- **Bun** does not measure how busy the event loop is: checkpoints are timed by the wall clock there.',
    '- **Deno** needs permissions: [where it runs](guides/where-it-runs.md#deno) lists them.',
    '- **Node 22** would print a warning about its SQLite driver; Reprise drops that warning and no other.',
    '- **Cloudflare workerd** (`nodejs_compat`) runs the models of this table and the handlers of `reprise/serverless` on PostgreSQL; it has no files,',
    '  so a SQLite store is refused with STORE_UNSUPPORTED, and no processes, so there is no command line.',
    '- **Serverless functions** on these runtimes: [Where it runs](guides/where-it-runs.md).',
    '',
  ].join('\n')
  await expect(page).toMatchFileSnapshot(file)
})
