// The acknowledged state, kept outside of the file: the timelines as every process must find them. An acknowledged commit must
// have been allowed, a refused one must have been forbidden, and after each of them the file must show exactly this, in heads,
// in histories and in the feed.

import { equalBytes } from '../../dist/core/coordinate.js'
import { Violation } from './violation.mjs'

/** A timeline that was forgotten and created again can be at the same epoch and sequence: its digest differs. */
function hasDigest(digest, expected) {
  return expected === undefined || equalBytes(digest, expected)
}

export class FileOracle {
  #timelines = new Map()
  /** The last life of each name that was forgotten. */
  #pasts = new Map()
  #rule = null

  find(space, name) {
    return this.#timelines.get(`${space}:${name}`) ?? null
  }

  names(space) {
    return [...this.#timelines.keys()].filter((key) => key.startsWith(`${space}:`)).map((key) => key.split(':')[1])
  }

  /** `digest` is of the head that a take found. */
  note(space, commit, outcome, digest) {
    const { timeline, epoch, seq, digest: expected } = commit.guard
    const known = this.find(space, timeline)
    const where = `${timeline} at epoch ${epoch}, sequence ${seq}`
    const isAllowed = known
      ? known.epoch === epoch && (seq === undefined || known.seq === seq) && hasDigest(known.digest, expected)
      : Boolean(commit.take?.create) && epoch === this.#pastOf(space, timeline).epoch
    if (!outcome.ok) {
      const code = known ? ['FENCED', 'CONFLICT'] : ['NOT_FOUND']
      if (isAllowed && code.includes(outcome.code)) throw new Violation('G3', `refused without reason: ${where}`)
      if (!isAllowed && !['FENCED', 'CONFLICT', 'NOT_FOUND', 'WORKER_RETIRED'].includes(outcome.code)) {
        throw new Violation('G3', `refused for another reason (${outcome.code}): ${where}`)
      }
      return
    }
    // Forgotten before, perhaps with another life of that name since.
    if (commit.forget && (!known || commit.guard.life < known.life)) return
    if (!isAllowed) {
      const now = known ? `epoch ${known.epoch}, sequence ${known.seq}` : 'gone'
      throw new Violation('G3', `acknowledged although it is ${now} by now: ${where}`)
    }
    const { life, epoch: last } = this.#pastOf(space, timeline)
    this.#apply(space, known ?? { ...born(digest), life: life + 1, epoch: last }, commit)
  }

  #pastOf(space, timeline) {
    return this.#pasts.get(`${space}:${timeline}`) ?? { life: 0, epoch: 0 }
  }

  #apply(space, known, { guard: { timeline }, take, run, publish, trim, branch, forget }) {
    const put = (name, value) => this.#timelines.set(`${space}:${name}`, value)
    if (forget) {
      const { life, epoch } = known
      this.#pasts.set(`${space}:${timeline}`, { life, epoch })
      this.#timelines.delete(`${space}:${timeline}`)
      return
    }
    let next = known
    if (take) next = { ...next, epoch: next.epoch + 1 }
    if (branch) {
      put(branch.archive, known)
      const { seq, digest, floor } = branch
      const point = { seq, digest }
      next = { ...next, epoch: next.epoch + 1, ...point, runs: [], points: [point], checkpoints: [] }
      next = { ...next, floor: floor.seq, floorDigest: floor.digest }
    }
    if (run) {
      const { first, count, digest } = run
      const point = { seq: first + count - 1, digest }
      next = { ...next, ...point, runs: [...next.runs, { first, count, digest }], points: [...next.points, point] }
    }
    if (publish) next = { ...next, checkpoints: [...next.checkpoints, ...publish.map(toCheckpoint)] }
    if (trim && trim.seq > next.floor) next = { ...next, floor: trim.seq, floorDigest: trim.digest }
    put(timeline, { ...next, points: next.points.filter((point) => point.seq >= next.floor) })
  }

  compare(space, names, { heads, runs, fed, faults, rule }) {
    if (faults.length > 0) throw new Violation('G7', `verify: ${JSON.stringify(faults)}`)
    for (const [i, name] of names.entries()) this.#compareOne(name, this.find(space, name), heads[i], runs[i])
    const expected = names.flatMap((name) => liveRuns(this.find(space, name)).map((run) => keyOf(name, run)))
    const found = fed.map(({ timeline, ...run }) => keyOf(timeline, run))
    const lost = expected.find((key) => !found.includes(key))
    if (lost) throw new Violation('G1', `acknowledged, and not in the feed: ${lost}`)
    const stray = found.find((key) => !expected.includes(key))
    if (stray) throw new Violation('G1', `in the feed, and never acknowledged: ${stray}`)
    this.#compareRule(rule)
  }

  #compareOne(name, known, head, runs) {
    const shown = (at) => at && `sequence ${at.seq}, epoch ${at.epoch}, floor ${at.floor}`
    const isSame = head && ['seq', 'epoch', 'floor'].every((part) => head[part] === known[part])
    if (!isSame || !equalBytes(head.digest, known.digest)) {
      throw new Violation('G1', `${name} is at ${shown(head)}; acknowledged was ${shown(known)}`)
    }
    const expected = liveRuns(known).map((run) => keyOf(name, run))
    const found = runs.map((run) => keyOf(name, run))
    if (expected.join() !== found.join()) throw new Violation('G1', `history of ${name} is ${found}, not ${expected}`)
  }

  /** The rule of log-end.ts, as far as it can be seen from outside. */
  #compareRule(rule) {
    const before = /** @type {{ end: number, kept: string } | null} */ (this.#rule)
    this.#rule = rule
    if (before && rule.end < before.end) throw new Violation('G1', `the log ended at ${before.end}, now at ${rule.end}`)
    if (before && rule.end === before.end && rule.kept !== before.kept) {
      throw new Violation('G1', `what others may keep has changed, and no row was added after ${rule.end}`)
    }
  }
}

function born(digest) {
  const floorDigest = digest
  return { epoch: 0, seq: 0, digest, floor: 0, floorDigest, runs: [], points: [{ seq: 0, digest }], checkpoints: [] }
}

function toCheckpoint({ id, seq, digest }) {
  return { id, seq, digest }
}

function liveRuns({ runs, floor }) {
  return runs.filter((run) => run.first + run.count - 1 > floor)
}

/** @param {string} name @param {any} run */
function keyOf(name, { first, digest }) {
  return `${name}@${first}#${Buffer.from(digest).toString('hex', 0, 4)}`
}
