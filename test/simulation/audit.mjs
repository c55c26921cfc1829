// The audit: the durable state, opened by a separate engine over a copy, with nothing delayed and nothing lost. Every timeline,
// fork and archive must recover to the fold of its history, from its newest sound checkpoint; where the medium was damaged
// beyond that, it must be refused with a reason, never answered wrongly.

import { newestFirst } from '../../dist/core/history/recovery.js'
import { floorOf, lineageOf } from '../../dist/engine/history/history.js'
import { mayBeSound, readManifest, recover } from '../../dist/engine/history/recover.js'
import { TimelineState } from '../../dist/engine/history/state.js'
import { stateIo } from '../../dist/engine/snapshot/kernel-io.js'
import { restoreState } from '../../dist/engine/snapshot/restore.js'
import { isReprise } from '../../dist/index.js'
import { createEngine } from '../../dist/store.js'
import { openMemory, snapshot } from '../../dist/stores/memory/index.js'
import { hostOf } from '../support/host.mjs'
import { namespace } from './disk.mjs'
import { isOfStore, modelOf } from './models.mjs'
import { plantedPort } from './plants.mjs'
import { SeededRandom } from './random.mjs'
import { sha256 } from './sha256.mjs'
import { codeOf, stackOf } from './violation.mjs'

/** @typedef {import('../../dist/engine/history/state.js').CapturedParts} CapturedParts */

const identity = { host: 'auditor', process: 'auditor' }

export async function audit(sim) {
  const { disk, oracle, fail } = sim
  oracle.checkAcknowledged()
  const honest = engineOver(sim, null)
  const tested = engineOver(sim, sim.plant)
  const damage = new Set(disk.rotten.map((one) => one.bytes))
  const expected = new Map()
  for (const row of disk.space?.timelines.values() ?? []) {
    if (isOfStore(row.id)) continue
    const [head] = await hostOf(honest).kernel.store.head([row.id])
    const lineage = await lineageOf(
      hostOf(honest).kernel,
      /** @type {import('../../dist/core/store/ports.js').Head} */ (head),
    )
    const isWholeAfter = (seq) => isHistoryWhole(disk.space, lineage, seq, damage)
    const sound = await soundCheckpoints(sim, hostOf(honest).kernel, row, lineage, damage)
    for (const { id, seq } of sound) expected.set(id, isWholeAfter(seq))
    // A mark for an unreadable checkpoint is removed where it is readable.
    for (const { id, seq } of await soundAfterAll(hostOf(honest).kernel, row, lineage))
      expected.set(id, isWholeAfter(seq))
    const start = sound[0]?.seq ?? (floorOf(lineage).seq === 0 ? 0 : null)
    const isRecoverable = start !== null && isWholeAfter(start)
    if (!isRecoverable && damage.size === 0) fail('G10', `${row.id}: nothing is left to recover it from`)
    await checkRecovery(sim, hostOf(tested).kernel, head, row, { start, isRecoverable })
  }
  // One that has not recovered anything yet: to recover is to heal.
  await checkVerify(sim, engineOver(sim, sim.plant), damage)
  await checkDrill(sim, tested, expected, hostOf(honest).kernel)
}

function engineOver(sim, plant) {
  const { disk, scheduler, models } = sim
  const world = snapshot(disk.durable)
  const clock = {
    now: () => sim.databaseTime(),
    elapsed: () => scheduler.now,
    after: () => () => {},
    soon: (call) => queueMicrotask(call),
    next: (call) => queueMicrotask(call),
  }
  const engine = createEngine(
    {
      store: openMemory({ namespace, hash: sha256, clock: sim.databaseTime, world }),
      clock,
      random: new SeededRandom(1),
      hash: sim.hashWith(plant),
      identity,
      isGone: () => false,
      ...plantedPort(plant),
    },
    sim.options,
  )
  for (const { definition } of Object.values(models)) hostOf(engine).register(definition.prefix, definition.fold)
  return engine
}

/** The usable checkpoints that restore, newest first; each must hold the fold of history at its coordinate. */
async function soundCheckpoints(sim, kernel, row, lineage, damage) {
  const { fold } = modelOf(sim.models, row.id).definition
  const floor = floorOf(lineage).seq
  // As every process reads it: a damaged line may be read from its copy.
  const catalog = await kernel.store.checkpoints(row.id)
  const usable = catalog
    .filter((one) => one.invalid === null && one.seq <= row.seq && (one.seq >= floor || one.seq === row.seq))
    .sort(newestFirst)
  const sound = []
  for (const record of row.catalog)
    if (record.invalid !== null && damage.size === 0) await checkInvalid(sim, kernel, row, record)
  for (const record of usable) {
    try {
      const { state } = await restoreState(readManifest(kernel, record), stateIo(kernel))
      const { value } = new TimelineState(fold, /** @type {CapturedParts} */ (state))
      sim.oracle.checkStateAt(row.id, row.serial, record.seq, value, `checkpoint ${record.id}`)
      sound.push(record)
    } catch (error) {
      if (!isReprise(error)) throw error
      // One damaged chunk is rebuilt from its group: it loses no more than none does.
      const isOneChunk = sim.disk.rotten.length === 1 && sim.disk.rotten[0].kind === 'chunk'
      if (record.verifiedAt !== null && (damage.size === 0 || isOneChunk)) {
        sim.fail(
          'G10',
          `${row.id}: verified checkpoint ${record.id} at ${record.seq} does not restore: ${error.message}`,
        )
      }
    }
  }
  return sound
}

async function soundAfterAll(kernel, row, lineage) {
  const floor = floorOf(lineage).seq
  const sound = []
  for (const record of await kernel.store.checkpoints(row.id)) {
    if (!mayBeSound(record) || record.seq > row.seq || (record.seq < floor && record.seq !== row.seq)) continue
    try {
      await restoreState(readManifest(kernel, record), stateIo(kernel))
      sound.push(record)
    } catch (error) {
      if (!isReprise(error)) throw error
    }
  }
  return sound
}

/** Without damage only a checkpoint whose chunks were swept before it was published may be called invalid. */
async function checkInvalid(sim, kernel, row, record) {
  const missing = /chunk ([0-9a-f]{64})/.exec(record.invalid)?.[1]
  if (missing !== undefined && sim.swept.has(missing)) return
  try {
    await restoreState(readManifest(kernel, record), stateIo(kernel))
  } catch {
    return
  }
  sim.fail('G11', `${row.id}: sound checkpoint ${record.id} at ${record.seq} was marked invalid: ${record.invalid}`)
}

/** No run that a replay after `seq` reads is damaged. */
function isHistoryWhole(space, lineage, seq, damage) {
  if (damage.size === 0) return true
  return lineage.every((head, i) => {
    const end = lineage.slice(0, i).reduce((least, { base }) => Math.min(least, base?.seq ?? least), lineage[0].seq)
    if (end <= seq) return true
    for (const run of space.timelines.get(head.timeline).runs) {
      const last = run.first + run.count - 1
      if (last > seq && run.first <= end && damage.has(run.bytes)) return false
    }
    return true
  })
}

async function checkRecovery(sim, kernel, head, row, { start, isRecoverable }) {
  const { fail, oracle } = sim
  const { fold } = modelOf(sim.models, row.id).definition
  try {
    const { state, report } = await recover(kernel, head, fold)
    oracle.checkStateAt(row.id, row.serial, row.seq, state.value, 'recovered aside')
    if (isRecoverable && (report.checkpoint?.seq ?? 0) !== start) {
      fail('G9', `${row.id}: recovered from ${report.checkpoint?.seq ?? 0}, though ${start} is sound`)
    }
  } catch (error) {
    if (isRecoverable) fail('G8', `${row.id}@${row.seq}: could be recovered from ${start}, but: ${stackOf(error)}`)
    else if (!isReprise(error, 'HISTORY_DAMAGED', 'UNRECOVERABLE')) {
      fail('G12', `${row.id}: refused with ${codeOf(error)}`)
    }
  }
}

/** Damage that is still in the store is found; sound data is not reported as damaged (G7). */
async function checkVerify(sim, engine, damage) {
  const { space } = sim.disk
  const report = await engine.verify()
  const isDamaged = [...damage].some((bytes) => isStored(space, bytes))
  if (isDamaged && report.ok) sim.fail('G7', 'verify found nothing, though stored bytes are damaged')
  if (damage.size > 0) return
  const suspects = new Set()
  for (const row of space.timelines.values()) {
    for (const one of row.catalog) if (one.verifiedAt === null || one.invalid !== null) suspects.add(one.id)
  }
  for (const fault of report.faults) {
    if ([...suspects].some((id) => fault.where.includes(id))) continue
    sim.fail('G7', `verify calls something sound damaged: ${fault.where}: ${fault.what}`)
  }
}

function isStored(space, bytes) {
  for (const row of space.timelines.values()) {
    for (const run of row.runs) if (run.bytes === bytes) return true
    for (const record of row.catalog) if (record.body === bytes) return true
  }
  for (const chunk of space.chunks.values()) if (chunk.bytes === bytes) return true
  return false
}

async function restores(sim, kernel, timeline, checkpoint) {
  const row = sim.disk.space.timelines.get(timeline)
  const record = (await kernel.store.checkpoints(timeline)).find(({ id }) => id === checkpoint)
  try {
    const { state } = await restoreState(readManifest(kernel, record), stateIo(kernel))
    const { value } = new TimelineState(
      modelOf(sim.models, timeline).definition.fold,
      /** @type {CapturedParts} */ (state),
    )
    sim.oracle.checkStateAt(timeline, row.serial, record.seq, value, `checkpoint ${checkpoint}, drilled`)
    return true
  } catch (error) {
    if (!isReprise(error)) throw error
    return false
  }
}

/** The drill passes sound checkpoints and fails others (G11). */
async function checkDrill(sim, engine, expected, honest) {
  const { results } = await engine.drill()
  for (const { timeline, checkpoint, ok, note } of results) {
    if (checkpoint === null) continue
    const shouldPass = expected.get(checkpoint) ?? false
    if (shouldPass && !ok) sim.fail('G11', `${timeline}: the drill fails sound checkpoint ${checkpoint}: ${note}`)
    // One that was marked for good before its chunks could be rebuilt is still drilled: then its state must be right.
    if (!shouldPass && ok && !(await restores(sim, honest, timeline, checkpoint))) {
      sim.fail('G11', `${timeline}: the drill passes damaged checkpoint ${checkpoint}`)
    }
  }
}
