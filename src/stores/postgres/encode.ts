// Encodes commits for the functions in the database: JSON for small values, one value with all the bytes beside it.
// `start` counts from 1, as SQL does.

import { toHex } from '../../core/coordinate.ts'
import type { Attribute, Commit, ManifestMark, ManifestRecord } from '../../core/store/ports.ts'
import { checkId, escapeAttributes, escapeText } from './text.ts'

type Json = Record<string, unknown>

export interface EncodedBatch {
  readonly commits: string
  /** Timelines that must have a row before the first commit is processed. */
  readonly make: readonly string[]
  /** All timelines that are written. */
  readonly lock: readonly string[]
  readonly blob: Buffer
}

export function encodeBatch(commits: readonly Commit[]): EncodedBatch {
  const blob = new BlobWriter()
  const make = new Set<string>()
  const lock = new Set<string>()
  const encoded = commits.map((commit) => {
    if (commit.guard) lock.add(checkId(commit.guard.timeline))
    if (commit.guard && commit.take?.create) make.add(commit.guard.timeline)
    if (commit.branch) lock.add(checkId(commit.branch.archive))
    for (const { to } of commit.send ?? []) {
      make.add(checkId(to))
      lock.add(to)
    }
    return encodeCommit(commit, blob)
  })
  return { commits: JSON.stringify(encoded), make: [...make], lock: [...lock], blob: blob.take() }
}

/** All bytes of a batch, concatenated. */
export class BlobWriter {
  readonly #pieces: Uint8Array[] = []
  #size = 0

  add(bytes: Uint8Array): { readonly start: number; readonly size: number } {
    this.#pieces.push(bytes)
    this.#size += bytes.length
    return { start: this.#size - bytes.length + 1, size: bytes.length }
  }

  take(): Buffer {
    return Buffer.concat(this.#pieces, this.#size)
  }
}

function encodeCommit(commit: Commit, blob: BlobWriter): Json {
  const { guard, take, run, branch, trim } = commit
  const json: Json = { op: escapeText(commit.operation) }
  if (guard) {
    json.t = guard.timeline
    json.epoch = guard.epoch
    if (guard.life !== undefined) json.life = guard.life
    if (guard.seq !== undefined) json.seq = guard.seq
    if (guard.digest !== undefined) json.digest = toHex(guard.digest)
  }
  if (take) {
    json.take = { worker: escapeText(take.worker), from: take.from }
    if (take.create) json.create = encodeCreate(take.create)
  }
  if (run) json.run = { count: run.count, digest: toHex(run.digest), ...blob.add(run.bytes) }
  if (branch) {
    const floor = { floor: branch.floor.seq, floorDigest: toHex(branch.floor.digest) }
    json.branch = { archive: branch.archive, seq: branch.seq, digest: toHex(branch.digest), ...floor }
  }
  if (commit.publish) json.publish = commit.publish.map((record) => encodeManifest(record, blob))
  if (commit.marks) json.marks = commit.marks.map(encodeMark)
  if (commit.drop) json.drop = commit.drop.map(escapeText)
  if (trim) json.trim = { seq: trim.seq, digest: toHex(trim.digest), restsOn: trim.restsOn.map(escapeText) }
  if (commit.publish || commit.marks || commit.drop || trim) json.catalog = true
  if (commit.consume) json.consume = commit.consume.map(escapeText)
  if (commit.settles) json.settles = commit.settles
  if (commit.send) {
    json.send = commit.send.map(({ id, to, life, kind, data }) => {
      const only = life === undefined ? {} : { life }
      return { id: escapeText(id), to, ...only, kind: escapeText(kind), ...blob.add(data) }
    })
  }
  Object.assign(json, encodeFields(commit))
  if (commit.forget) json.forget = commit.forget
  if (commit.aside) json.aside = true
  if (isRefusedLate(commit)) json.late = true
  return json
}

export function encodeFields(commit: Commit): Json {
  const json: Json = {}
  if (commit.unlessMail) json.unlessMail = true
  if (commit.release) json.release = true
  if (commit.wakeup !== undefined) json.wakeup = commit.wakeup === null ? null : String(commit.wakeup)
  if (commit.queue !== undefined) json.queue = commit.queue === null ? null : escapeText(commit.queue)
  if (commit.priority !== undefined) json.priority = String(commit.priority)
  if (commit.status !== undefined) json.status = escapeText(commit.status)
  if (commit.attributes) {
    const entries = Object.entries(commit.attributes)
    const kept = entries.filter((entry): entry is [string, Attribute] => entry[1] !== null && entry[1] !== undefined)
    json.attributes = escapeAttributes(Object.fromEntries(kept))
    json.removed = entries.filter(([, value]) => value === null).map(([key]) => escapeText(key))
  }
  if (commit.cursors) {
    json.cursors = Object.entries(commit.cursors)
      .filter(([, position]) => position !== undefined)
      .map(([name, position]) => ({ name: escapeText(name), position }))
  }
  return json
}

/** These may be refused after the commit's first write. */
function isRefusedLate(commit: Commit): boolean {
  const { guard, branch, publish, drop, trim, consume, settles, cursors, forget, take, send } = commit
  const mayHaveNoReceiver = guard === null && send?.some(({ life }) => life !== undefined)
  return Boolean(
    branch ||
      publish ||
      drop ||
      trim ||
      consume ||
      settles ||
      cursors ||
      forget ||
      take?.create?.base ||
      mayHaveNoReceiver,
  )
}

function encodeCreate(create: NonNullable<NonNullable<Commit['take']>['create']>): Json {
  const { digest, life, copyOf, base, floor } = create
  return {
    digest: toHex(digest),
    ...(life !== undefined && { life }),
    ...(copyOf && { copyOf }),
    ...(base && { base: { timeline: checkId(base.timeline), seq: base.seq, digest: toHex(base.digest) } }),
    ...(floor && { floor: { seq: floor.seq, digest: toHex(floor.digest) } }),
  }
}

function encodeManifest(record: ManifestRecord, blob: BlobWriter): Json {
  const { id, baseId, digest, body, bodyDigest, trigger, label, foldVersion, invalid, drill, ...plain } = record
  return {
    ...plain,
    id: escapeText(id),
    baseId: baseId && escapeText(baseId),
    digest: toHex(digest),
    bodyDigest: toHex(bodyDigest),
    trigger: escapeText(trigger),
    label: label && escapeText(label),
    foldVersion: escapeText(foldVersion),
    invalid: invalid && escapeText(invalid),
    drill: drill && escapeText(drill),
    ...blob.add(body),
  }
}

function encodeMark({ id, invalid, drill, label, ...plain }: ManifestMark): Json {
  return {
    ...plain,
    id: escapeText(id),
    ...(invalid !== undefined && { invalid: invalid === null ? null : escapeText(invalid) }),
    ...(drill !== undefined && { drill: escapeText(drill) }),
    ...(label !== undefined && { label: escapeText(label) }),
  }
}
