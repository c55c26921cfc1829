// Checks the preconditions of recovery in a store from one process, for `reprise doctor` and the dashboard.

import { isReprise, orElse } from '../core/errors.ts'
import type { StoreFacts } from '../core/store/store-facts.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { reportOf } from '../engine/base/worker.ts'
import { keptInterval } from '../engine/checkpoint/timing.ts'
import { hostOf } from '../engine/host/host.ts'
import { droppedMail } from '../engine/host/shaped-mail.ts'
import { lostHeads } from '../engine/ownership/lost-head.ts'
import { lossWords } from '../engine/storage/losses.ts'
import { legibleHeads } from '../engine/storage/sound-page.ts'
import { changeWords } from '../engine/storage/store-change.ts'
import { lossBudgetOf } from '../engine/tools/drill/loss-budget.ts'
import { housekeepingState } from '../engine/tools/housekeeping/housekeeping.ts'
import { endings } from '../layers/workflow/names.ts'
import { protectionChecks } from './backup-health.ts'
import { failuresHealth } from './failures.ts'
import { bytes } from './figures-as-text.ts'
import {
  type Check,
  checkpointsHealth,
  cutsHealth,
  dueHealth,
  failingHealth,
  housekeepingHealth,
  lossHealth,
  pagesHealth,
  type TimelineFacts,
  type WorkerFacts,
  workersHealth,
} from './health.ts'
import { measuredMistakes, mistakesHealth, paceMistakes } from './mistakes.ts'
import { queuesOf } from './queues.ts'
import { requestsHealth } from './requests.ts'
import { pacesOf } from './schedules.ts'
import { shippingHealth } from './shipping.ts'
import { workersNow } from './workers.ts'

const clockOffMs = 5000
const shardsApartMs = 1000
const timelinesLookedAt = 2000
const droppedForMs = 86_400_000
const droppedShown = 100

/** `isWorker`: this process is one of the workers, not only an observer. */
export async function checkStore(engine: Reprise, { isWorker = false } = {}): Promise<Check[]> {
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
    await identityOf(engine),
    { name: 'schema', state: 'ok', what: `version ${facts.schemaVersion}` },
    { name: 'durability', state: 'ok', what: settings || 'none: data is lost when the process ends' },
  ]
  checks.push(...pagesHealth(facts.durability), ...checkDamage(facts))
  checks.push(...(facts.isReadOnly ? [ownClock] : [await checkClock(engine), ...(await checkShardClocks(engine))]))
  checks.push(...(await checkHeads(engine)), ...(await checkChanges(engine)), ...(await checkLosses(engine)))
  checks.push(...(await checkWorkers(engine, isWorker)), ...(await checkCheckpoints(engine)))
  checks.push(...dueHealth(await queuesOf(engine), hostOf(engine).now()))
  checks.push(...(await requestsHealth(engine)), ...(await failuresHealth(engine)), ...(await checkMail(engine)))
  checks.push(...cutsHealth(await engine.groups.schedules(), hostOf(engine).now()))
  checks.push(...(await shippingHealth(engine, Date.now())), ...(await protectionChecks(engine, hostOf(engine).now())))
  checks.push(housekeepingHealth(await housekeepingState(engine), hostOf(engine).now()))
  return checks
}

async function identityOf(engine: Reprise): Promise<Check> {
  const { id, incarnation, era } = await hostOf(engine).identity.load(true)
  if (id === '') return { name: 'identity', state: 'ok', what: 'none yet: the first process that writes creates one' }
  const since = era === 0 ? '' : ', since the store was restored or copied'
  const what = `store ${id}, incarnation ${incarnation}${since}`
  return { name: 'identity', state: 'ok', what, data: { store: id, incarnation, era } }
}

const ownClock: Check = { name: 'clock', state: 'ok', what: "this machine's clock is the clock of the store" }

/** The store reads around it by its second copy: the next damage would lose data. */
function checkDamage({ damage = [] }: StoreFacts): Check[] {
  const cure = 'run reprise verify --repair: it rewrites the damaged copy from the intact one'
  return damage.map((what) => ({ name: 'damage', state: 'bad', what: `${what} [STORE_DAMAGED]`, cure }))
}

/** Only a heartbeat returns the time of the store. */
async function checkClock(engine: Reprise): Promise<Check> {
  const before = Date.now()
  await hostOf(engine).worker.register()
  const off = Math.abs(hostOf(engine).now() - (before + Date.now()) / 2)
  if (off <= clockOffMs) return { name: 'clock', state: 'ok', what: 'agrees with the store' }
  return {
    name: 'clock',
    state: 'warning',
    what: `${Math.round(off / 1000)} s apart from the store's`,
    cure: 'set the clock; timestamps of records depend on it, ownership does not',
  }
}

/** Measured by the heartbeat of `checkClock`. */
async function checkShardClocks(engine: Reprise): Promise<Check[]> {
  const { clocks = [] } = await engine.facts()
  const ahead = clocks.filter(({ aheadMs }) => aheadMs > shardsApartMs)
  if (ahead.length === 0) return []
  const each = ahead.map(
    ({ shard, location, aheadMs }) => `shard ${shard} (${location}) by ${(aheadMs / 1000).toFixed(1)} s`,
  )
  const what = `ahead of the slowest shard: ${each.join(', ')}`
  const cure =
    'synchronize the clocks of the database servers: a deadline follows the clock of the shard of its timeline'
  return [{ name: 'clock', state: 'warning', what, cure }]
}

/** Reported until each head is restored: meanwhile no worker takes them. */
async function checkHeads(engine: Reprise): Promise<Check[]> {
  const lost: string[] = []
  for await (const { timeline } of lostHeads(hostOf(engine).kernel)) lost.push(timeline)
  if (lost.length === 0) return []
  const what = `the status of ${lost.slice(0, 5).join(', ')}${lost.length > 5 ? `, … (${lost.length})` : ''} was lost with a damaged page [HEAD_LOST]`
  const cure = 'run their code, or reprise verify --repair --module FILE: their status is rebuilt from history'
  return [{ name: 'heads', state: 'bad', what, cure }]
}

/** Reports messages that a receiver dropped as malformed: the sender only knows that they were delivered. */
async function checkMail(engine: Reprise): Promise<Check[]> {
  const dropped = await engine.log({ kind: droppedMail, since: Date.now() - droppedForMs, limit: droppedShown })
  const last = dropped.at(-1)
  if (!last) return []
  const count = dropped.length === droppedShown ? `${droppedShown} or more` : dropped.length
  const what = `${count} dropped within a day; the last one, to ${last.timeline}: ${last.what} [MALFORMED]`
  const cure = `correct the sender: reprise log --kind ${droppedMail} lists them`
  return [{ name: 'mail', state: 'warning', what, cure }]
}

async function checkChanges(engine: Reprise): Promise<Check[]> {
  return (await engine.changes()).map((change) => {
    const what = changeWords(change)
    if (change.isRunning) return { name: 'changes', state: 'ok', what }
    const cure = `reprise changes ${change.id} --resume continues it; reprise changes ${change.id} --abandon undoes it`
    return { name: 'changes', state: 'bad', what: `${what} [CHANGE_UNFINISHED]`, cure }
  })
}

/** Until a person gives each of them up. */
async function checkLosses(engine: Reprise): Promise<Check[]> {
  return (await engine.losses()).map((loss) => {
    const cure = `restore a backup, or accept the loss: reprise give-up ${loss.id} --by NAME --reason TEXT --yes`
    return { name: 'losses', state: 'bad', what: `${lossWords(loss)} [DATA_LOST]`, cure }
  })
}

async function checkWorkers(engine: Reprise, isWorker: boolean): Promise<Check[]> {
  const own = hostOf(engine).worker.id
  const rows = (await workersNow(engine)).filter(({ id, isRetired }) => (isWorker || id !== own) && !isRetired)
  const facts: WorkerFacts[] = []
  for (const row of rows) {
    // A damaged timeline of a worker counts as one it owns.
    const ownsSomething = await engine.list({ owner: row.id, limit: 1 }).then(
      (owned) => owned.length > 0,
      (error) => {
        if (!isReprise(error, 'STORE_DAMAGED')) throw error
        return true
      },
    )
    facts.push({ ...row, ...reportOf(row), ownsSomething })
  }
  const now = hostOf(engine).now()
  return [...workersHealth(facts, now), ...failingHealth(facts, now)]
}

async function checkCheckpoints(engine: Reprise): Promise<Check[]> {
  const damaged: string[] = []
  const facts = await timelineFacts(engine, (timeline) => damaged.push(timeline))
  const mistakes = facts.flatMap(measuredMistakes)
  // Damaged histories are reported by the other checks, and by verify.
  const paces = await pacesOf(engine).catch(orElse([]))
  mistakes.push(...paces.flatMap(paceMistakes))
  // Their checkpoints are missing because of the code, not because of a failure.
  const grown = new Set(mistakes.flatMap(({ rule, at }) => (rule === 'workflow-growth' ? [at] : [])))
  const others = facts.filter(({ timeline }) => !grown.has(timeline))
  const checks = [...checkpointsHealth(others, hostOf(engine).now()), ...lossHealth(facts)]
  return [...quarantineHealth(damaged), ...checks, ...mistakesHealth(mistakes)]
}

/** Reads the first 2,000 timelines. `isWanted`: only these. */
export async function timelineFacts(
  engine: Reprise,
  onDamage: (timeline: string) => void,
  isWanted: (timeline: string) => boolean = () => true,
): Promise<TimelineFacts[]> {
  const facts: TimelineFacts[] = []
  const { kernel } = hostOf(engine)
  const workers = new Map((await kernel.store.workers()).map((row) => [row.id as string, row]))
  for await (const head of legibleHeads(hostOf(engine).kernel, undefined, onDamage)) {
    if (!isWanted(head.timeline)) continue
    if (facts.length === timelinesLookedAt) break
    const { timeline, seq, createdAt, updatedAt } = head
    const kind = hostOf(engine).models.find(timeline)?.kind ?? null
    const isEnded = kind === 'workflow' && endings.has(head.status)
    const policy = hostOf(engine).checkpointPolicyOf(head)
    const start = head.base?.seq ?? head.floor
    const checkpoints = await engine.checkpoints(timeline)
    const at = { isFirst: checkpoints.length === 0, now: hostOf(engine).now() }
    const kept = policy && keptInterval(policy, head.attributes, at)
    const { interval = null, costs } = kept ?? {}
    const restoreMs = costs?.restoreMs ?? null
    const capturedAt = checkpoints.find(({ invalid }) => invalid === null)?.createdAt ?? createdAt
    const loss = lossBudgetOf(kernel, head, policy ?? {}, { capturedAt, owner: workers.get(head.owner ?? '') })
    facts.push({
      timeline,
      kind,
      isEnded,
      seq,
      start,
      createdAt,
      updatedAt,
      policy,
      interval,
      restoreMs,
      loss,
      checkpoints,
    })
  }
  return facts
}

/** Their rows are damaged: they are excluded from work, and the others continue. */
function quarantineHealth(damaged: readonly string[]): Check[] {
  if (damaged.length === 0) return []
  const names = `${damaged.slice(0, 5).join(', ')}${damaged.length > 5 ? `, … (${damaged.length})` : ''}`
  const what = `${names} cannot be read, and no worker executes them [STORE_DAMAGED]`
  return [{ name: 'quarantine', state: 'bad', what, cure: 'stop other programs, and run reprise verify --repair' }]
}
