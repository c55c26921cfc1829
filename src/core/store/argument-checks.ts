// Checks the arguments of a store call, in the same way for every store, before anything is applied. A request that can
// never apply is a bug of the caller: INVALID_ARGUMENT, never a refusal and never "everything".

import { RepriseError } from '../errors.ts'
import type { Limits } from '../limits.ts'
import { checkObject } from '../options.ts'
import type { Commit, TimelineQuery } from './ports.ts'

type CommitField = keyof Commit
type QueryField = keyof TimelineQuery

const commitFields: Readonly<Record<CommitField, true>> = {
  operation: true,
  guard: true,
  aside: true,
  unlessMail: true,
  take: true,
  release: true,
  run: true,
  branch: true,
  publish: true,
  marks: true,
  drop: true,
  trim: true,
  consume: true,
  settles: true,
  send: true,
  wakeup: true,
  queue: true,
  priority: true,
  status: true,
  attributes: true,
  cursors: true,
  forget: true,
  userSql: true,
}

const asideFields: readonly CommitField[] = [
  ...(['operation', 'guard', 'aside', 'attributes'] as const),
  ...(['publish', 'marks', 'drop', 'trim'] as const),
]

/** Whether the change may be made beside the owner (Commit.aside): applying it twice makes no difference. */
export function mayBeAside(change: Partial<Commit>): boolean {
  const isAbsent = (field: string) => change[field as CommitField] === undefined
  return Object.keys(change).every((field) => isAbsent(field) || asideFields.includes(field as CommitField))
}

const queryFields: Readonly<Record<QueryField, true>> = {
  prefix: true,
  status: true,
  queue: true,
  owner: true,
  attributes: true,
  parent: true,
  after: true,
  limit: true,
}

/** @example commits.forEach(checkCommit) */
export function checkCommit(commit: Commit): void {
  const present = presentFields(commit, commitFields, 'a commit')
  if (typeof commit.operation !== 'string' || commit.operation === '') refuse('a commit must have an operation id')
  const { guard, run } = commit
  for (const { id, to, kind } of commit.send ?? []) {
    if (![id, to, kind].every((text) => typeof text === 'string' && text !== '')) {
      refuse('the id, the kind and the receiver of a message must be strings')
    }
  }
  if (guard === null) {
    if (!commit.send?.length || present.some((field) => !['operation', 'guard', 'send', 'settles'].includes(field))) {
      refuse('a commit without a guard must only send messages')
    }
    return
  }
  if (guard.life !== undefined && !isCount(guard.life)) refuse('guard.life must be a whole number of at least 0')
  if (!isCount(guard.epoch)) refuse('guard.epoch must be a whole number of at least 0')
  if (guard.seq !== undefined && !isCount(guard.seq)) refuse('guard.seq must be a whole number of at least 0')
  if ((guard.seq === undefined) !== (guard.digest === undefined))
    refuse('guard.seq and guard.digest require each other')
  if (guard.digest !== undefined && !(guard.digest instanceof Uint8Array)) refuse('guard.digest must be bytes')
  // The timeline may have moved since it was read: life, epoch and sequence together identify the intended one.
  if (commit.forget && (guard.life === undefined || guard.seq === undefined)) {
    refuse('a commit that forgets must have guard.life, guard.seq and guard.digest')
  }
  if (commit.forget && present.some((field) => !['operation', 'guard', 'forget', 'unlessMail'].includes(field))) {
    refuse('a commit that forgets must contain nothing else')
  }
  if (commit.aside && !mayBeAside(commit)) {
    refuse('a commit beside the owner must contain only attributes and changes of the catalog')
  }
  if (run !== undefined) {
    const last = commit.branch?.seq ?? guard.seq
    if (last === undefined) refuse('an append must have guard.seq, or follow a branch')
    const next = last + 1
    if (run.first !== next) refuse(`the run must start at ${next}, the next sequence (got ${run.first})`)
    if (!Number.isSafeInteger(run.count) || run.count < 1) refuse('a run must have at least one entry')
  }
}

export type AttributeLimits = Pick<Limits, 'attributes' | 'attributeKeyLength' | 'attributeTextLength'>

export function tooManyAttributes(count: number, limits: AttributeLimits): RepriseError {
  return over(limits, 'attributes', `a timeline would have ${count} attributes`)
}

function over(limits: AttributeLimits, limit: keyof AttributeLimits, what: string): RepriseError {
  return new RepriseError('LIMIT_EXCEEDED', `${what}, more than ${limits[limit]}`, { limit, max: limits[limit] })
}

/** Searchable attributes are few and short: they are stored twice, and read with every head. */
export function checkAttributes(attributes: Readonly<Record<string, unknown>>, limits: AttributeLimits): void {
  checkObject('attributes', attributes)
  const keys = Object.keys(attributes)
  let given = 0
  for (const key of keys) if (attributes[key] !== null && attributes[key] !== undefined) given += 1
  if (given > limits.attributes) throw tooManyAttributes(given, limits)
  for (const key of keys) {
    const value = attributes[key]
    if (isPlainAttribute(key, value, limits)) continue
    const shown = JSON.stringify(key.slice(0, 40))
    if (key.length > limits.attributeKeyLength) {
      throw over(limits, 'attributeKeyLength', `the attribute ${shown}… has a name of ${key.length} characters`)
    }
    // The engine's own attributes ($…) are not searchable.
    if (typeof value === 'string' && value.length > limits.attributeTextLength && !key.startsWith('$')) {
      throw over(limits, 'attributeTextLength', `the attribute ${shown} has a text of ${value.length} characters`)
    }
    if (value !== null && value !== undefined && !['string', 'number', 'boolean'].includes(typeof value)) {
      refuse(`attribute ${shown} must be a string, a number or a boolean`)
    }
  }
}

/** Short text, a number or a boolean: what most attributes are. */
function isPlainAttribute(key: string, value: unknown, { attributeKeyLength, attributeTextLength }: AttributeLimits) {
  if (key.length > attributeKeyLength) return false
  if (typeof value === 'string') return value.length <= attributeTextLength
  return typeof value === 'number' || typeof value === 'boolean'
}

/** @example checkTimelineQuery({ prefix: 'job/', limit: 100 }) */
export function checkTimelineQuery(query: TimelineQuery): void {
  presentFields(query, queryFields, 'a query of timelines')
  if (!isCount(query.limit)) refuse('limit must be a whole number of at least 0')
  for (const [key, value] of Object.entries(query.attributes ?? {})) {
    if (!['string', 'number', 'boolean'].includes(typeof value)) {
      refuse(`attribute ${key} must be compared with a string, a number or a boolean`)
    }
  }
}

function presentFields(value: object, known: object, what: string): string[] {
  const present: string[] = []
  for (const key of Object.keys(value)) if ((value as Record<string, unknown>)[key] !== undefined) present.push(key)
  for (const key of present) if (!Object.hasOwn(known, key)) refuse(`${what} has no field ${JSON.stringify(key)}`)
  return present
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

function refuse(message: string): never {
  throw new RepriseError('INVALID_ARGUMENT', message)
}
