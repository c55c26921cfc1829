// Wishes to a running pipeline from other processes (the command line, above all) travel as mail, as they do to jobs: stop,
// cancel, send letters back or forget them. A wish that changes state is taken out of the inbox once a checkpoint has it.

import type { Shapes } from '../../../core/data-shape.ts'
import { isReprise } from '../../../core/errors.ts'
import type { Host } from '../../../engine/host/host.ts'
import { readShaped } from '../../../engine/host/shaped-mail.ts'
import type { StateTimeline } from '../../../engine/writing/state-timeline.ts'

export const stopKind = 'pipeline.stop'
export const redriveKind = 'pipeline.redrive'
export const discardKind = 'pipeline.discard'

const lookEveryMs = 500

export interface StopWish {
  readonly how: 'suspend' | 'cancel'
  /** Of the run that was meant: one that came after it is not stopped. */
  readonly epoch?: number
}

/** To send letters back, or to forget them. */
export interface LettersWish {
  /** All of them if left out. */
  readonly ids?: readonly number[]
}

/** What a run can be asked for. */
export interface Asked {
  stop(): Promise<unknown>
  cancel(): Promise<unknown>
  redrive(ids?: readonly number[]): Promise<number>
  discard(ids?: readonly number[]): Promise<number>
  checkpoint(): Promise<unknown>
}

/** The returned function ends it. */
export function listenForMail(
  engine: Host,
  taken: StateTimeline,
  run: Asked,
  fail: (error: unknown) => void,
): () => Promise<void> {
  const { clock } = engine.kernel
  let isOver = false
  let wake = () => {}
  const listen = async () => {
    while (!isOver) {
      await new Promise<void>((resolve) => {
        const cancel = clock.after(lookEveryMs, resolve)
        wake = () => {
          cancel()
          resolve()
        }
      })
      if (!isOver) await readMail(engine, taken, run, () => isOver)
    }
  }
  const listening = listen().catch((error) => {
    if (!isOver && !isReprise(error, 'CLOSED')) fail(error)
  })
  return async () => {
    isOver = true
    wake()
    await listening
  }
}

const mailShapes: Shapes = {
  [redriveKind]: { ids: 'list?' },
  [discardKind]: { ids: 'list?' },
  [stopKind]: { how: 'text', epoch: 'number?' },
}

async function readMail(engine: Host, taken: StateTimeline, run: Asked, isOver: () => boolean): Promise<void> {
  const { store, committer } = engine.kernel
  const [head] = await committer.patiently(() => store.head([taken.id]), isOver)
  if (!head || head.mail === 0) return
  for (const message of (await committer.patiently(() => store.inbox(taken.id, 100), isOver)).messages) {
    const data = readShaped(engine, message, mailShapes)
    const consume = () => taken.write({ consume: [message.id] })
    if (data === null) {
      await consume()
      continue
    }
    if (message.kind === redriveKind || message.kind === discardKind) {
      const { ids } = data as LettersWish
      await (message.kind === redriveKind ? run.redrive(ids) : run.discard(ids))
      await run.checkpoint()
    }
    if (message.kind !== stopKind) {
      await consume()
      continue
    }
    const { how, epoch = taken.head.epoch } = data as StopWish
    const isMeant = epoch === taken.head.epoch
    // Before it is taken out of the inbox, which waits for its turn behind whatever hangs. None of them is awaited: they settle
    // when this loop has ended.
    if (isMeant && how === 'cancel') run.cancel().catch(() => undefined)
    await consume()
    if (isMeant && how === 'suspend') run.stop().catch(() => undefined)
    if (isMeant) return
  }
}
