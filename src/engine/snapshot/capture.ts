// Captures a state and writes it as the parts of a checkpoint. `captureState` is short: it freezes Keyed parts and
// encodes the rest, because the next entry may change it. `writeCapture` does the long work concurrently with the
// engine's other work. Nothing here publishes: the caller does, and reports success by the base it passes to the next
// capture.

import { assert } from '../../core/assert.ts'
import type { Part, ValuePart } from '../../core/checkpoint/manifest.ts'
import { type Digest, equalBytes } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { KeyedCapture } from '../../core/keyed-state/capture.ts'
import { Keyed } from '../../core/keyed-state/keyed.ts'
import type { KeyedPlan, KeyedPlanSettings } from '../../core/keyed-state/plan.ts'
import type { StateIo } from '../model/state-io.ts'
import {
  ChunkOutput,
  defaultOutputSettings,
  finishSteps,
  type KnownChunks,
  type OutputSettings,
  writeContent,
} from './chunk-output.ts'
import { type KeyedBase, writeKeyed } from './keyed-writer.ts'

/** How long a value is encoded before the event loop runs other work. */
const firstSliceMs = 4
const glanceBytes = 1024 * 1024

/** The data of a published checkpoint that the next capture builds on. Opaque to the engine; kept in memory only. */
export interface CaptureBase {
  readonly parts: ReadonlyMap<string | null, PartBase>
}

export type PartBase = KeyedBase | ValueBase

export interface ValueBase {
  readonly kind: 'value'
  readonly part: ValuePart
  /** Digest of the plain bytes; null for large values. */
  readonly digest: Digest | null
  readonly bytes: number
  readonly known: KnownChunks
}

type CapturedPart =
  | {
      readonly kind: 'value'
      readonly name: string | null
      /** The bytes, or the remaining steps of encoding them. */
      readonly plain: Uint8Array | Generator<void, Uint8Array>
      readonly base: ValueBase | null
    }
  | {
      readonly kind: 'keyed'
      readonly name: string | null
      readonly capture: KeyedCapture<unknown>
      readonly base: KeyedBase | null
    }

export interface Capture {
  readonly parts: readonly CapturedPart[]
  readonly kind: 'full' | 'incremental'
  /** How long the capture blocked the event loop. */
  readonly stallMs: number
  /** True if the value may have changed while it is being encoded. */
  readonly isTouched: () => boolean
  status: 'taken' | 'writing' | 'written' | 'abandoned'
}

export interface WrittenCapture {
  readonly parts: readonly Part[]
  /** Stored size of the whole state; the two fields below count only what this checkpoint added. */
  readonly totalBytes: number
  readonly addedBytes: number
  readonly addedChunks: readonly Digest[]
  /** The longest slice of work without yielding to the event loop, `captureState` included. */
  readonly longestStallMs: number
  readonly kind: 'full' | 'incremental'
  /** For each Keyed part: how it was written, why, and the costs compared. */
  readonly plans: readonly (KeyedPlan & { readonly part: string | null })[]
  /** The base for the next capture, if this one is published. */
  readonly base: CaptureBase
}

export interface CaptureSettings extends OutputSettings {
  readonly plan?: KeyedPlanSettings
}

/**
 * Freezes the state. `base` is that of the newest published checkpoint still in the catalog. Null: write everything. A
 * capture is treated as abandoned unless the next capture uses its base.
 * @example const written = await writeCapture(captureState(state, base, io), io)
 */
export function captureState(
  state: unknown,
  base: CaptureBase | null,
  io: Pick<StateIo, 'codec' | 'elapsed'>,
  /** With this, a large plain value is encoded in slices until it returns true. Default: encoded in one slice. */
  isTouched?: () => boolean,
): Capture {
  const startedAt = io.elapsed()
  const { value, keyeds } = takeApart(state)
  // Encoding may fail and therefore comes first: it must not leave frozen pages behind.
  const parts: CapturedPart[] = []
  if (value !== undefined) {
    const held = base?.parts.get(null)
    parts.push({
      kind: 'value',
      name: null,
      plain: isTouched ? beginEncoding(value.rest, io) : io.codec.encode(value.rest),
      base: held?.kind === 'value' ? held : null,
    })
  }
  for (const [name, keyed] of keyeds) {
    const held = base?.parts.get(name)
    const keyedBase = held?.kind === 'keyed' ? held : null
    const capture = new KeyedCapture(Keyed.treeOf(keyed), keyedBase?.mark ?? null)
    parts.push({ kind: 'keyed', name, capture, base: capture.canBuild ? keyedBase : null })
  }
  const kind = base ? 'incremental' : 'full'
  return { parts, kind, stallMs: io.elapsed() - startedAt, status: 'taken', isTouched: isTouched ?? (() => false) }
}

/** Encodes a small value at once; of a large one, only the first slice. */
function beginEncoding(
  value: unknown,
  io: Pick<StateIo, 'codec' | 'elapsed'>,
): Uint8Array | Generator<void, Uint8Array> {
  const steps = io.codec.encodeInSteps?.(value)
  if (!steps) return io.codec.encode(value)
  const until = io.elapsed() + firstSliceMs
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
    if (io.elapsed() >= until) return steps
  }
}

/** A plain value changed while it was being encoded: the written bytes mix two states. */
export class TouchedValue extends Error {
  constructor() {
    super('the state was changed while it was captured')
  }
}

/** Writes the chunks; all are durable when it resolves. If it throws, the capture is abandoned. */
export async function writeCapture(
  capture: Capture,
  io: StateIo,
  settings: CaptureSettings = defaultOutputSettings,
): Promise<WrittenCapture> {
  assert(capture.status === 'taken', 'a capture is written once')
  capture.status = 'writing'
  const output = new ChunkOutput(io, settings)
  try {
    const bases = new Map<string | null, PartBase>()
    const plans: (KeyedPlan & { readonly part: string | null })[] = []
    let totalBytes = 0
    for (const part of capture.parts) {
      if (part.kind === 'value') {
        const written = await writeValue(part, output, capture.isTouched)
        bases.set(part.name, written)
        totalBytes += written.bytes
      } else {
        const written = await writeKeyed(part.name, part.capture, part.base, output, settings.plan)
        bases.set(part.name, written.base)
        plans.push({ part: part.name, ...written.plan })
        totalBytes += written.bytes
      }
    }
    await output.finish()
    if (isAbandoned(capture)) throw new RepriseError('ABORTED', 'the capture was abandoned while it was written')
    capture.status = 'written'
    for (const part of capture.parts) if (part.kind === 'keyed') part.capture.release()
    return {
      parts: [...bases.values()].map(({ part }) => part),
      totalBytes,
      addedBytes: output.addedBytes,
      addedChunks: output.added,
      longestStallMs: Math.max(capture.stallMs, output.slices.longestMs),
      kind: capture.kind,
      plans,
      base: { parts: bases },
    }
  } catch (error) {
    abandonCapture(capture)
    throw error
  }
}

/** The capture was not published: the next one contains its changes again. May be called twice, and during writing. */
export function abandonCapture(capture: Capture): void {
  for (const part of capture.parts) if (part.kind === 'keyed') part.capture.abandon()
  capture.status = 'abandoned'
}

function isAbandoned(capture: Capture): boolean {
  return (
    capture.status === 'abandoned' || capture.parts.some((part) => part.kind === 'keyed' && part.capture.isAbandoned)
  )
}

async function writeValue(
  part: Extract<CapturedPart, { kind: 'value' }>,
  output: ChunkOutput,
  isTouched: () => boolean,
): Promise<ValueBase> {
  const plain = part.plain instanceof Uint8Array ? part.plain : await finishSteps(part.plain, output.slices)
  if (!(part.plain instanceof Uint8Array) && isTouched()) throw new TouchedValue()
  const digest = digestOfValue(plain, output.io)
  if (part.base?.digest && digest && equalBytes(part.base.digest, digest)) return part.base
  const { content, bytes, known } = await writeContent(plain, part.base?.known ?? new Map(), output)
  return { kind: 'value', part: { kind: 'value', name: part.name, content }, digest, bytes, known }
}

/** Detects an unchanged value by its digest. Null: the value is large, and its chunks are compared slice by slice. */
export function digestOfValue(plain: Uint8Array, io: Pick<StateIo, 'hash'>): Digest | null {
  return plain.length > glanceBytes ? null : io.hash(plain)
}

/** A state is a Keyed, a plain object with Keyed among its properties, or one value. */
function takeApart(state: unknown): { value: { rest: unknown } | undefined; keyeds: Map<string | null, Keyed> } {
  if (state instanceof Keyed) return { value: undefined, keyeds: new Map([[null, state]]) }
  if (!isPlainObject(state)) return { value: { rest: state }, keyeds: new Map() }
  const keyeds = new Map<string | null, Keyed>()
  for (const [name, part] of Object.entries(state)) if (part instanceof Keyed) keyeds.set(name, part)
  if (new Set(keyeds.values()).size < keyeds.size) {
    throw new RepriseError('UNSERIALIZABLE', 'the same Keyed is in the state twice', { names: [...keyeds.keys()] })
  }
  if (keyeds.size === 0) return { value: { rest: state }, keyeds }
  const rest = Object.fromEntries(Object.entries(state).filter(([name]) => !keyeds.has(name)))
  return { value: { rest }, keyeds }
}

export function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
