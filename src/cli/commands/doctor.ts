// reprise doctor: looks at everything that recovery rests on, and says of each thing whether it is well.

import { accessSync, constants, existsSync, statfsSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Reprise } from '../../engine/reprise.ts'
import { headsOf } from '../../engine/verify.ts'
import { type Command, text } from '../command.ts'
import { exit, exitCodeOf } from '../exit.ts'
import { bytes, count, relative } from '../format.ts'
import { openEngine, shownUrl, urlOf } from '../store.ts'

type State = 'ok' | 'warning' | 'bad'

interface Check {
  readonly name: string
  readonly state: State
  readonly what: string
  readonly cure?: string
}

const diskLeastBytes = 500 * 1024 * 1024
const clockOffMs = 5000
const stuckMs = 60_000
const drillEveryMs = 30 * 86_400_000
const timelinesLookedAt = 2000

const doctor: Command = async ({ options, output }) => {
  const checks: Check[] = [checkNode(), await checkDriver()]
  const given = { url: text(options, 'url'), namespace: text(options, 'namespace') }
  const url = urlOf(given)
  const file = /^sqlite:(?:\/\/(?=\/))?(.+)$/.exec(url)?.[1]
  if (file) checks.push(...checkFile(file))
  let code: number = exit.ok
  if (!file || existsSync(file)) {
    try {
      const engine = await openEngine(given)
      try {
        checks.push(...(await checkStore(engine)))
      } finally {
        await engine.close()
      }
    } catch (error) {
      code = exitCodeOf(error)
      const { message, hint } = error as { message: string; hint?: string }
      checks.push({ name: 'store', state: 'bad', what: `${shownUrl(url)}: ${message}`, ...(hint && { cure: hint }) })
    }
  }
  const isBad = checks.some((check) => check.state === 'bad')
  output.result({ ok: !isBad, checks }, () => {
    const { green, yellow, red, dim } = output.colours
    const signs = { ok: green('ok     '), warning: yellow('warning'), bad: red('bad    ') }
    const widest = Math.max(...checks.map((check) => check.name.length))
    for (const { name, state, what, cure } of checks) {
      output.line(`${signs[state]}  ${name.padEnd(widest)}  ${what}`)
      if (cure) output.line(`${' '.repeat(widest + 11)}${dim(cure)}`)
    }
  })
  return code !== exit.ok ? code : isBad ? exit.failed : exit.ok
}

export default doctor

function checkNode(): Check {
  const { node } = process.versions
  const major = Number(node.split('.')[0])
  return major % 2 === 0
    ? { name: 'node', state: 'ok', what: node }
    : {
        name: 'node',
        state: 'warning',
        what: `${node} is not a long-term version`,
        cure: 'use an even major version in production',
      }
}

async function checkDriver(): Promise<Check> {
  const [major, minor] = process.versions.node.split('.').map(Number) as [number, number]
  if (major > 22 || (major === 22 && minor >= 13)) return { name: 'driver', state: 'ok', what: 'node:sqlite, built in' }
  try {
    await import('@photostructure/sqlite')
    return { name: 'driver', state: 'ok', what: '@photostructure/sqlite' }
  } catch (error) {
    return {
      name: 'driver',
      state: 'bad',
      what: (error as Error).message.split('\n')[0]!,
      cure: 'npm install reprise again on this platform',
    }
  }
}

function checkFile(file: string): Check[] {
  const folder = existsSync(file) ? dirname(file) : nearestFolder(dirname(file))
  const checks: Check[] = []
  try {
    accessSync(existsSync(file) ? file : folder, constants.W_OK)
    checks.push({ name: 'file', state: 'ok', what: existsSync(file) ? file : `${file} will be made by the first run` })
  } catch {
    checks.push({
      name: 'file',
      state: 'bad',
      what: `${file} cannot be written`,
      cure: 'make it writable, or name another with --url',
    })
  }
  const { bavail, bsize, type } = statfsSync(folder)
  const free = bavail * bsize
  checks.push(
    free < diskLeastBytes
      ? {
          name: 'disk',
          state: 'bad',
          what: `${bytes(free)} free`,
          cure: 'make room: writing stops when the disk is full',
        }
      : { name: 'disk', state: 'ok', what: `${bytes(free)} free` },
  )
  const shared = sharedKinds[type]
  checks.push(
    shared
      ? {
          name: 'locks',
          state: 'bad',
          what: `the file lies on ${shared}`,
          cure: 'SQLite needs a local disk: its locks do not hold over a network',
        }
      : { name: 'locks', state: 'ok', what: 'a local file system' },
  )
  return checks
}

/** File systems on which locks are not to be trusted, by the kernel's magic number. */
const sharedKinds: Readonly<Record<number, string>> = {
  26985: 'NFS',
  4283649346: 'SMB',
  20859: 'SMB',
  4266872130: 'SMB',
}

function nearestFolder(folder: string): string {
  return existsSync(folder) || folder === dirname(folder) ? folder : nearestFolder(dirname(folder))
}

async function checkStore(engine: Reprise): Promise<Check[]> {
  const facts = await engine.facts()
  const settings = Object.entries(facts.durability)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ')
  const checks: Check[] = [
    {
      name: 'store',
      state: 'ok',
      what: `${facts.kind} at ${facts.location}${facts.sizeBytes === null ? '' : `, ${bytes(facts.sizeBytes)}`}`,
    },
    { name: 'schema', state: 'ok', what: `version ${facts.schemaVersion}` },
    { name: 'durability', state: 'ok', what: settings || 'none: everything is gone with the process' },
  ]
  const before = Date.now()
  await engine.kernel.worker.register()
  const off = Math.abs(engine.kernel.worker.now() - (before + Date.now()) / 2)
  checks.push(
    off > clockOffMs
      ? {
          name: 'clock',
          state: 'warning',
          what: `${Math.round(off / 1000)} s apart from the store's`,
          cure: 'set the clock; ownership does not depend on it, records do',
        }
      : { name: 'clock', state: 'ok', what: 'agrees with the store' },
  )
  checks.push(...(await checkWorkers(engine)), ...(await checkCheckpoints(engine)))
  return checks
}

async function checkWorkers(engine: Reprise): Promise<Check[]> {
  const now = engine.kernel.worker.now()
  const rows = (await engine.workers()).filter((row) => row.id !== engine.kernel.worker.id && !row.isRetired)
  const stale: string[] = []
  const stuck: string[] = []
  for (const row of rows) {
    const owned = await engine.list({ owner: row.id, limit: 1 })
    if (owned.length === 0) continue
    if (!row.isAlive) stale.push(row.id)
    else if (now - row.progressAt > stuckMs) stuck.push(row.id)
  }
  const checks: Check[] = []
  if (stale.length > 0)
    checks.push({
      name: 'workers',
      state: 'warning',
      what: `gone without letting go: ${stale.join(', ')}`,
      cure: 'run the work again: it is taken over at once',
    })
  if (stuck.length > 0)
    checks.push({
      name: 'workers',
      state: 'warning',
      what: `alive without progress: ${stuck.join(', ')}`,
      cure: 'look at what they are doing; reprise workers says since when',
    })
  return checks.length > 0
    ? checks
    : [{ name: 'workers', state: 'ok', what: `${count(rows.filter((row) => row.isAlive).length, 'worker')} alive` }]
}

async function checkCheckpoints(engine: Reprise): Promise<Check[]> {
  const now = engine.kernel.worker.now()
  let looked = 0
  let undrilled = 0
  const damaged: string[] = []
  const behind: string[] = []
  for await (const head of headsOf(engine.kernel)) {
    if (++looked > timelinesLookedAt) break
    const catalog = await engine.checkpoints(head.timeline)
    const newest = catalog[0]
    if (!newest) continue
    if (newest.invalid) damaged.push(`${head.timeline} (${newest.invalid})`)
    if (now - (newest.drilledAt ?? newest.createdAt) > drillEveryMs) undrilled += 1
    // The last ones were so far apart; if nothing came for ten times as long, checkpoints no longer advance.
    const usual = catalog[1] ? newest.seq - catalog[1].seq : null
    if (usual !== null && usual > 0 && head.seq - newest.seq > Math.max(10_000, usual * 10)) {
      behind.push(`${head.timeline}: ${head.seq - newest.seq} entries since ${relative(newest.createdAt, now)}`)
    }
  }
  const checks: Check[] = []
  if (damaged.length > 0)
    checks.push({
      name: 'checkpoints',
      state: 'bad',
      what: `the newest is damaged: ${damaged.join(', ')}`,
      cure: 'reprise verify says more; recovery uses an older one',
    })
  if (behind.length > 0)
    checks.push({
      name: 'checkpoints',
      state: 'warning',
      what: `no longer advance: ${behind.join(', ')}`,
      cure: 'look for checkpoint-failed events; a recovery point that does not advance is an incident',
    })
  if (checks.length === 0)
    checks.push({
      name: 'checkpoints',
      state: 'ok',
      what: `${count(Math.min(looked, timelinesLookedAt), 'timeline')} looked at`,
    })
  if (undrilled > 0)
    checks.push({
      name: 'drills',
      state: 'warning',
      what: `${count(undrilled, 'timeline')} not drilled for 30 days`,
      cure: 'reprise drill',
    })
  else checks.push({ name: 'drills', state: 'ok', what: 'none overdue' })
  return checks
}
