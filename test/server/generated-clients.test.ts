// Clients that other tools generate from the OpenAPI document compile and work against a real server. npm and pip install the
// tools; where they cannot, for example offline, the test is skipped with the reason.

import { type SpawnSyncReturns, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { type Cleanups, Client, placeOn, startServe, tokenIn } from './serving.ts'

const cleanups: Cleanups = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const npmTools = ['openapi-typescript@7.13.0', 'openapi-fetch@0.17.0', 'typescript@5.9.3']
const pipTools = ['openapi-python-client==0.29.1']

function run(command: string, args: readonly string[], cwd: string): SpawnSyncReturns<string> {
  return spawnSync(command, args, { cwd, encoding: 'utf8', timeout: 240_000 })
}

/** Runs an installed tool, which must succeed. */
function mustRun(command: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr } = run(command, args, cwd)
  expect([status, status === 0 ? '' : stdout + stderr]).toEqual([0, ''])
  return stdout
}

/** The folder that `install` fills, once for all runs of this test; null where it cannot. */
function installed(name: string, install: (folder: string) => SpawnSyncReturns<string>): string | null {
  const home = join(tmpdir(), `reprise-${name}`)
  if (existsSync(home)) return home
  // Moved into place when it is complete: another run may install at the same time, or be killed.
  const folder = `${home}-${process.pid}`
  mkdirSync(folder)
  const { status, stderr, error } = install(folder)
  if (status === 0 && !existsSync(home)) renameSync(folder, home)
  rmSync(folder, { recursive: true, force: true })
  if (status === 0) return home
  const reason = stderr?.trim().split('\n').at(-1) || error?.message || 'it could not be installed'
  console.warn(`The client of ${name} is left out: ${reason}`)
  return null
}

/** A server, and its document in a file. */
async function served() {
  const place = await placeOn('sqlite', cleanups)
  await startServe(place, cleanups)
  const token = tokenIn(place.folder)
  const client = new Client(place.port, token)
  const { value } = await client.ask('/v1/openapi.json')
  const document = join(place.folder, 'openapi.json')
  writeFileSync(document, JSON.stringify(value))
  return { folder: place.folder, document, client, args: [`http://127.0.0.1:${place.port}`, token] }
}

const typescript = `
import createClient from 'openapi-fetch'
import type { components, paths } from './api.js'

declare const process: { readonly argv: readonly string[] }
const [baseUrl, token] = process.argv.slice(2)
const client = createClient<paths>({ baseUrl: baseUrl!, headers: { authorization: 'Bearer ' + token } })
const params = { path: { timeline: 'visits/ann' } }
const { data: written } = await client.POST('/v1/timelines/{timeline}/entries', {
  params,
  body: { entries: [{ type: 'added', data: { by: 3 } }] },
})
// @ts-expect-error: the type of an entry is required.
const wrong: components['schemas']['AppendBody'] = { entries: [{ data: {} }] }
const { data } = await client.GET('/v1/timelines', { params: { query: { prefix: 'visits/' } } })
const head: components['schemas']['Head'] = data!.timelines[0]!
const wakeup: number | null = head.wakeup
// @ts-expect-error: a sequence is a number.
const seq: string = head.seq
const { data: history } = await client.GET('/v1/timelines/{timeline}/history', { params })
const entries: components['schemas']['Entry'][] = history!.entries
const { error, response } = await client.POST('/v1/timelines/{timeline}/entries', { params, body: wrong })
const problem: components['schemas']['Problem'] = error!
console.log(JSON.stringify({
  written: written!.seq, timeline: head.timeline, wakeup, seq,
  types: entries.map(({ type }) => type), status: response.status, code: problem.code, remedy: problem.remedy,
}))
`

it('from openapi-typescript compiles, refuses wrong types and works', { timeout: 600_000 }, async (context) => {
  const tools = installed('openapi-typescript', (folder) => {
    writeFileSync(join(folder, 'package.json'), '{"private":true,"type":"module"}')
    return run(
      'npm',
      ['install', ...npmTools, '--silent', '--no-audit', '--no-fund', '--fetch-retries=1', '--ignore-scripts'],
      folder,
    )
  })
  if (tools === null) return context.skip()
  const { document, client, args } = await served()
  // Beside the packages of the program, which are found from its own folder upwards.
  const folder = join(tools, `program-${process.pid}`)
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(folder)
  writeFileSync(join(folder, 'program.ts'), typescript)
  const tool = (name: string) => join(tools, 'node_modules', name)
  mustRun(process.execPath, [tool('openapi-typescript/bin/cli.js'), document, '-o', join(folder, 'api.ts')], tools)
  const strict = ['--strict', '--noUncheckedIndexedAccess', '--module', 'nodenext', '--target', 'es2022']
  mustRun(process.execPath, [tool('typescript/bin/tsc'), ...strict, 'program.ts'], folder)
  const told = JSON.parse(mustRun(process.execPath, ['program.js', ...args], folder))
  const code = { status: 400, code: 'INVALID_ARGUMENT', remedy: 'fix' }
  expect(told).toEqual({ written: 1, timeline: 'visits/ann', wakeup: null, seq: 1, types: ['added'], ...code })
  expect(await client.keysOf('visits/ann')).toHaveLength(1)
})

const python = `
import json, sys
from client import AuthenticatedClient
from client.api.sidecar import append
from client.api.timelines import list_timelines, read_history, show_timeline
from client.models import AppendBody, AppendBodyEntriesItem, AppendBodyEntriesItemData, Head, Problem

server = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
data = AppendBodyEntriesItemData.from_dict({"by": 3})
body = AppendBody(entries=[AppendBodyEntriesItem(type_="added", data=data)])
written = append.sync("visits/ann", client=server, body=body)
found = list_timelines.sync(client=server, prefix="visits/")
[head] = found.timelines
assert isinstance(head, Head)
history = read_history.sync("visits/ann", client=server)
none = show_timeline.sync("visits/bob", client=server)
assert isinstance(none, Problem)
print(json.dumps({
    "written": written.seq, "timeline": head.timeline, "wakeup": head.wakeup, "seq": head.seq,
    "types": [entry.type_ for entry in history.entries], "status": none.status, "code": none.code,
    "remedy": none.remedy.value,
}))
`

it('from openapi-python-client is imported and works', { timeout: 600_000 }, async (context) => {
  const tools = installed('openapi-python-client', (folder) => {
    const made = run('python3', ['-m', 'venv', folder], tmpdir())
    return made.status === 0
      ? run(join(folder, 'bin/python'), ['-m', 'pip', 'install', '-q', '--retries=1', ...pipTools], folder)
      : made
  })
  if (tools === null) return context.skip()
  const { folder, document, client, args } = await served()
  const at = (program: readonly string[]) => mustRun(join(tools, 'bin/python'), program, folder)
  at(['-m', 'openapi_python_client', 'generate', '--path', document, '--output-path', 'client', '--meta', 'none'])
  writeFileSync(join(folder, 'program.py'), python)
  const told = JSON.parse(at(['program.py', ...args]))
  const code = { status: 404, code: 'NOT_FOUND', remedy: 'fix' }
  expect(told).toEqual({ written: 1, timeline: 'visits/ann', wakeup: null, seq: 1, types: ['added'], ...code })
  expect(await client.keysOf('visits/ann')).toHaveLength(1)
})
