// A7.3 on PostgreSQL: the plan of `reprise backup --plan`, executed on a real server, archives its log; a base and that log
// restore the server to any moment, also after the server and the restore were killed with SIGKILL; a drill measures it.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { restoreArchive } from '../../src/engine/tools/archive/archive.ts'
import { open, type Reprise, timeline } from '../../src/index.ts'
import { backupPlan } from '../../src/operations/backup-plan.ts'
import { drillArchive } from '../../src/operations/copy-drill.ts'
import { checkStore } from '../../src/operations/doctor.ts'
import { bin } from '../cli/support.ts'
import { temporaryFolder, until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { freePort } from '../support/parts.ts'
import { installedWith, startPostgres, type TestPostgres } from '../support/postgres.ts'

const programs = installedWith('pg_basebackup')
if (programs === null) {
  console.log(
    'no installed PostgreSQL server with pg_basebackup (Debian: postgresql-15): its archive is not tested here',
  )
}

const counter = timeline('counter', {
  initial: () => 0,
  apply: (sum: number, e: { type: 'x'; by: number }) => sum + e.by,
})
const folder = temporaryFolder('server-archive')
const place = join(folder, 'place')
const config = { housekeeping: false } as const

async function add(rp: Reprise, id: string, count: number): Promise<void> {
  const handle = await rp.open(counter, id)
  for (let n = 0; n < count; n++) await handle.append({ type: 'x', by: 1 })
  await handle.close()
}

async function sql(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new Client(url)
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

/** Ends the segment of the log, and waits until it is in the archive. */
async function archived(url: string): Promise<void> {
  const [row] = await sql(url, 'SELECT pg_walfile_name(pg_switch_wal()) AS name')
  await until(() => existsSync(join(place, 'wal', String(row!.name))))
}

function cliArgs(...args: string[]): [string, string[]] {
  return [process.execPath, [bin, ...args]]
}

/** A server on restored data; the returned function ends it. */
async function startOn(data: string): Promise<{ readonly url: string; stop(): void }> {
  const port = await freePort()
  const options = `-c port=${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''`
  const run = (args: string[]) =>
    execFileSync(join(programs!, 'pg_ctl'), ['-D', data, '-w', ...args], {
      ...server.account,
      cwd: '/',
      stdio: 'ignore',
    })
  run(['-l', `${data}.log`, '-o', options, 'start'])
  return { url: `postgres://postgres@127.0.0.1:${port}/postgres`, stop: () => run(['-m', 'fast', 'stop']) }
}

let server: TestPostgres

describe.skipIf(programs === null)('an archived PostgreSQL server', () => {
  beforeAll(async () => {
    server = await startPostgres({}, 'pg_basebackup')
    mkdirSync(place)
    chmodSync(folder, 0o755)
    const { uid, gid } = server.account ?? { uid: process.getuid!(), gid: process.getgid!() }
    for (const each of [folder, place]) chownSync(each, uid, gid)
  })
  afterAll(async () => {
    await server?.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  it('A7.3: the plan prints settings that archive the log, and checks them', async () => {
    const before = await open(server.url, config)
    await add(before, 'a', 1)
    const plan = await backupPlan(before, { place, loseAtMostMs: 60_000 })
    expect(plan.steps.filter(({ isDone }) => !isDone).map(({ name }) => name)).toEqual([
      ...['archive_mode', 'archive_command', 'archive_timeout', 'base backup', 'drill'],
    ])
    for (const { name, run } of plan.steps) if (name.startsWith('archive') && run !== null) await sql(server.url, run)
    await before.close()
    await server.restart()
    const rp = await open(server.url, config)
    const after = await backupPlan(rp, { place, loseAtMostMs: 60_000 })
    expect(after.steps.filter(({ isDone }) => !isDone).map(({ name }) => name)).toEqual(['base backup', 'drill'])
    await rp.close()
  })

  it('A7.3: restores to a moment, after the server and the restore were killed; a drill measures RPO and RTO', async () => {
    const rp = await open(server.url, config)
    // 1. A base, by the command line.
    const base = execFileSync(
      ...cliArgs('backup', '--base', place, '--lose-at-most', '1m', '--url', server.url, '--json'),
    )
    expect(JSON.parse(String(base))).toMatchObject({ place, removed: [] })
    // 2. Work before the moment, and after it.
    await add(rp, 'a', 4)
    const [{ now }] = (await sql(server.url, 'SELECT clock_timestamp() AS now')) as [{ now: Date }]
    await until(() => Date.now() > now.getTime() + 1)
    const moment = now.getTime() + 1
    await add(rp, 'a', 10)
    await add(rp, 'late', 1)
    await archived(server.url)
    // 3. A drill. Entries that are not archived yet would be lost.
    await add(rp, 'a', 2)
    const drill = await drillArchive(rp, place)
    expect(drill).toMatchObject({ ok: true, entriesLost: 2, timelinesLost: 0, faults: [] })
    expect(drill.rpoMs).toBeGreaterThan(0)
    expect(drill.rtoMs).toBeCloseTo(drill.restoreMs + drill.verifyMs)
    const checks = (await checkStore(rp)).filter(({ name }) => name === 'archive')
    expect(checks).toMatchObject([{ name: 'archive', state: 'ok' }])
    const { incarnation } = await hostOf(rp).identity.load(true)
    await rp.close()
    await server.kill()
    // 4. A restore that is killed while its server replays, and its repetition.
    const data = join(folder, 'restored')
    const at = new Date(moment).toISOString()
    await killedOnce(data, ['restore', place, '--data', data, '--at', at])
    const restored = await restoreArchive(place, data, { at: moment })
    expect(restored).toMatchObject({ data, isLater: false, stores: 1 })
    expect(restored.moment).toBeLessThanOrEqual(moment)
    expect(readdirSync(folder).filter((name) => name.includes('.part'))).toEqual([])
    // 5. The store of that moment, as a new incarnation, continues.
    const running = await startOn(data)
    try {
      const again = await open(running.url, config)
      const handle = await again.open(counter, 'a')
      expect(handle.state).toBe(5)
      expect(await again.list({ prefix: 'counter/' })).toHaveLength(1)
      expect((await hostOf(again).identity.load(true)).incarnation).not.toBe(incarnation)
      expect((await again.verify()).ok).toBe(true)
      await handle.append({ type: 'x', by: 1 })
      expect(handle.state).toBe(6)
      const [archive] = (await checkStore(again)).filter(({ name }) => name === 'archive')
      expect(archive).toMatchObject({
        state: 'bad',
        what: expect.stringContaining('does not archive its log any more'),
      })
      await again.close()
    } finally {
      running.stop()
    }
    // 6. Times outside of the archive.
    await expect(restoreArchive(place, join(folder, 'early'), { at: 0 })).rejects.toMatchObject({
      code: 'OUT_OF_RANGE',
    })
    await expect(restoreArchive(place, data)).rejects.toMatchObject({ code: 'EXISTS' })
    const newest = await restoreArchive(place, join(folder, 'newest'), { at: Date.now() + 3_600_000 })
    expect(newest).toMatchObject({ isLater: true })
    expect(newest.moment).toBeGreaterThan(moment)
    await server.restart()
  }, 600_000)
})

/** SIGKILL to the command once its server runs. */
async function killedOnce(data: string, args: string[]): Promise<void> {
  const child: ChildProcess = spawn(...cliArgs(...args), { stdio: 'ignore' })
  const closed = new Promise((resolve) => child.once('close', resolve))
  await until(() => existsSync(join(`${data}.part`, 'postmaster.pid')) || child.exitCode !== null)
  child.kill('SIGKILL')
  await closed
}
