// The store as one process sees it, over the shared disk. Every call is a request that arrives some time later and an answer
// some time after the work; either may be lost. So a write may be done long after its caller gave up, and a caller may get an
// error although the work was done.

import { equalBytes, toHex } from '../../dist/core/coordinate.js'
import { isRedundancy } from '../../dist/core/store/blobs.js'
import { readManifest } from '../../dist/engine/history/recover.js'
import { stateIo } from '../../dist/engine/snapshot/kernel-io.js'
import { liveChunks } from '../../dist/engine/snapshot/restore.js'
import { isReprise, RepriseError } from '../../dist/index.js'
import { createEngine } from '../../dist/store.js'
import { openMemory, snapshot } from '../../dist/stores/memory/index.js'
import { hostOf } from '../support/host.mjs'
import { namespace } from './disk.mjs'
import { guessed, torn } from './plants.mjs'
import { sha256 } from './sha256.mjs'

const reads = ['read', 'head', 'inbox', 'feed', 'timelines', 'checkpoints', 'cursors', 'workers', 'past']
const writes = ['claim', 'beat', 'retire', 'identity']
const upkeepReads = ['inspect', 'facts', 'pasts']
const upkeepWrites = ['tidy', 'scrub', 'recall']

/** @returns {import('../../dist/core/store/ports.js').Store} What one process has of the simulation `sim`. */
export function createStore(sim, process) {
  const { disk } = sim
  const read = (name, work) => ask(sim, process, name, async () => ({ value: await work(disk.reader) }))
  const write = (name, change) => ask(sim, process, name, change)
  const store = /** @type {any} */ ({
    lanes: sim.lanes,
    countsCheckpoints: false,
    shards: null,
    upkeep: { salvage: null },
    blobs: {
      get: (digests) => read('get', (reader) => reader.blobs.get(digests)),
      has: (digests) => read('has', (reader) => reader.blobs.has(digests)),
      list: (after, limit) => read('chunks', (reader) => reader.blobs.list(after, limit)),
      put: (chunks, at) => write('put', () => disk.change((writer) => writer.blobs.put(chunks, at))),
      touch: (digests, at) => write('touch', () => disk.change((writer) => writer.blobs.touch(digests, at))),
      delete: (digests, before) => write('sweep', () => sweep(sim, digests, before)),
    },
    commit: (commits) => write('commit', () => commit(sim, commits)),
    sweepMark(raiseTo) {
      if (raiseTo === undefined) return read('sweepMark', (reader) => reader.sweepMark())
      checkRaise(sim, process, raiseTo)
      return write('raise', () => disk.change((writer) => writer.sweepMark(raiseTo)))
    },
    listen(wake) {
      const listener = { process, wake }
      sim.listeners.add(listener)
      return () => sim.listeners.delete(listener)
    },
    close: () => Promise.resolve(),
  })
  for (const name of reads) store[name] = (...given) => read(name, (reader) => reader[name](...given))
  for (const name of writes)
    store[name] = (...given) => write(name, () => disk.change((writer) => writer[name](...given)))
  for (const name of upkeepReads)
    store.upkeep[name] = (...given) => read(name, (reader) => reader.upkeep[name](...given))
  for (const name of upkeepWrites)
    store.upkeep[name] = (...given) => write(name, () => disk.change((writer) => writer.upkeep[name](...given)))
  const { workers } = store
  store.workers = async () => {
    const rows = await workers()
    process.seenWorkers = [...(process.seenWorkers ?? []), rows]
    return rows
  }
  return store
}

/** A collector keeps the captures that a live worker had announced. One of these reads was its own. */
function checkRaise(sim, process, raiseTo) {
  const own = hostOf(process.engine).kernel.worker.id
  const isIgnored = ({ id, info, isAlive }) => isAlive && id !== own && raiseTo > Number(info.captures)
  const looks = process.seenWorkers ?? []
  process.seenWorkers = []
  if (looks.length > 0 && looks.every((rows) => rows.some(isIgnored))) {
    const { id } = looks[0].find(isIgnored)
    sim.fail('G10', `the sweep mark was raised to ${raiseTo}, above the capture that ${id} has announced`)
  }
}

/** Whatever the collector believes: a chunk that a checkpoint names stays. */
async function sweep(sim, digests, touchedBefore) {
  const named = sim.disk.rotten.length === 0 ? await namedChunks(sim.disk) : new Set()
  for (const digest of digests) {
    const name = toHex(digest)
    const chunk = sim.disk.volatileSpace.chunks.get(name)
    // Parity and copies are replaced at any time; so is a chunk that no longer matches its digest.
    if (isRedundancy(digest) || (chunk && !equalBytes(sha256(chunk.bytes), digest))) continue
    if (!chunk || chunk.touchedAt >= touchedBefore) continue
    if (named.has(name)) sim.fail('G10', `a chunk was swept that a checkpoint names: ${name}`)
    sim.swept.add(name)
  }
  return await sim.disk.change((writer) => writer.blobs.delete(digests, touchedBefore))
}

async function namedChunks({ volatile }) {
  const store = openMemory({ namespace, hash: sha256, world: snapshot(volatile) })
  const { kernel } = hostOf(createEngine({ store, hash: sha256 }))
  const named = new Set()
  for (const { catalog } of volatile.spaces.get(namespace).timelines.values()) {
    for (const record of catalog) {
      try {
        for (const digest of await liveChunks(readManifest(kernel, record), stateIo(kernel))) named.add(toHex(digest))
      } catch (error) {
        if (!isReprise(error)) throw error
      }
    }
  }
  return named
}

async function commit(sim, commits) {
  // Planted: power fails while a commit is half written, and the half survives.
  if (sim.plant === 'split-publish' && sim.random.chance(0.3)) {
    const half = commits.map(torn).filter((one) => one !== null)
    if (half.length > 0) {
      sim.disk.sync((await sim.disk.commit(half)).token)
      throw unreachable('the store went down in the middle of a commit')
    }
  }
  const done = await sim.disk.commit(commits)
  // Planted: the answer was lost, and the driver tries again under another operation id.
  if (sim.plant === 'retry-new-operation' && sim.random.chance(0.1)) {
    const again = commits.map((one) => guessed(sim.disk.volatileSpace, one)).filter((one) => one !== null)
    if (again.length > 0) return { ...(await sim.disk.commit(again)), value: done.value }
  }
  return done
}

/** Request, work, sync, answer: four moments, and anything may happen between them. */
function ask(sim, process, name, work) {
  const { scheduler, faults, disk } = sim
  const fate = faults.fate()
  return new Promise((resolve, reject) => {
    const answer = (settle, value) => {
      scheduler.after(faults.delayMs(), process, () => {
        scheduler.note(`${process.name} ${name} ${settle === reject ? value.code : 'ok'}`)
        settle(value)
      })
    }
    const arrive = async () => {
      if (fate === 'lost request') return answer(reject, unreachable('the request was lost'))
      const restarts = sim.restarts
      let done
      try {
        done = await work()
      } catch (error) {
        return answer(reject, error)
      }
      const finish = () => {
        if (done.token) {
          disk.sync(done.token)
          if (name === 'commit') wakeListeners(sim)
        }
        // A server that went down in between has forgotten whom to answer.
        if (sim.restarts !== restarts) return answer(reject, unreachable('the server went down'))
        if (fate === 'lost answer') return answer(reject, unreachable('the answer was lost'))
        if (name === 'put' && !faults.isCalm) sim.pauseSaver?.(process)
        if (!done.token || sim.plant !== 'ack-before-sync') answer(resolve, done.value)
      }
      if (done.token && sim.plant === 'ack-before-sync' && fate === 'ok') answer(resolve, done.value)
      if (done.token) scheduler.after(faults.syncMs(), null, finish)
      else finish()
    }
    scheduler.after(faults.delayMs(), null, arrive)
  })
}

function wakeListeners(sim) {
  for (const { process, wake } of sim.listeners) sim.scheduler.after(sim.faults.delayMs(), process, wake)
}

function unreachable(message) {
  return new RepriseError('STORE_UNREACHABLE', message)
}
