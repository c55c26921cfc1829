// The timelines of the simulation and, for each, the plain fold that the oracle computes beside the engine's. Opaque
// state is too large to lie in its manifest, so that chunks are written; order matters in every fold.

import { forgottenTimeline } from '../../dist/engine/feed/forgotten-timelines.js'
import { Keyed, timeline } from '../../dist/index.js'
import { SeededRandom } from './random.mjs'

const padBytes = 2300
// Nothing that compresses: it must not fit into a manifest.
const firstPad = new SeededRandom(7).bytes(padBytes)

function emptyDocument() {
  return { count: 0, hash: 7, pad: firstPad }
}

function foldDocument(state, entry) {
  const number = numberOf(entry)
  const pad = state.pad.slice()
  pad[Math.imul(number, 7919) % padBytes] ^= number & 255
  return { count: state.count + 1, hash: (Math.imul(state.hash, 31) + number) | 0, pad }
}

/** Every fold of its entry reads it, and nothing changes it: the same in all seeds. */
const values = new Map()

function valueFor(number) {
  let value = values.get(number)
  if (value) return value
  value = new SeededRandom(number).bytes(400)
  if (values.size < 2000) values.set(number, value)
  return value
}

function changeOf(entry) {
  const number = numberOf(entry)
  const key = `k${number % 17}`
  return number % 11 === 0 ? { key, value: null } : { key, value: valueFor(number) }
}

/** Every entry has a number of its own: appends have `n`, mail `m`, consumed pages of the feed their content. */
function numberOf(entry) {
  if (entry.type === 'add') return entry.n
  if (entry.type === 'got') return entry.m
  return entry.numbers.reduce((sum, number) => (Math.imul(sum, 31) + number) >>> 0, 5) % 100003
}

/** The compared form of both sides. */
function textOfDocument({ count, hash, pad }) {
  return `${count} ${hash} ${Buffer.from(pad).toString('latin1')}`
}

const documentModel = {
  initial: emptyDocument,
  apply: foldDocument,
  plainInitial: emptyDocument,
  plainApply: foldDocument,
  textOf: textOfDocument,
  plainTextOf: textOfDocument,
}

const tableModel = {
  initial: () => ({ count: 0, table: new Keyed() }),
  apply(state, entry) {
    const { key, value } = changeOf(entry)
    if (value === null) state.table.delete(key)
    else state.table.set(key, value)
    return { count: state.count + 1, table: state.table }
  },
  plainInitial: () => ({ count: 0, table: new Map() }),
  plainApply(state, entry) {
    const { key, value } = changeOf(entry)
    const table = new Map(state.table)
    if (value === null) table.delete(key)
    else table.set(key, value)
    return { count: state.count + 1, table }
  },
  textOf: ({ count, table }) => textOfTable(count, [...table.entries()]),
  plainTextOf: ({ count, table }) =>
    textOfTable(
      count,
      [...table].sort(([a], [b]) => (a < b ? -1 : 1)),
    ),
}

function textOfTable(count, entries) {
  return `${count} ${entries.map(([key, value]) => `${key}=${Buffer.from(value).toString('latin1')}`).join(',')}`
}

const tailModel = {
  initial: () => ({ position: '', ...emptyDocument() }),
  apply: (state, entry) => ({ position: entry.position ?? state.position, ...foldDocument(state, entry) }),
  plainInitial: () => ({ position: '', ...emptyDocument() }),
  plainApply: (state, entry) => ({ position: entry.position ?? state.position, ...foldDocument(state, entry) }),
  textOf: (state) => `${state.position} ${textOfDocument(state)}`,
  plainTextOf: (state) => `${state.position} ${textOfDocument(state)}`,
}

/** Fresh for each seed: a definition is shared by the engines of one simulation only. */
export function createModels() {
  const make = (name, model, policy) => ({
    name,
    ...model,
    every: policy.checkpoint.every,
    keep: policy.retain.checkpoints,
    keepsHistory: policy.retain.history !== 'needed',
    definition: timeline(name, { initial: model.initial, apply: model.apply, ...policy }),
  })
  return {
    doc: make('doc', documentModel, { checkpoint: { every: 8 }, retain: { checkpoints: 3 } }),
    map: make('map', tableModel, { checkpoint: { every: 6 }, retain: { checkpoints: 2 } }),
    log: make('log', documentModel, { checkpoint: { every: 4 }, retain: { checkpoints: 2, history: 'needed' } }),
    // Its name begins like another's, and it keeps more: a policy that reaches too far takes from it.
    logbook: make('logbook', documentModel, { checkpoint: { every: 2 }, retain: { checkpoints: 9 } }),
    led: make('led', tableModel, { checkpoint: { every: 5 }, retain: { checkpoints: 1, history: 'needed' } }),
    tail: make('tail', tailModel, { checkpoint: { every: 6 }, retain: { checkpoints: 2 } }),
  }
}

export function modelOf(models, timelineId) {
  return models[timelineId.slice(0, timelineId.indexOf('/'))]
}

/** The store's own, which no model has: it has a head and neither entries nor checkpoints. */
export function isOfStore(timelineId) {
  return timelineId === forgottenTimeline
}
