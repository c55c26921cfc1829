// A PostgreSQL server that is away for longer than the default of --away-for: work continues where the option allows for it.

import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { toMs } from '../../src/core/duration.ts'
import { defaultPatience } from '../../src/engine/api/open-options.ts'
import { binIn, cli, workFolder } from '../cli/support.ts'
import { pause, until } from '../support/fixture.ts'
import { startPostgres, type TestPostgres } from '../support/postgres.ts'

const given = process.env.REPRISE_TEST_POSTGRES
if (given) console.log('PostgreSQL away for long: skipped, the server was given by REPRISE_TEST_POSTGRES')
const folder = workFolder()

describe.skipIf(given)('a PostgreSQL server that is away for longer than the default', () => {
  let server: TestPostgres
  beforeAll(async () => {
    server = await startPostgres()
  })
  afterAll(async () => {
    await server.stop()
    folder.remove()
  })

  it('ends neither `reprise run` nor `reprise serve --work` with a longer --away-for', async () => {
    // Each item names itself in a file, so that the outage begins and ends between two of them.
    writeFileSync(join(folder.path, 'job.mjs'), jobOf())
    writeFileSync(join(folder.path, 'served.mjs'), pipelineOf())
    const where = ['--url', server.url, '--away-for', '10m']
    const running = cli(['run', 'job.mjs', '--report', 'none', ...where], { cwd: folder.path })
    const serving = spawn(
      process.execPath,
      [binIn(folder.path), 'serve', '--port', '0', '--work', '--module', 'served.mjs', ...where],
      { cwd: folder.path, stdio: 'ignore' },
    )
    const ended = new Promise((resolve) => serving.once('exit', resolve))
    try {
      await until(() => itemsIn('run.log') > 2 && itemsIn('serve.log') > 2)
      await server.kill()
      await pause(toMs(defaultPatience, 'default') + 3000)
      await server.restart()
      const [atRun, atServe] = [itemsIn('run.log'), itemsIn('serve.log')]
      await until(() => itemsIn('run.log') > atRun && itemsIn('serve.log') > atServe, running)
      writeFileSync(join(folder.path, 'end'), '')
      const { code, stderr } = await running
      expect([code, stderr.includes('STORE_UNREACHABLE')]).toEqual([0, false])
      expect(serving.exitCode).toBe(null)
    } finally {
      writeFileSync(join(folder.path, 'end'), '')
      serving.kill('SIGTERM')
      await ended
    }
  }, 400_000)
})

/** Yields items until the file `end` exists. */
function jobOf(): string {
  return `
    import { appendFileSync, existsSync } from 'node:fs'
    import { job } from 'reprise/job'
    async function* items() {
      for (let n = 0; !existsSync('end'); n++) {
        yield String(n)
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
    }
    const each = (item) => appendFileSync('run.log', item + '\\n')
    export const work = job('ran', { source: items, each, checkpoint: { every: 1 } })
  `
}

/** The work of the server: it begins without a command. */
function pipelineOf(): string {
  return `
    import { appendFileSync } from 'node:fs'
    import { generatedSource, pipeline, sendSink } from 'reprise/pipeline'
    const send = async (n) => {
      appendFileSync('serve.log', n + '\\n')
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    const build = (p) => p.from('n', generatedSource((n) => n)).to('log', sendSink(send, { concurrency: 1 }))
    export const work = pipeline('served', (p) => void build(p), { checkpoint: { every: '1s' } })
  `
}

function itemsIn(log: string): number {
  try {
    return readFileSync(join(folder.path, log), 'utf8').split('\n').length - 1
  } catch {
    return 0
  }
}
