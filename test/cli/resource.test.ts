// reprise resource and reprise config, as a person uses them.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { exit } from '../../src/cli/exit.ts'
import { workFolder } from './support.ts'
import { cli } from './warm.ts'

const folder = workFolder()
const at = { cwd: folder.path }
afterAll(() => folder.remove())

const run = async (...args: string[]) => await cli(args, at)
const json = async (...args: string[]) => JSON.parse((await run(...args, '--json')).stdout)

beforeAll(async () => {
  writeFileSync(
    join(folder.path, 'few.mjs'),
    `import { config, resource } from 'reprise/resources'
const name = { '~standard': { version: 1, vendor: 'test', validate: (value) =>
  typeof value?.url === 'string' ? { value } : { issues: [{ message: 'url must be text' }] } } }
export const sites = resource('sites', { schema: name })
export const routes = config('routes')
export const job = (await import('reprise/job')).job('few', { source: ['a'], each: () => undefined })
`,
  )
  await run('run', 'few.mjs', 'few', '--report', 'none')
})

it('D1: objects of a kind are applied, followed, deleted and rolled back', async () => {
  writeFileSync(join(folder.path, 'site.json'), '[{"name":"web","spec":{"url":"a"}},{"name":"api","spec":{"url":"b"}}]')
  expect(await json('resource', 'apply', 'sites', 'site.json')).toMatchObject([{ name: 'web' }, { name: 'api' }])
  const [first] = await json('resource', 'apply', 'sites', '{"name":"web","spec":{"url":"c"}}')
  expect(first).toMatchObject({ generation: 2, spec: { url: 'c' } })
  expect((await json('resource', 'ls', 'sites')).items.map(({ name }: { name: string }) => name)).toEqual([
    'api',
    'web',
  ])
  const history = await json('resource', 'history', 'sites', 'web')
  expect(history.map(({ spec }: { spec: unknown }) => spec)).toEqual([{ url: 'a' }, { url: 'c' }])
  // A rollback is shown first, and writes a new revision.
  const to = String(history[0].revision)
  expect(await json('resource', 'rollback', 'sites', 'web', '--to', to)).toMatchObject({ applied: null })
  const back = await json('resource', 'rollback', 'sites', 'web', '--to', to, '--yes')
  expect(back.applied).toBeGreaterThan(first.revision)
  expect(await json('resource', 'get', 'sites', 'web')).toMatchObject({ spec: { url: 'a' }, generation: 3 })
  const refused = await run('resource', 'apply', 'sites', '{"name":"bad","spec":{}}', '--module', 'few.mjs')
  expect([refused.code, refused.stderr]).toEqual([exit.usage, expect.stringContaining('url must be text')])
  expect((await json('resource', 'delete', 'sites', 'api')).deleted).toBe(null)
  expect((await json('resource', 'delete', 'sites', 'api', '--yes')).deleted).toBe('api')
  expect((await run('resource', 'get', 'sites', 'api')).code).toBe(exit.notFound)
})

it('D1: a configuration is set, shown and rolled back, and reading creates nothing', async () => {
  expect((await run('config', 'get', 'routes')).code).toBe(exit.notFound)
  expect(await json('config', 'ls')).toEqual([])
  await run('config', 'apply', 'routes', '{"upstream":"a"}')
  expect(await json('config', 'apply', 'routes', '{"upstream":"b"}')).toEqual({ config: 'routes', version: 2 })
  expect((await json('config', 'history', 'routes')).map(({ version }: { version: number }) => version)).toEqual([1, 2])
  expect(await json('config', 'rollback', 'routes')).toMatchObject({ version: null, from: 1 })
  expect(await json('config', 'rollback', 'routes', '--yes')).toMatchObject({ version: 3, from: 1 })
  expect(await json('config', 'get', 'routes')).toEqual({ config: 'routes', version: 3, value: { upstream: 'a' } })
  expect(await json('config', 'status', 'routes')).toMatchObject({ latest: 3, clients: 0 })
})

it('D1: a wrong use is refused with what to do', async () => {
  for (const [args, code, words] of [
    [['resource', 'fly'], exit.usage, 'choose an action'],
    [['resource', 'get', 'sites'], exit.usage, 'get KIND NAME'],
    [['resource', 'ls', 'nothing'], exit.notFound, 'resource ls lists them'],
    [['resource', 'apply', 'sites', 'none.json'], exit.usage, 'is not JSON'],
    [['resource', 'apply', 'sites', '[5]'], exit.usage, 'each object needs a name'],
    [['resource', 'rollback', 'sites', 'web'], exit.usage, '--to names the revision'],
    [['config', 'rollback', 'nothing'], exit.notFound, 'config ls lists them'],
    [['config', 'pause', 'routes', 'x'], exit.usage, 'pause NAME VERSION'],
    [['config', 'apply', 'routes', '1', '--hold', '1m'], exit.usage, '--stages'],
  ] as const) {
    const ran = await run(...args)
    expect([args, ran.code, ran.stderr]).toEqual([args, code, expect.stringContaining(words)])
  }
})
