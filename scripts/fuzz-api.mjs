// npm run fuzz:api -- [--examples N] [--seed N] [--only OPERATION] [--quick]: a server over a store in memory, which receives
// requests that schemathesis generates from the server's own OpenAPI document. Every response must be in that document: its
// status, the type of its body, and the form of the body; and no response is a fault of the server. Needs Python with
// schemathesis (pip install schemathesis), found on the PATH or named by REPRISE_SCHEMATHESIS.

import { spawn, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

/**
 * The checks against the document. The other checks have opinions that HTTP does not share, or sign in to an account.
 */
const checks = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
  'negative_data_rejection',
  'ignored_auth',
]

/** Timelines of the store; null: generated ids only. */
const known = [null, 'counter/visits', 'workflow/flow/one', 'job/few']

const { values } = parseArgs({
  options: {
    examples: { type: 'string', default: '20' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
    /** Generated ids only. */
    quick: { type: 'boolean', default: false },
    /** Prints the place of schemathesis, or nothing. */
    find: { type: 'boolean', default: false },
  },
})

const program = findProgram()
if (values.find) console.log(program ?? '')
else if (program) process.exitCode = await fuzz(program)
else {
  console.error('schemathesis was not found: pip install schemathesis, or name it in REPRISE_SCHEMATHESIS')
  process.exitCode = 2
}

function findProgram() {
  const { REPRISE_SCHEMATHESIS: named } = process.env
  return [named, 'schemathesis', 'st'].find(
    (each) => each && /schemathesis/i.test(String(spawnSync(each, ['--version'], { encoding: 'utf8' }).stdout)),
  )
}

async function fuzz(command) {
  const { url, token, isWhole, close } = await start()
  const { routes } = await import('../dist/server/routes/index.js')
  const streams = routes.filter(({ isStream }) => isStream).map(({ id }) => id)
  const folder = mkdtempSync(join(tmpdir(), 'reprise-fuzz-'))
  let worst = 0
  // Generated ids almost never exist: existing ids are requested as well.
  for (const timeline of values.quick ? known.slice(0, 1) : known) {
    const config = join(folder, 'schemathesis.toml')
    writeFileSync(config, configOf(timeline))
    const args = [
      ...['--config-file', config, 'run', `${url}/v1/openapi.json`, '--no-color'],
      ...['--header', `Authorization: Bearer ${token}`, '--request-timeout', '60', '--generation-database', 'none'],
      ...[
        '--checks',
        checks.join(','),
        '--max-examples',
        values.examples,
        '--seed',
        values.seed,
        '--phases',
        'fuzzing',
      ],
      // Streams stay open as long as their clients want.
      ...(values.only
        ? ['--include-operation-id', values.only]
        : streams.flatMap((id) => ['--exclude-operation-id', id])),
      ...(timeline === null || values.only ? [] : ['--include-path-regex', '/v1/timelines/[{]timeline[}]']),
    ]
    console.log(`schemathesis, ${timeline ?? 'any ids'}`)
    // It keeps files in its working directory.
    const child = spawn(command, args, { cwd: folder, stdio: 'inherit' })
    const code = await new Promise((resolve, reject) => {
      child.once('error', reject)
      child.once('close', resolve)
    })
    worst ||= code
  }
  const faults = await isWhole()
  if (faults.length > 0) console.error(`the store is damaged: ${JSON.stringify(faults)}`)
  await close()
  rmSync(folder, { recursive: true, force: true })
  return worst || (faults.length > 0 ? 1 : 0)
}

/** A request that is too large must be refused as such. */
function configOf(timeline) {
  const parameters = timeline === null ? '' : `[parameters]\n"path.timeline" = ${JSON.stringify(timeline)}\n`
  return `${parameters}[checks.negative_data_rejection]\nexpected-statuses = [400, 401, 403, 404, 409, 413, 422, 431, 503]\n`
}

/** A store with data of every kind. */
async function start() {
  const { open, timeline } = await import('../dist/index.js')
  const { job } = await import('../dist/layers/job/index.js')
  const { workflow } = await import('../dist/layers/workflow/index.js')
  const { serve } = await import('../dist/server/index.js')
  const { listen } = await import('../dist/server/listen.js')
  const { defaultServerLimits } = await import('../dist/server/limits.js')
  const counter = timeline('counter', { initial: () => ({ total: 0 }), apply: ({ total }) => ({ total: total + 1 }) })
  const flow = workflow('flow', async (ctx) => {
    ctx.onQuery('sum', (n) => n)
    return await ctx.signal('go')
  })
  const few = job('few', {
    source: ['a', 'bad'],
    key: (item) => item,
    retry: { attempts: 1 },
    each(item) {
      if (item === 'bad') throw new Error('no')
    },
  })
  const rp = await open('memory:', { housekeeping: false })
  const handle = await rp.open(counter, 'visits')
  for (let n = 0; n < 3; n++) await handle.append({ type: 'added' })
  await handle.checkpoint()
  await handle.close()
  await rp.run(few).result()
  await rp.run(flow, { id: 'one' })
  const token = randomUUID() + randomUUID()
  // A client may wait for something that never happens: the wait is cut short.
  const limits = { ...defaultServerLimits, requestMs: 2000 }
  const server = serve(rp, {
    tokens: [{ name: 'fuzz', token, role: 'write' }],
    definitions: [counter, flow, few],
    limits,
  })
  const listening = await listen(server, { port: 0, limits })
  return {
    url: listening.url,
    token,
    isWhole: async () => (await rp.verify()).faults,
    async close() {
      await listening.close()
      await server.close()
      await rp.close()
    },
  }
}
