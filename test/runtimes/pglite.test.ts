// PGlite, a PostgreSQL in WebAssembly, for tests without a server: it has no fsync, so that a store there is refused unless its
// URL accepts the loss of commits. npm installs it; offline the test is skipped with the reason.

import { spawn, spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { open } from 'reprise'
import { workflow } from 'reprise/workflow'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../support/fixture.ts'
import { pglite, programOf } from '../support/runtimes.ts'

const socket = programOf(pglite)
const pathOf = (name: string) => fileURLToPath(new URL(name, import.meta.url))
/** Skipped: PGlite executes one transaction at a time, and its connections share one session. */
const groups =
  process.env.REPRISE_RUNTIMES === 'all'
    ? 'commits,digests,operations,ownership,lineage,lives,catalog,inbox,claim,feed,queries,upkeep,blobs,rewriting,namespaces'
    : 'commits,claim'

describe.runIf(socket)('E1: PGlite', () => {
  let url = ''
  let stop: () => Promise<unknown> = async () => undefined
  beforeAll(async () => {
    const child = spawn(process.execPath, [pathOf('pglite-server.mjs'), socket!], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const ended = new Promise((resolve) => child.once('exit', resolve))
    stop = () => {
      child.kill('SIGKILL')
      return ended
    }
    let port = ''
    child.stdout.on('data', (text) => {
      port += text
    })
    await until(() => /^\d+\s/.test(port), ended)
    url = `postgres://postgres@127.0.0.1:${port.trim()}/postgres`
  })
  afterAll(() => stop())

  it('is refused, because it may lose acknowledged commits', async () => {
    await expect(open(url)).rejects.toMatchObject({ code: 'STORE_DURABILITY', data: { fsync: 'off' } })
  })

  it('executes runs with relaxed durability', async () => {
    const greet = workflow('greet', async (ctx, name: string) => {
      const words = await ctx.step('say', () => `hello ${name}`)
      await ctx.sleep('20ms')
      return words
    })
    await using rp = await open(`${url}?durability=relaxed`)
    expect(await (await rp.run(greet, 'ann')).result()).toBe('hello ann')
  })

  it('passes the conformance suite of the store, one transaction at a time', () => {
    const args = [pathOf('conformance.mjs'), 'postgres', `${url}?durability=relaxed&schema=conformance`, groups]
    const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
    expect(stdout, stderr).not.toBe('')
    const found = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { group: string; count: number; failed: string[] })
    expect(found.flatMap(({ failed }) => failed)).toEqual([])
    expect(found.map(({ group }) => group)).toEqual(groups.split(','))
  }, 300_000)
})
