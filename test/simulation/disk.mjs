// The simulated disk under the store: a volatile image that writers change and a durable one that readers see and a power loss
// leaves. Each change waits for a sync; a loss keeps some of the unsynced changes, in order and each of them whole. Changes of
// the durable image are reported to the oracle, which is outside the store.

import { toHex } from '../../dist/core/coordinate.js'
import { cells, createWorld, openMemory, snapshot } from '../../dist/stores/memory/index.js'
import { plantAround } from './plants.mjs'
import { sha256 } from './sha256.mjs'

export const namespace = 'sim'

export class Disk {
  #oracle
  #random
  #plant
  #clock
  #volatile = createWorld()
  #writer
  /** Changes without a sync, oldest first: the world after each, and the facts for the oracle if it stays. */
  #unsynced = []
  durable
  #reader
  /** Damaged bytes that may still be in the store: the array itself, its former content, its name. */
  rotten = []
  /** Digest of damaged bytes -> the digest that was expected: how a missing check is planted. */
  lenient = new Map()

  constructor({ oracle, random, plant, clock }) {
    this.#oracle = oracle
    this.#random = random
    this.#plant = plant
    this.#clock = clock
    this.#restart(this.#volatile)
  }

  /** A store over the durable image, which every reader sees. */
  get reader() {
    return this.#reader
  }

  get space() {
    return this.durable.spaces.get(namespace)
  }

  get volatile() {
    return this.#volatile
  }

  get volatileSpace() {
    return this.#volatile.spaces.get(namespace)
  }

  /** Does the work on the volatile image; the result comes with a token for `sync`. */
  async change(work) {
    const facts = []
    const value = await work(this.#writer, (fact) => facts.push(fact))
    const token = { after: snapshot(this.#volatile), facts }
    this.#unsynced.push(token)
    return { value, token }
  }

  /** Commits one by one, as one transaction does, each watched by the oracle. */
  commit(commits) {
    return this.change(async (writer, learn) => {
      const outcomes = []
      for (const commit of commits) {
        const space = this.volatileSpace
        const before = this.#oracle.look(space, commit)
        const outcome = await plantAround(this.#plant, space, commit, (changed) => writer.commit([changed]))
        outcomes.push(outcome)
        const fact = this.#oracle.watch(this.volatileSpace, commit, outcome, before)
        if (fact) learn(fact)
      }
      return outcomes
    })
  }

  /** This change and all before it are durable from now on. One that a power loss took is not there any more. */
  sync(token) {
    const index = this.#unsynced.indexOf(token)
    if (index >= 0) this.#keep(index + 1)
  }

  /** Keeps only some of the unsynced changes. Returns the number of lost ones. */
  losePower() {
    const count = this.#unsynced.length
    const kept = this.#random.int(count + 1)
    this.#keep(kept)
    this.#unsynced = []
    this.#restart(snapshot(this.durable))
    return count - kept
  }

  /** Flips one bit of something stored. */
  rot(kinds) {
    const kind = this.#random.weighted(kinds)
    const found = cells(this.durable).filter((cell) => cell.kind === kind && cell.bytes.length > 0)
    if (found.length === 0) return null
    // The newest are the ones that readers will read.
    const cell = found[found.length - 1 - Math.floor(this.#random.number() ** 2 * found.length)]
    const { bytes } = cell
    if (this.rotten.some((one) => one.bytes === bytes)) return null
    const sound = bytes.slice()
    bytes[this.#random.int(bytes.length)] ^= 1 << this.#random.int(8)
    this.rotten.push({ kind, where: cell.where, bytes, sound })
    this.#remember(kind, bytes, sound)
    return cell
  }

  isRotten(bytes) {
    return this.rotten.some((one) => one.bytes === bytes)
  }

  #remember(kind, bytes, sound) {
    if (this.#plant !== 'no-checksum') return
    this.lenient.set(toHex(sha256(bytes)), sha256(sound))
    if (kind !== 'run') return
    for (const row of this.space.timelines.values()) {
      let before = row.floor > (row.base?.seq ?? 0) || !row.base ? row.floorDigest : row.base.digest
      for (const run of row.runs) {
        if (run.bytes === bytes) this.lenient.set(toHex(sha256(Buffer.concat([before, bytes]))), run.digest)
        before = run.digest
      }
    }
  }

  #keep(count) {
    if (count === 0) return
    for (const { facts } of this.#unsynced.slice(0, count)) for (const fact of facts) fact()
    this.durable = this.#unsynced[count - 1].after
    this.#reader = this.#open(this.durable)
    this.#unsynced = this.#unsynced.slice(count)
  }

  #restart(world) {
    this.#volatile = world
    this.#writer = this.#open(world)
    this.durable ??= snapshot(world)
    this.#reader = this.#open(this.durable)
  }

  #open(world) {
    return openMemory({ namespace, hash: sha256, clock: this.#clock, world })
  }
}
