// The oracle: the expected state, kept outside the store. It sees every commit when it is applied and again when it is durable,
// gets every acknowledgement and every refusal, and knows nothing about the engine.

import { Codec } from '../../dist/core/codec/codec.js'
import { toHex } from '../../dist/core/coordinate.js'
import { sliceEntries, unpackEntries } from '../../dist/core/history/entry-run.js'
import { defaultLimits } from '../../dist/core/limits.js'
import { entryContext } from '../../dist/engine/storage/seal/entries.js'
import { Sealer } from '../../dist/engine/storage/seal/seal.js'
import { OutsideLedger } from '../../dist/testing/outside-ledger.js'
import { modelOf } from './models.mjs'
import { sha256 } from './sha256.mjs'

const codec = new Codec({ limits: defaultLimits })
const sealer = new Sealer({ limits: defaultLimits })

export class Oracle {
  #fail
  #models
  /** One for each serial: a timeline until it is rolled back; its archive keeps the serial. */
  branches = new Map()
  #byDigest = new Map()
  /** Every place where a number was written, by `n` of appends and `m` of mail. */
  #appends = new Map()
  #gots = new Map()
  #keys = new Set()
  #acks = []
  #refused = new Map()
  #sent = new Map()
  #runs = new Map()
  #seen = new Set()
  #intents = new Map()
  #calls = new Map()
  /** A receiver that honours keys: every effect of every process goes through it. */
  outside = new OutsideLedger()
  #keyOfIntent = new Map()

  constructor(models, fail) {
    this.#models = models
    this.#fail = fail
  }

  /** The state before a commit is tried. */
  look(space, commit) {
    return (commit.guard && space?.timelines.get(commit.guard.timeline)) ?? null
  }

  /**
   * After the attempt: violations of fence, atomicity and floor are detected at once. The fact is reported when it is
   * durable.
   */
  watch(space, commit, outcome, before) {
    if (!outcome.ok || outcome.isDuplicate || !commit.guard || commit.forget) return null
    const { guard } = commit
    const row = space.timelines.get(guard.timeline)
    const what = `${guard.timeline}@${row.seq}`
    if (before && guard.epoch !== before.epoch) {
      this.#fail('G3', `${what}: a write of epoch ${guard.epoch} was accepted under epoch ${before.epoch}`)
    }
    const isNewBranch = !before || before.serial !== row.serial
    for (const record of commit.publish ?? []) {
      if (record.seq > row.seq) this.#fail('G2', `${what}: a checkpoint at ${record.seq} lies beyond its history`)
      if (!isNewBranch && record.epoch !== row.epoch) {
        this.#fail('G3', `${what}: a checkpoint of epoch ${record.epoch} was published under epoch ${row.epoch}`)
      }
    }
    if (before && !isNewBranch && row.floor > before.floor) this.#checkFloor(row, what)
    if (before && !isNewBranch && (commit.drop || commit.trim)) this.#checkPolicy(row, before, what)
    const parent = isNewBranch && row.base ? space.timelines.get(row.base.timeline)?.serial : null
    return () => this.#learn(commit, row, isNewBranch, parent)
  }

  /** Only data that the timeline's own policy releases, for every collector. */
  #checkPolicy(row, before, what) {
    const { keep, keepsHistory } = modelOf(this.#models, row.id)
    if (keepsHistory && row.floor > before.floor) {
      this.#fail('policy', `${what}: history was trimmed to ${row.floor}, though all of it is to be kept`)
    }
    const left = new Set(row.catalog.filter((one) => one.verifiedAt !== null).map((one) => one.seq))
    const lost = before.catalog.find(
      (one) =>
        one.verifiedAt !== null &&
        one.invalid === null &&
        one.seq >= row.floor &&
        !row.catalog.some(({ id }) => id === one.id),
    )
    if (lost && !left.has(lost.seq) && left.size < keep) {
      this.#fail(
        'policy',
        `${what}: checkpoint ${lost.id} at ${lost.seq} was dropped; ${left.size} are left of ${keep}`,
      )
    }
  }

  /** History may go only below the second newest checkpoint that was verified. */
  #checkFloor(row, what) {
    const sequences = new Set(
      row.catalog
        .filter((one) => one.verifiedAt !== null && one.invalid === null && one.seq >= row.floor)
        .map((one) => one.seq),
    )
    if (sequences.size < 2) {
      this.#fail(
        'G10',
        `${what}: history was trimmed to ${row.floor} with ${sequences.size} verified checkpoint(s) at or above it`,
      )
    }
  }

  #learn(commit, row, isNewBranch, parent) {
    if (isNewBranch) {
      const baseSeq = row.base?.seq ?? 0
      const origin = commit.branch?.digest ?? commit.take?.create?.digest
      this.branches.set(row.serial, { serial: row.serial, id: row.id, parent, baseSeq, entries: [], digest: origin })
      const key = toHex(origin)
      if (!this.#byDigest.has(key)) this.#byDigest.set(key, { serial: row.serial, seq: baseSeq })
    }
    const branch = this.branches.get(row.serial)
    if (commit.run) this.#learnRun(branch, commit.run)
    for (const record of commit.publish ?? []) this.#checkCoordinate(branch, record)
  }

  #learnRun(branch, run) {
    const where = `${branch.id}@${run.first}`
    const last = branch.baseSeq + branch.entries.length
    if (run.first !== last + 1) this.#fail('G1', `${where}: history ended at ${last} before it`)
    // A fork counts its own epochs; one branch never goes back.
    const previous = branch.entries.at(-1)
    const before = new Uint8Array(32)
    unpackEntries(run).forEach((stored, i) => {
      const data = /** @type {Record<string, unknown>} */ (
        codec.decode(sealer.open(stored.data, entryContext(before, i)))
      )
      const { type, seq, epoch, key } = stored
      const entry = { ...data, effectKey: data.key, type, seq, epoch, key, serial: branch.serial }
      if (previous && entry.epoch < previous.epoch) {
        this.#fail('G3', `${where}: an entry of epoch ${entry.epoch} follows one of epoch ${previous.epoch}`)
      }
      branch.entries.push(entry)
      this.#learnEntry(branch, entry)
    })
    for (let seq = run.first; seq < run.first + run.count; seq++) {
      const prefix = sliceEntries(sha256, run, branch.digest, seq)
      this.#byDigest.set(toHex(prefix.digest), { serial: branch.serial, seq })
    }
    branch.digest = run.digest
    const digest = toHex(run.digest)
    if (!branch.id.startsWith('tail/')) this.#runs.set(digest, { serial: branch.serial, first: run.first })
  }

  #learnEntry(branch, entry) {
    const where = `${branch.id}@${entry.seq}`
    if (entry.type === 'add') {
      const places = this.#appends.get(entry.n) ?? []
      const isTwice = places.some((place) => entry.key === undefined || this.#isAbove(branch, place))
      if (isTwice) this.#fail('G4', `${where}: append ${entry.n} is in history twice`)
      const refusal = this.#refused.get(entry.n)
      if (refusal && entry.key === undefined) {
        this.#fail('G4', `${where}: append ${entry.n} is in history, though its caller was told ${refusal}`)
      }
      this.#appends.set(entry.n, [...places, entry])
      if (entry.key !== undefined) this.#keys.add(entry.key)
    } else if (entry.type === 'got') {
      if (this.#gots.has(entry.m)) this.#fail('G4', `${where}: message ${entry.m} was consumed twice`)
      this.#gots.set(entry.m, entry)
    } else if (entry.type === 'seen') {
      for (const run of entry.runs) this.#learnSeen(where, run)
    }
    if (entry.type.startsWith('$effect.')) this.#learnEffect(branch, entry, where)
  }

  #learnSeen(where, digest) {
    const run = this.#runs.get(digest)
    if (!run) return this.#fail('feed', `${where}: the feed showed a run that is not in history`)
    if (this.#seen.has(digest)) this.#fail('feed', `${where}: the run at ${run.first} was seen twice`)
    const branch = this.branches.get(run.serial)
    if (run.first <= (branch.seenTo ?? 0)) this.#fail('feed', `${where}: the run at ${run.first} was seen out of order`)
    branch.seenTo = run.first
    this.#seen.add(digest)
  }

  #checkCoordinate(branch, record) {
    const found = this.#byDigest.get(toHex(record.digest))
    const isOnBranch = found && found.seq === record.seq && this.#isAbove(branch, found)
    if (!isOnBranch)
      this.#fail('G2', `${branch.id}: checkpoint ${record.id} at ${record.seq} has a digest of no such history`)
  }

  /** Is this place part of the branch's history? */
  #isAbove(branch, place) {
    let seqMax = Number.POSITIVE_INFINITY
    for (let at = branch; at; at = this.branches.get(at.parent)) {
      if (place.serial === at.serial) return place.seq <= seqMax
      seqMax = Math.min(seqMax, at.baseSeq)
    }
    return false
  }

  #entryAt(branch, seq) {
    let at = branch
    while (at && seq <= at.baseSeq) at = this.branches.get(at.parent)
    return at?.entries[seq - at.baseSeq - 1]
  }

  // Appends

  acknowledged(handle, numbers, written, key) {
    this.#acks.push({ timeline: handle.id, epoch: handle.epoch, numbers, key, ...written })
  }

  refused(numbers, code) {
    for (const number of numbers) {
      this.#refused.set(number, code)
      const [place] = this.#appends.get(number) ?? []
      if (place && place.key === undefined) {
        this.#fail('G4', `append ${number} is in history at ${place.seq}, though its caller was told ${code}`)
      }
    }
  }

  /** Every acknowledged append is durable, at the acknowledged sequence (G1). */
  checkAcknowledged() {
    for (const { timeline, epoch, numbers, key, first, isDuplicate } of this.#acks) {
      numbers.forEach((number, i) => {
        const places = this.#appends.get(number) ?? []
        const isThere = isDuplicate
          ? this.#keys.has(key)
          : places.some((place) => place.seq === first + i && place.epoch === epoch)
        if (!isThere) this.#fail('G1', `${timeline}@${first + i}: acknowledged append ${number} is lost`)
      })
    }
  }

  // State

  /** A handle's state is the plain fold of the durable history up to its coordinate (G2, G8). */
  checkState(timeline, coordinate, state, how) {
    const found = this.#byDigest.get(coordinate.digest)
    if (!found || found.seq !== coordinate.seq) {
      return this.#fail('G2', `${timeline}@${coordinate.seq} (${how}): there is no such durable history`)
    }
    this.#compare(timeline, this.branches.get(found.serial), coordinate.seq, state, how)
  }

  checkStateAt(timeline, serial, seq, state, how) {
    this.#compare(timeline, this.branches.get(serial), seq, state, how)
  }

  #compare(timeline, branch, seq, state, how) {
    const model = modelOf(this.#models, timeline)
    if (model.textOf(state) !== model.plainTextOf(this.stateAt(model, branch, seq))) {
      this.#fail('G8', `${timeline}@${seq} (${how}): state differs from the fold of history`)
    }
  }

  /** Plain folds make new states and leave the old ones as they are, so every one of them is kept. */
  stateAt(model, branch, seq) {
    branch.states ??= [model.plainInitial()]
    const { states } = branch
    for (let at = states.length; at <= seq; at++) {
      states.push(this.#apply(model, states[at - 1], this.#entryAt(branch, at)))
    }
    return states[seq]
  }

  #apply(model, state, entry) {
    return entry.type.startsWith('$') ? state : model.plainApply(state, entry)
  }

  // Mail and the feed

  sending(m, to) {
    this.#sent.set(m, { to, isAcknowledged: false })
  }

  sentOut(m) {
    this.#sent.get(m).isAcknowledged = true
  }

  /** At the end: every sent message is unread or in history, once; every run was seen, once. */
  checkDelivered(space, isCaughtUp) {
    for (const [m, { to, isAcknowledged }] of this.#sent) {
      const isUnread = (space.unread.get(to) ?? []).some((message) => message.id === `m${m}`)
      const isGot = this.#gots.has(m)
      if (isUnread && isGot) this.#fail('G4', `message ${m} to ${to} is in history and still unread`)
      if (isAcknowledged && !isUnread && !isGot) this.#fail('G4', `message ${m} to ${to} was acknowledged and is lost`)
    }
    // A consumer with damaged history has read the readable part.
    if (!isCaughtUp) return
    for (const [digest, { serial, first }] of this.#runs) {
      if (!this.#seen.has(digest))
        this.#fail('feed', `the run of ${this.branches.get(serial).id}@${first} was never seen`)
    }
  }

  // Effects

  #learnEffect(branch, entry, where) {
    const { type, id, effectKey } = entry
    if (type === '$effect.intended') {
      this.#learnIntent(branch, entry)
      const known = this.#intents.get(effectKey)
      if (!known) this.#intents.set(effectKey, { serial: branch.serial, seq: entry.seq, id, done: [] })
      else if (known.id !== id || !this.#isAbove(branch, known)) {
        this.#fail('G5', `${where}: effect ${id} has the key of another one`)
      }
    } else if (type === '$effect.done') {
      for (const intent of this.#intents.values()) {
        if (intent.id === id && this.#isAbove(branch, intent))
          intent.done.push({ serial: branch.serial, seq: entry.seq })
      }
      this.#checkDone(branch, entry, where)
    }
  }

  /**
   * The intent in the oracle's own terms, without the engine's key: the place where it was first intended, or the declared
   * one. A repetition after a failure is the same intent; a fork and a rollback below it have their own.
   */
  #learnIntent(branch, entry) {
    const { id, seq, input } = entry
    const before = this.#lastIntended(branch, id, seq - 1)
    const isRepeated = before && this.branches.get(before.serial).id === branch.id
    entry.intent = isRepeated ? before.intent : `${branch.serial} ${id} ${input ? `for ${input.amount}` : `at ${seq}`}`
    branch.intended ??= new Map()
    branch.intended.set(id, [...(branch.intended.get(id) ?? []), entry])
  }

  #lastIntended(branch, id, seqMax) {
    for (let at = branch; at; at = this.branches.get(at.parent)) {
      const found = at.intended?.get(id)?.findLast(({ seq }) => seq <= seqMax)
      if (found) return found
      seqMax = Math.min(seqMax, at.baseSeq)
    }
    return null
  }

  /** An effect that history records as done was done in the ledger, once, and with the recorded answer. */
  #checkDone(branch, { id, seq, result }, where) {
    const { intent } = this.#lastIntended(branch, id, seq)
    const done = this.outside.done.filter((one) => one === intent)
    if (done.length !== 1) this.#fail('G5', `${where}: effect ${id} is done in history, outside ${done.length} times`)
    if (result.paid !== this.#keyOfIntent.get(intent))
      this.#fail('G5', `${where}: effect ${id} has the answer to another intent`)
  }

  /**
   * The outside world is being called: never without a durable intent, never again once the outcome was known, by equal keys for
   * equal intents only. Returns the answer of the ledger.
   */
  called(handle, id, key) {
    const where = `${handle.id} (epoch ${handle.epoch})`
    const intent = this.#intents.get(key)
    if (!intent) return this.#fail('G5', `${where}: effect ${id} was called without a durable intent`)
    const recovered = this.#byDigest.get(handle.recoveredDigest)
    const branch = recovered && this.branches.get(recovered.serial)
    if (branch && intent.done.some((place) => this.#isAbove(branch, place) && place.seq <= recovered.seq)) {
      this.#fail('G5', `${where}: effect ${id} was called again, though its outcome was recorded`)
    }
    const call = `${handle.id} ${handle.epoch} ${key}`
    const count = (this.#calls.get(call) ?? 0) + 1
    this.#calls.set(call, count)
    if (count > 1) this.#fail('G5', `${where}: effect ${id} was called twice by one owner`)
    return this.#receive(handle, id, key, where)
  }

  /** The outside did it, and its answer was lost: the owner may call again. */
  answerLost(handle, key) {
    this.#calls.delete(`${handle.id} ${handle.epoch} ${key}`)
  }

  #receive({ id: timeline, coordinate }, id, key, where) {
    const place = this.#byDigest.get(coordinate.digest)
    const intended = this.#lastIntended(this.branches.get(place.serial), id, place.seq)
    const owner = this.branches.get(intended.serial).id
    if (owner !== timeline)
      this.#fail('G5', `${where}: effect ${id} was intended by ${owner}, and is called by its fork`)
    const { intent } = intended
    const known = this.#keyOfIntent.get(intent)
    if (known !== undefined && known !== key)
      this.#fail('G5', `${where}: intent ${intent} has the keys ${known} and ${key}`)
    this.#keyOfIntent.set(intent, key)
    const answer = this.outside.receive(key, intent, { intent, paid: key })
    if (answer.intent !== intent)
      this.#fail('G5', `${where}: intent ${intent} was answered with the result of ${answer.intent}`)
    return { paid: answer.paid }
  }
}
