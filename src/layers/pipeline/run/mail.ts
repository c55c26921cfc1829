// Requests to a running pipeline from other processes (mostly the command line) are sent as mail, as for jobs: stop, cancel,
// send letters back or discard them. A request that changes state is removed from the inbox once a checkpoint contains the
// change.

import type { MessageId } from '../../../core/coordinate.ts'
import type { Shapes } from '../../../core/data-shape.ts'
import { isReprise } from '../../../core/errors.ts'
import type { Host } from '../../../engine/host/host.ts'
import { readShaped } from '../../../engine/host/shaped-mail.ts'
import type { StateTimeline } from '../../../engine/writing/state-timeline.ts'
import { Alarm } from '../../../lib/waiting.ts'

export const stopKind = 'pipeline.stop'
export const redriveKind = 'pipeline.redrive'
export const discardKind = 'pipeline.discard'

const pollMs = 500
const readAtOnce = 100

export interface StopWish {
  readonly how: 'suspend' | 'cancel'
  /** The epoch of the run that is meant: a later run is not stopped. */
  readonly epoch?: number
}

/** A request to send letters back or to discard them. */
export interface LettersWish {
  /** Default: all letters. */
  readonly ids?: readonly number[]
}

interface LetterControls {
  redrive(ids?: readonly number[]): Promise<number> | number
  discard(ids?: readonly number[]): Promise<number> | number
}

/** The requests that a run accepts. */
export interface RunControls extends LetterControls {
  stop(): Promise<unknown>
  cancel(): Promise<unknown>
  checkpoint(): Promise<unknown>
}

/**
 * Carries out requests about letters that were sent before this run began: they belong to it, however soon it ends. Returns
 * their ids, to be removed once a checkpoint contains the change.
 */
export async function applyEarlier(engine: Host, taken: StateTimeline, run: LetterControls): Promise<Set<MessageId>> {
  const applied = new Set<MessageId>()
  for (const message of (await engine.inbox(taken.id, readAtOnce)).messages) {
    if (message.kind !== redriveKind && message.kind !== discardKind) continue
    const data = readShaped(engine, message, mailShapes)
    if (data !== null) await carryOut(run, message.kind, data as LettersWish)
    applied.add(message.id)
  }
  return applied
}

/** `applied`: requests that were already carried out. Returns a function that stops listening. */
export function listenForMail(
  engine: Host,
  taken: StateTimeline,
  run: RunControls,
  applied: Set<MessageId>,
  fail: (error: unknown) => void,
): () => Promise<void> {
  const { clock } = engine
  let isOver = false
  const alarm = new Alarm(clock)
  const listen = async () => {
    while (!isOver) {
      await alarm.sleep(pollMs)
      if (!isOver) await readMail(engine, taken, run, applied, () => isOver)
    }
  }
  const listening = listen().catch((error) => {
    if (!isOver && !isReprise(error, 'CLOSED')) fail(error)
  })
  return async () => {
    isOver = true
    alarm.ring()
    await listening
  }
}

const mailShapes: Shapes = {
  [redriveKind]: { ids: 'list?' },
  [discardKind]: { ids: 'list?' },
  [stopKind]: { how: 'text', epoch: 'number?' },
}

async function carryOut(run: LetterControls, kind: string, { ids }: LettersWish): Promise<void> {
  await (kind === redriveKind ? run.redrive(ids) : run.discard(ids))
}

async function readMail(
  engine: Host,
  taken: StateTimeline,
  run: RunControls,
  applied: Set<MessageId>,
  isOver: () => boolean,
): Promise<void> {
  const [head] = await engine.patiently(() => engine.heads([taken.id]), isOver)
  if (!head || head.mail === 0) return
  for (const message of (await engine.patiently(() => engine.inbox(taken.id, readAtOnce), isOver)).messages) {
    const consume = () => taken.write({ consume: [message.id] })
    if (applied.has(message.id)) {
      await run.checkpoint()
      if (applied.delete(message.id)) await consume()
      continue
    }
    const data = readShaped(engine, message, mailShapes)
    if (data === null) {
      await consume()
      continue
    }
    if (message.kind === redriveKind || message.kind === discardKind) {
      await carryOut(run, message.kind, data as LettersWish)
      await run.checkpoint()
    }
    if (message.kind !== stopKind) {
      await consume()
      continue
    }
    const { how, epoch = taken.head.epoch } = data as StopWish
    const isMeant = epoch === taken.head.epoch
    // Cancel before removing the mail, because the removal queues behind operations that may hang. Neither call is awaited:
    // they settle when this loop has ended.
    if (isMeant && how === 'cancel') run.cancel().catch(() => undefined)
    await consume()
    if (isMeant && how === 'suspend') run.stop().catch(() => undefined)
    if (isMeant) return
  }
}
