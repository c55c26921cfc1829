// Bugs planted in the simulated store, each of them one that a real store could have. The engine and the core have
// their own, behind `planted`; a guard of the store that would hide such a bug is taken away here.

import { packEntries, unpackEntries } from '../../dist/core/history/entry-run.js'
import { sha256 } from './sha256.mjs'

/**
 * @typedef {object} Plant
 * @property {string} in
 * @property {number} seedsMax
 * @property {readonly number[]} foundAt
 * @property {string} [simulation]
 */

/**
 * Every planted bug, where it sits, and within how many seeds the simulation must find it. `foundAt` saves time: seeds that
 * found it are tried first. A change of the engine moves them; once none of them finds it, the whole budget is searched, and
 * the test prints the seed.
 *
 * @type {Readonly<Record<string, Plant>>}
 */
export const plants = {
  'no-fence': { in: 'store', seedsMax: 200, foundAt: [4, 7, 18] },
  'unfenced-publish': { in: 'store', seedsMax: 500, foundAt: [4, 26, 28] },
  'ack-before-sync': { in: 'store', seedsMax: 100, foundAt: [2] },
  'split-publish': { in: 'store', seedsMax: 1000, foundAt: [31, 53, 118] },
  'double-consume': { in: 'store', seedsMax: 500, foundAt: [47, 62, 81] },
  'ignore-cursors': { in: 'store', seedsMax: 500, foundAt: [41, 7, 10] },
  'no-checksum': { in: 'engine', seedsMax: 1000, foundAt: [10, 42, 87] },
  'floor-too-high': { in: 'core', seedsMax: 200, foundAt: [4, 9, 15] },
  'unverified-counted': { in: 'core', seedsMax: 500, foundAt: [16, 36, 178] },
  // A fork has a checkpoint of its own, so that takes rot as well. The properties of core/checkpoint/retention.test.ts find
  // it at once.
  'ignore-forks': { in: 'core', seedsMax: 5000, foundAt: [587] },
  'collect-ignores-forks': { in: 'engine', seedsMax: 3000, foundAt: [38] },
  'loose-scope': { in: 'engine', seedsMax: 500, foundAt: [83, 118, 193] },
  'policy-of-process': { in: 'engine', seedsMax: 500, foundAt: [38, 83, 193] },
  'sweep-unmarked': { in: 'engine', seedsMax: 1000, foundAt: [5, 301, 317] },
  'sweep-unannounced': { in: 'engine', seedsMax: 500, foundAt: [9, 3, 5] },
  'publish-unchecked': { in: 'engine', seedsMax: 1500, foundAt: [5, 445, 513] },
  'parity-misses-one': { in: 'engine', seedsMax: 2000, foundAt: [315] },
  'retry-new-operation': { in: 'store', seedsMax: 100, foundAt: [2, 5, 8] },
  'skip-dedupe': { in: 'engine', seedsMax: 500, foundAt: [5, 18, 39] },
  'guard-ignores-digest': { in: 'store', seedsMax: 1000, foundAt: [76, 172, 207], simulation: 'failover' },
  'rider-ends-transaction': { in: 'store', seedsMax: 100, foundAt: [4, 6, 10], simulation: 'failover' },
  'feed-trusts-position': { in: 'engine', seedsMax: 100, foundAt: [29, 27, 62], simulation: 'failover' },
  'life-left-out': { in: 'engine', seedsMax: 100, foundAt: [57, 81], simulation: 'failover' },
  'incarnation-in-key': { in: 'engine', seedsMax: 100, foundAt: [45], simulation: 'failover' },
  'namespace-left-out': { in: 'engine', seedsMax: 100, foundAt: [3, 6, 12], simulation: 'failover' },
  'fork-inherits': { in: 'engine', seedsMax: 100, foundAt: [12, 60, 72], simulation: 'failover' },
  'claim-answer-forgotten': { in: 'engine', seedsMax: 200, foundAt: [11, 27, 59], simulation: 'errands' },
  'rider-again': { in: 'store', seedsMax: 200, foundAt: [1, 11, 31], simulation: 'errands' },
  'compensation-unrecorded': { in: 'engine', seedsMax: 20, foundAt: [1, 2, 3], simulation: 'errands' },
  'export-forgets-mail': { in: 'engine', seedsMax: 20, foundAt: [1, 2, 3], simulation: 'errands' },
  'row-anywhere': { in: 'store', seedsMax: 150, foundAt: [95], simulation: 'file' },
}

/** Runs one commit against the store as the planted bug would have it. */
export async function plantAround(plant, space, commit, run) {
  const row = commit.guard && space?.timelines.get(commit.guard.timeline)
  switch (plant) {
    case 'no-fence':
      return first(await run(row && !commit.take ? unfenced(commit, row) : commit))
    case 'unfenced-publish':
      return first(await run(row && commit.publish && !commit.branch ? unfenced(commit, row) : commit))
    case 'double-consume': {
      const unread = commit.consume && space.unread.get(commit.guard.timeline)
      const outcome = first(await run(commit))
      if (unread && outcome.ok) restoreMail(space, commit, unread)
      return outcome
    }
    case 'ignore-cursors':
      return commit.trim
        ? await without(space.cursors, [...space.cursors.entries()], () => run(commit))
        : first(await run(commit))
    case 'ignore-forks':
      return commit.trim ? await withDetachedForks(space, commit, run) : first(await run(commit))
    case 'floor-too-high':
    case 'unverified-counted':
      return first(await run(commit.trim ? { ...commit, trim: { ...commit.trim, restsOn: [] } } : commit))
    default:
      return first(await run(commit))
  }
}

/**
 * The remains of a torn commit: the entries without their consumed messages, or the branch without its checkpoints. The half
 * has an operation of its own, since a store that tears commits does not remember them either.
 */
export function torn(commit) {
  const { run, publish, ...rest } = commit
  const operation = `half of ${commit.operation}`
  if (run && (commit.consume || commit.cursors)) return { ...rest, operation }
  if (publish?.length > 0 && (commit.take || commit.branch)) return { ...rest, ...(run && { run }), operation }
  return null
}

/** The same entries again, behind the current end: the repetition of a client that forgot its operation id. */
export function guessed(space, commit) {
  const row = commit.guard && space.timelines.get(commit.guard.timeline)
  if (!row || !commit.run || commit.branch || commit.take) return null
  const at = { before: row.digest, first: row.seq + 1, epoch: commit.guard.epoch }
  return {
    ...commit,
    operation: `again ${commit.operation}`,
    guard: { ...commit.guard, seq: row.seq, digest: row.digest },
    run: packEntries(sha256, at, unpackEntries(commit.run)),
  }
}

/** A store that appends everything at the current end, without checking owner or position. */
export async function withoutGuard(disk, commits, commit) {
  const done = await commit(commits.map((one) => anywhere(disk.volatileSpace, one)))
  const value = done.value.map((outcome, i) =>
    outcome.ok ? { ...outcome, ...expectedOf(commits[i], outcome) } : outcome,
  )
  return { ...done, value }
}

function anywhere(space, commit) {
  const row = commit.guard && space?.timelines.get(commit.guard.timeline)
  if (!row || !commit.run) return commit
  const at = { before: row.digest, first: row.seq + 1, epoch: row.epoch + (commit.take ? 1 : 0) }
  const guard = { ...commit.guard, epoch: row.epoch, seq: row.seq, digest: row.digest }
  return { ...commit, guard, run: packEntries(sha256, at, unpackEntries(commit.run)) }
}

/** The entries that its caller believes to have written. */
function expectedOf({ guard, run, take }, { seq, epoch }) {
  return run ? { seq: guard.seq + run.count, epoch: guard.epoch + (take ? 1 : 0) } : { seq, epoch }
}

function first([outcome]) {
  return outcome
}

function unfenced(commit, row) {
  return { ...commit, guard: { ...commit.guard, epoch: row.epoch } }
}

function restoreMail(space, commit, unread) {
  space.unread.set(commit.guard.timeline, unread)
  for (const message of unread) {
    const key = `${message.to.length}:${message.to}${message.id}`
    space.messages.set(key, { ...space.messages.get(key), data: message.data, consumedAt: null })
  }
}

async function without(map, entries, run) {
  for (const [key] of entries) map.delete(key)
  const outcome = first(await run())
  for (const [key, value] of entries) map.set(key, value)
  return outcome
}

async function withDetachedForks(space, commit, run) {
  const forks = [...space.timelines.values()].filter((row) => row.base?.timeline === commit.guard.timeline)
  for (const row of forks) space.timelines.set(row.id, { ...row, floor: row.base.seq })
  const outcome = first(await run(commit))
  for (const row of forks) space.timelines.set(row.id, row)
  return outcome
}

/** The engine's own planted bugs, as a port that its users do not know. @param {string | null} plant @returns {object} */
export function plantedPort(plant) {
  return { planted: new Set(plant ? [plant] : []) }
}
