// The fold of a run's history into its state (state.ts): one handler for each type of entry (entries.ts).

import { RepriseError } from '../../../core/errors.ts'
import type { Writable } from '../../../core/writable.ts'
import type { Entry } from '../../../engine/history/history.ts'
import type { Fold } from '../../../engine/model/definition.ts'
import type { Item } from './entries.ts'
import { appended, itemsOf, type Journal, journalOf, journalUpTo } from './journal.ts'
import { withoutRepeated, withReused } from './rerun.ts'
import { checkEntry } from './shapes.ts'
import {
  endOf,
  itemOf,
  keyed,
  lastSeq,
  noCommand,
  noUndo,
  type OpenCommand,
  own,
  type RunState,
  type Undo,
} from './state.ts'

const initial: RunState = {
  started: null,
  startedAt: 0,
  input: undefined,
  generation: 0,
  keyBase: '',
  isAdmitted: false,
  journal: journalOf([]),
  lastAt: 0,
  open: {},
  patches: {},
  undone: {},
  undos: {},
  updates: {},
  rolling: null,
  waits: null,
  end: null,
}

const updatesKept = 200
const rerunKeysKept = 50

export const workflowFold: Fold<RunState> = {
  version: 'workflow-1',
  initial: () => ({ ...initial, journal: journalOf([]) }),
  apply,
  retain: { checkpoints: 2, history: 'needed' },
}

// biome-ignore lint/suspicious/noExplicitAny: entries.ts lists the fields of each entry.
type Data = any

/**
 * Applies one entry. `next` is a copy of the state before the entry, with its time and without waits; the handler may change
 * its fields, and never the values in them.
 */
type Handler = (next: Writable<RunState>, data: Data, entry: Entry) => RunState

function apply(state: RunState, entry: Entry): RunState {
  const data = entry.data as Data
  checkEntry(entry.type, data)
  const next: Writable<RunState> = { ...state }
  next.lastAt = Math.max(state.lastAt, entry.time)
  next.waits = null
  const handle = handlers.get(entry.type)
  if (!handle) {
    throw new RepriseError('INCOMPATIBLE_VERSION', `a run has an entry of the unknown type ${entry.type}`, {
      timeline: entry.timeline,
      seq: entry.seq,
      type: entry.type,
    })
  }
  return handle(next, data, entry)
}

const ofCommands: Readonly<Record<string, Handler>> = {
  began: (next, data) => withOpen(next, data.id, { began: true, ...keyed(data) }),
  retry: (next, data) =>
    withOpen(next, data.id, {
      failures: data.n,
      notBefore: data.at,
      error: data.error,
      began: false,
      ...(data.details !== undefined && { details: data.details }),
      ...keyed(data),
    }),
  beat: (next, data) => withOpen(next, data.id, { details: data.details }),
  held: (next, data) => withOpen(next, data.id, { held: true }),
  settled: (next, data) => withOpen(next, data.id, { held: false, began: false }),
  done: withOutcome,
  failed: withOutcome,
  timer: withOutcome,
  child: withOutcome,
  rode: (next, data) => ({ ...next, journal: withSqlResult(next.journal, data.id, data.result) }),
  patched: (next, data) => ({ ...next, patches: { ...next.patches, [data.id]: true } }),
  loop: (next, data, entry) => ({ ...next, ...afterIteration(next, data.id, new Set(data.took), itemOf(entry)!) }),
}

const ofMail: Readonly<Record<string, Handler>> = {
  signal: withOutcome,
  update: withOutcome,
  updated(next, { update, refused, ...outcome }) {
    if (refused) next.journal = withoutUpdate(next, update)
    return { ...next, updates: bounded({ ...next.updates, [update]: outcome }, updatesKept) }
  },
  // A run that is cancelled while it waits in its queue is admitted at once, so that it can end.
  cancel: (next, data, entry) => ({
    ...next,
    journal: appended(next.journal, itemOf(entry)!),
    isAdmitted: true,
    ...undoOf(data),
  }),
}

const ofCompensations: Readonly<Record<string, Handler>> = {
  undoing: (next) => next,
  'undo.retry': (next, data) => withUndo(next, data.id, { failures: data.n, notBefore: data.at, error: data.error }),
  stuck: (next, data) => withUndo(next, data.id, { isStuck: true, error: data.error }),
  undone: (next, data) => ({
    ...next,
    undone: { ...next.undone, [data.id]: data.by ?? '' },
    undos: without(next.undos, data.id),
  }),
  restored: (next, data) => ({ ...atGeneration(next, data.to), restored: { ...data, isHeld: true } }),
  resumed: (next) => ({
    ...next,
    undos: {},
    ...(next.restored?.isHeld && { restored: { ...next.restored, isHeld: false } }),
  }),
  rollback: (next, data, { time }) => ({
    ...next,
    end: null,
    ...askedWith(next, data.key),
    ...undoOf(data),
    ...limited(next, data.deadline, time),
    rolling: {
      to: data.to,
      input: data.input,
      hasInput: 'input' in data,
      ...(data.seq !== undefined && { seq: data.seq }),
    },
  }),
  undo: (next, data, { time }) => ({
    ...next,
    end: null,
    ...undoOf(data),
    ...limited(next, data.deadline, time),
    rolling: { to: '', hasInput: false, ends: data.reason },
  }),
  rerun: (next, { to, deadline, key, ...data }, { time }) => ({
    ...next,
    end: null,
    ...askedWith(next, key),
    ...undoOf(data),
    ...limited(next, deadline, time),
    rolling: { to, hasInput: false, isRerun: true },
  }),
  rerunning: (next, { ids, took }, { seq }) => ({
    ...withoutRepeated(next, ids, took),
    // Values drawn after the first outcome of the re-run differ from those before it.
    ...(next.salts && { salts: [...next.salts, { after: seq, salt: `rerun ${seq}` }] }),
  }),
  reused: (next, { id }, { seq, time }) => withReused(next, id, seq, time),
  // The compensations of kept steps are registered by a replay of the journal that has them.
  unkept: (next, { error, cancelled }) => ({
    ...next,
    ...withJournalsSwapped(next),
    rolling: { to: '', hasInput: false, failure: { error, cancelled } },
  }),
  rolled: (next, data) => ({
    ...atGeneration(next, data.to, data.seq),
    ...('input' in data && { input: data.input }),
  }),
}

const ofTheRun: Readonly<Record<string, Handler>> = {
  started(next, data, entry) {
    next.started = data
    next.startedAt = entry.time
    next.input = data.input
    Object.assign(next, identified(entry.timeline, data))
    if (typeof data.seed === 'string') next.salts = [{ after: 0, salt: data.seed }]
    next.isAdmitted = !data.queue
    return next
  },
  admitted: (next) => ({ ...next, isAdmitted: true }),
  waits(next, data) {
    next.waits = data.for
    return next
  },
  continued: (next, data, { time }) => ({
    ...afresh(next),
    ...limited(next, data.deadline, time),
    input: data.input,
    journal: journalOf(keptMail(next.journal, data.took)),
  }),
  retried(next, data, { time }) {
    const ids = new Set<string>(data.ids)
    const journal = journalOf(
      itemsOf(next.journal).filter((item) => !('id' in item && ids.has(item.id)) && item.kind !== 'cancel'),
    )
    return { ...next, ...limited(next, data.deadline, time), journal, end: null }
  },
  forked: (next, data, entry) => ({
    ...next,
    ...(data.isCopy ? { identity: data.identity } : { end: null, rolling: null }),
    // Under another id: the children of the run have names of their own.
    ...((data.owns || !data.isCopy) && identified(entry.timeline, data)),
    ...(data.seed !== undefined && { salts: [...(next.salts ?? []), { after: data.after, salt: data.seed }] }),
    open: withoutKeys(next.open),
    ...(data.forgets && { updates: {}, rerunKeys: [], forkedAt: entry.seq }),
    ...(data.owns && { ...withoutOriginal(next), rolling: null }),
    ...('input' in data && { input: data.input }),
  }),
  completed(next, _data, entry) {
    next.end = endOf(entry)
    return next.rerun ? { ...next, ...withoutRerun(next) } : next
  },
  terminated: (next, _data, entry) => ({ ...next, end: endOf(entry) }),
  'ended-badly': (next, _data, entry) => ({
    ...next,
    ...(next.rolling?.failure && withJournalsSwapped(next)),
    rolling: null,
    end: endOf(entry),
  }),
}

/** A map, since the type of an entry may be any text, such as the name of an inherited property. */
const handlers: ReadonlyMap<string, Handler> = new Map(
  Object.entries({ ...ofCommands, ...ofMail, ...ofCompensations, ...ofTheRun }),
)

/** Removes the original's responsibilities from a fork: queue place, parent, and calls and undos in flight. */
function withoutOriginal({ started }: RunState): Partial<RunState> {
  const { parent: _, ...rest } = started!
  return { started: rest, isAdmitted: !rest.queue, open: {}, undos: {}, undoesInherited: false }
}

function undoOf(data: Data): { readonly undoesInherited?: true } {
  return data.undo === 'inherited' ? { undoesInherited: true } : {}
}

/** A repeated request with that key has no effect. */
function askedWith({ rerunKeys = [] }: RunState, key: string | undefined): Pick<RunState, 'rerunKeys'> {
  return key === undefined ? {} : { rerunKeys: [...rerunKeys, key].slice(-rerunKeysKept) }
}

/** A run that had ended gets its full time limit again. */
function limited({ started }: RunState, deadline: number | undefined, time: number): Partial<RunState> {
  return deadline === undefined ? {} : { started: { ...started!, deadline }, limitedFrom: time }
}

/** The state before that command, with keys of a new generation: repeated calls must not reuse the keys of undone ones. */
function atGeneration(state: RunState, to: string, seq?: number): RunState {
  const generation = state.generation + 1
  const journal = journalUpTo(state.journal, to, seq)
  const kept = new Set(itemsOf(journal).map((item) => ('id' in item ? item.id : '')))
  const after = lastSeq(journal)
  return {
    ...{ ...state, generation, ...withoutRerun(state) },
    // Random values drawn before that command stay the same.
    ...(state.salts && {
      salts: [
        ...state.salts.map((salt) => (salt.after > after ? { ...salt, after } : salt)),
        { after, salt: String(generation) },
      ],
    }),
    journal,
    open: {},
    // Earlier steps that are already undone stay undone.
    undone: dropInside(state.undone, (id) => !kept.has(id)),
    undos: {},
    undoesInherited: false,
    rolling: null,
    end: null,
  }
}

/** Marks the boundary between the journal of a re-run and the previous one. */
function withJournalsSwapped({ journal, rerun }: RunState): Pick<RunState, 'journal' | 'rerun'> {
  return rerun ? { journal: rerun.before, rerun: { before: journal, kept: rerun.kept } } : { journal }
}

/** Kept outcomes whose commands the code will no longer issue. */
function withoutRerun({ rerun, unused = [] }: RunState): Pick<RunState, 'rerun' | 'unused'> {
  return rerun ? { rerun: null, unused: [...unused, ...Object.keys(rerun.kept)] } : {}
}

/** The outcome of a command, or mail: it joins the journal, and its command is no longer open. */
function withOutcome(next: Writable<RunState>, data: Data, entry: Entry): RunState {
  next.open = without(next.open, data.id)
  next.journal = appended(next.journal, itemOf(entry)!)
  return next
}

function identified(timeline: string, { identity, life }: Data): Pick<RunState, 'identity' | 'keyBase'> {
  return { keyBase: life === undefined ? timeline : `${timeline}@${life}`, ...(identity !== undefined && { identity }) }
}

/** A fork calls under its own keys. */
function withoutKeys(open: RunState['open']): RunState['open'] {
  return Object.fromEntries(Object.entries(open).map(([id, { key: _gone, ...command }]) => [id, command]))
}

function withOpen(state: RunState, id: string, change: Partial<OpenCommand>): RunState {
  return { ...state, open: { ...state.open, [id]: { ...own(state.open, id, noCommand), ...change } } }
}

function withUndo(state: RunState, id: string, change: Partial<Undo>): RunState {
  return { ...state, undos: { ...state.undos, [id]: { ...own(state.undos, id, noUndo), ...change } } }
}

function without<T>(record: Readonly<Record<string, T>>, id: string | undefined): Readonly<Record<string, T>> {
  if (id === undefined || !Object.hasOwn(record, id)) return record
  const { [id]: _gone, ...rest } = record
  return rest
}

function withSqlResult(journal: Journal, id: string, result: unknown): Journal {
  return journalOf(
    itemsOf(journal).map((item) => (item.kind === 'done' && item.id === id ? { ...item, result, rode: null } : item)),
  )
}

/** Removes a refused update, so that later code does not find it. */
function withoutUpdate({ journal, forkedAt = 0 }: RunState, update: string): Journal {
  const isIt = (item: Item) => item.kind === 'update' && item.update === update && item.seq > forkedAt
  return journalOf(itemsOf(journal).filter((item) => !isIt(item)))
}

/** Drops the entries of earlier iterations of this loop, with the signals that they took. */
function afterIteration(
  state: RunState,
  loop: string,
  took: ReadonlySet<number>,
  boundary: Item,
): Pick<RunState, 'journal' | 'open' | 'undone' | 'patches'> {
  const inside = (id: string) => id === loop || id.startsWith(`${loop}.`)
  const kept = itemsOf(state.journal).filter(
    (item) => !('id' in item && inside(item.id)) && !(item.kind === 'signal' && took.has(item.seq)),
  )
  return {
    journal: journalOf([...kept, boundary]),
    open: dropInside(state.open, inside),
    undone: dropInside(state.undone, inside),
    patches: dropInside(state.patches, inside),
  }
}

function dropInside<T>(
  record: Readonly<Record<string, T>>,
  inside: (id: string) => boolean,
): Readonly<Record<string, T>> {
  for (const id in record) {
    if (inside(id)) return Object.fromEntries(Object.entries(record).filter(([each]) => !inside(each)))
  }
  return record
}

function afresh({ rerun: _kept, unused: _unused, ...state }: RunState): RunState {
  const generation = state.generation + 1
  const salt = [...(state.salts ?? []).map((each) => each.salt), generation].join('.')
  return {
    ...state,
    generation,
    ...(state.salts && { salts: [{ after: 0, salt }] }),
    open: {},
    patches: {},
    undone: {},
    undos: {},
    rolling: null,
    end: null,
  }
}

/** Signals and updates that no code took; empty if `took` is null. */
function keptMail(journal: Journal, took: readonly number[] | null): Item[] {
  if (took === null) return []
  const taken = new Set(took)
  return itemsOf(journal).filter((item) => (item.kind === 'signal' || item.kind === 'update') && !taken.has(item.seq))
}

function bounded<T>(record: Readonly<Record<string, T>>, max: number): Readonly<Record<string, T>> {
  const keys = Object.keys(record)
  if (keys.length <= max) return record
  return Object.fromEntries(Object.entries(record).slice(keys.length - max))
}
