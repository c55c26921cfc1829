// The documented shapes of --json (docs/guides/cli.md), compared with the output of the commands.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { commands } from '../../src/cli/commands.ts'
import { root, workFolder } from './support.ts'
import { cli } from './warm.ts'

const folder = workFolder()
const at = { cwd: folder.path }
afterAll(() => folder.remove())

/** Shapes by command, in the order of the page: '{ a, b: [{ c }], d? }' is a, b, d?. */
const documented = new Map<string, string[][]>()
const guide = readFileSync(join(root, 'docs/guides/cli.md'), 'utf8').split('\n## JSON\n')[1]!
const rows = guide.matchAll(/^\| (`[a-z-]+`.*?) \| (.*) \|$/gm)
const sections = guide.matchAll(/^### JSON of (`[a-z-]+`.*)\n\n((?:(?!\n#)[\s\S])*)/gm)
for (const [, names, text] of [...rows, ...sections]) {
  const shapes = text!.replaceAll(/\n */g, ' ')
  const keys = [...shapes.matchAll(/`(\[?\{.*?\}\]?)`/g)].map(([, shape]) => topLevel(shape!))
  for (const [, name] of names!.matchAll(/`([a-z-]+)`/g)) {
    documented.set(name!, [...(documented.get(name!) ?? []), ...keys])
  }
}

function topLevel(shape: string): string[] {
  let text = shape.replace(/^\[/, '').replace(/\]$/, '').slice(1, -1)
  for (let before = ''; before !== text; ) {
    before = text
    text = text.replace(/(\[|\{)[^[\]{}]*(\]|\})/g, '')
  }
  return text.split(',').map((part) => part.split(':')[0]!.trim())
}

function matches(value: unknown, shape: readonly string[]): boolean {
  const keys = Object.keys(value as object)
  const required = shape.filter((key) => !key.endsWith('?'))
  const allowed = new Set(shape.map((key) => key.replace('?', '')))
  return required.every((key) => keys.includes(key)) && keys.every((key) => allowed.has(key))
}

beforeAll(async () => {
  writeFileSync(
    join(folder.path, 'few.mjs'),
    `import { job } from 'reprise/job'
import { migrations } from 'reprise/migrate'
import { workflow } from 'reprise/workflow'
export const few = job('few', {
  source: ['a', 'b', 'c'],
  retry: { attempts: 1 },
  each: (item, ctx) => { if (item !== 'a' && !process.env.WELL) throw new Error('not ' + item) },
})
export const schema = migrations('schema', { steps: [{ id: '001', sql: 'CREATE TABLE t (id INTEGER)' }] })
export const greet = workflow('greet', async (ctx, name) => 'hello ' + name + (await ctx.signal('more', { timeout: '1ms', otherwise: '' })))
export const waits = workflow('waits', (ctx) => ctx.signal('go'))
`,
  )
  await cli(['run', 'few.mjs', 'few', '--report', 'none'], at)
  await cli(['run', 'few.mjs', 'greet', '--id', 'one', '--input', '"ann"'], at)
  writeFileSync(join(folder.path, 'done.jsonl'), '"x"\n')
  const { open } = await import(pathToFileURL(join(root, 'dist/index.js')).href)
  const { waits } = await import(pathToFileURL(join(folder.path, 'few.mjs')).href)
  const rp = await open(`sqlite:${join(folder.path, '.reprise/reprise.db')}`)
  for (const id of ['one', 'two', 'three']) await rp.run(waits, { id, here: false })
  await rp.close()
})

/** In an order that works: later ones change the data that earlier ones read. */
const calls: readonly (readonly [string, readonly string[]])[] = [
  ['ls', []],
  ['log', ['few']],
  ['tail', ['job/few', '--once']],
  ['checkpoints', ['few']],
  ['at', ['few']],
  ['diff', ['few@1', 'few']],
  ['run', ['few.mjs', 'few', '--report', 'none']],
  ['run', ['few.mjs', 'schema', '--dry-run']],
  ['run', ['few.mjs', 'schema']],
  ['run', ['few.mjs', 'greet', '--id', 'one']],
  ['check', ['few.mjs']],
  ['lint', ['few.mjs']],
  ['export', ['few', 'few.rp']],
  ['export', ['few', 'few.jsonl', '--progress']],
  ['export', ['workflow/greet/one', 'one.json', '--history']],
  ['import', ['done.jsonl', '--progress', 'moved']],
  ['savepoint', ['few']],
  ['group', ['capture', 'cut', 'few', 'waits/one']],
  ['group', ['ls']],
  ['group', ['show', 'cut']],
  ['group', ['line', 'few', 'waits/one']],
  ['group', ['restore', 'cut', '--yes']],
  ['group', ['release', 'cut']],
  ['move', ['waits/one', '--to', 'sqlite:other.db']],
  ['verify', []],
  ['drill', ['few']],
  ['prune', []],
  ['tiers', []],
  ['dead', ['few']],
  ['dead', ['few', '--discard', 'b']],
  ['redrive', ['few', 'c']],
  ['rollback', ['few@2', '--yes']],
  ['delete', ['few']],
  ['workers', ['--all']],
  ['queues', []],
  ['query', ['workflow/greet/one', 'status']],
  ['backup', ['all.rpb']],
  ['restore', ['all.rpb', '--url', 'sqlite:restored.db']],
  ['ship', ['shipped', '--once']],
  ['ship', ['shipped', '--verify']],
  ['drill', ['--shipped', 'shipped']],
  ['restore', ['shipped', '--into', 'sqlite:again.db']],
  ['signal', ['waits/three', 'go']],
  ['terminate', ['waits/two', '--yes']],
  ['cancel', ['few']],
  ['card', ['few']],
  ['doctor', []],
  ['advise', []],
  ['init', ['fresh', '--yes']],
  ['demo', ['--items', '60', '--kills', '1']],
  ['resource', ['apply', 'sites', '{"name":"web","spec":{"replicas":1}}']],
  ['resource', ['apply', 'sites', '{"name":"web","spec":{"replicas":2}}']],
  ['resource', ['ls']],
  ['resource', ['ls', 'sites']],
  ['resource', ['get', 'sites', 'web']],
  ['resource', ['watch', 'sites', '--once']],
  ['resource', ['history', 'sites', 'web']],
  ['resource', ['rollback', 'sites', 'web', '--to', String(Number.MAX_SAFE_INTEGER), '--yes']],
  ['resource', ['delete', 'sites', 'web', '--yes']],
  ['config', ['apply', 'routes', '{"upstream":"a"}']],
  ['config', ['apply', 'routes', '{"upstream":"b"}', '--stages', '0.5,1']],
  ['config', ['ls']],
  ['config', ['get', 'routes']],
  ['config', ['status', 'routes']],
  ['config', ['watch', 'routes', '--once']],
  ['config', ['history', 'routes']],
  ['config', ['withdraw', 'routes', '2']],
  ['config', ['rollback', 'routes', '--to', '1', '--yes']],
  ['explain', ['FENCED']],
  ['explain', []],
  ['completion', ['bash']],
  ['version', []],
]

it.each(calls)('D1: %s %o writes the documented output', async (name, args) => {
  const ran = await cli([name, ...args, '--json'], at)
  const values = ran.stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown)
  const value = Array.isArray(values[0]) ? (values[0][0] as unknown) : values[0]
  expect(value, `${ran.stdout}${ran.stderr}`).toBeTypeOf('object')
  const shapes = documented.get(name) ?? []
  expect(shapes.length).toBeGreaterThan(0)
  expect(
    shapes.some((shape) => matches(value, shape)),
    `${Object.keys(value as object).join(', ')} is none of ${shapes.map((shape) => `{ ${shape.join(', ')} }`).join(' ')}`,
  ).toBe(true)
})

it('D1: every command has its shape in the guide', () => {
  expect(commands.map((spec) => spec.name).filter((name) => !documented.has(name))).toEqual([])
})
