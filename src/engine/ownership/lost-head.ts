// Rebuilds heads that were lost with a damaged page (core/history/lost-head.ts) from history: the model derives status,
// queue and wakeup from a state. Done by verify with `repair`, by opening or reading such a timeline, and by any
// process whose code declares its model. Until then no process writes to it.

import type { TimelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { isHeadLost, lostAttribute, lostStatus } from '../../core/history/lost-head.ts'
import { archivedFrom, isWithin } from '../../core/history/scope.ts'
import type { Head } from '../../core/store/ports.ts'
import { recover } from '../history/recover.ts'
import type { HeadAgain, Model } from '../model/model.ts'
import { headsIn } from '../storage/heads.ts'
import { type Kernel, submit } from '../storage/kernel.ts'
import { movedAttribute, movedStatus } from '../storage/moved-mark.ts'
import { heldAttribute } from '../storage/restore-hold.ts'
import { quarantined } from '../storage/sound-page.ts'

const attemptsMax = 10

/** Returns the rebuilt head. Throws HEAD_LOST, with the reason, if it cannot be rebuilt here. */
export async function madeAgain(kernel: Kernel, lost: Head): Promise<Head> {
  let head: Head | null | undefined = lost
  for (let attempt = 1; head && isHeadLost(head); attempt++) {
    const again = await headAgain(kernel, head)
    const { timeline, epoch, seq, digest } = head
    const outcome = await submit(kernel, {
      guard: { timeline, epoch, seq, digest },
      ...again,
      attributes: { ...again.attributes, [lostAttribute]: null },
    })
    if (outcome.ok) report(kernel, head, again)
    else if (attempt === attemptsMax) throw headLost(head, outcome.reason)
    ;[head] = await kernel.store.head([lost.timeline])
  }
  return head ?? lost
}

export function headLost({ timeline }: Head, why: string, cause?: unknown): RepriseError {
  const what = `${timeline}: its status, queue and wakeup were lost with a damaged page: ${why}`
  return new RepriseError('HEAD_LOST', what, { timeline }, cause)
}

/** Heads that a repair left lost, found when the store is opened: rebuilt as soon as their model is declared. */
export async function watchLostHeads(kernel: Kernel): Promise<void> {
  // Only a store that rewrites its files leaves any.
  if (!kernel.store.upkeep.salvage?.renew) return
  const left = new Set<TimelineId>()
  try {
    for await (const { timeline } of lostHeads(kernel)) left.add(timeline)
  } catch (error) {
    // The store opens for everything readable; verify reports the rest.
    if (!isReprise(error, 'STORE_DAMAGED')) throw error
  }
  if (left.size === 0) return
  kernel.models.watch(async (model) => {
    if (model.name === null) return
    for (const timeline of left) {
      if (!isWithin(model.scope, timeline)) continue
      left.delete(timeline)
      const [head] = await kernel.store.head([timeline])
      if (head)
        await madeAgain(kernel, head).catch((error) => kernel.events.emit('problem', { where: timeline, error }))
    }
  })
}

const lookAfterMs = 1000
const lookedAtMax = 2000

/**
 * Soon after a store was opened, reports unreadable timelines and damage that reads work around. Returns a function that
 * stops it.
 */
export function watchQuarantine(kernel: Kernel): () => void {
  if (!kernel.store.upkeep.salvage) return () => undefined
  return kernel.clock.after(lookAfterMs, () => {
    quarantined(kernel, lookedAtMax).then(
      (found) => {
        for (const { timeline, error } of found) kernel.events.emit('problem', { where: timeline, error })
      },
      (error) => kernel.events.emit('problem', { where: 'timelines', error }),
    )
    kernel.store.upkeep.facts().then(
      ({ damage = [] }) => {
        for (const what of damage) {
          kernel.events.emit('problem', { where: 'store', error: new RepriseError('STORE_DAMAGED', what) })
        }
      },
      (error) => kernel.events.emit('problem', { where: 'store', error }),
    )
  })
}

/** By the index of attributes, so that it costs nothing if there are none. */
export function lostHeads(kernel: Kernel): AsyncGenerator<Head> {
  return headsIn(kernel.store, { attributes: { [lostAttribute]: true } })
}

async function headAgain(kernel: Kernel, head: Head): Promise<HeadAgain> {
  const { timeline, attributes } = head
  if (attributes[movedAttribute] !== undefined) return { status: movedStatus, queue: null, wakeup: null }
  if (archivedFrom(timeline) !== null) return { status: '', queue: null, wakeup: null }
  const model = kernel.models.find(timeline)
  if (!model) throw headLost(head, 'its definition is not known here; a process that declares it rebuilds them')
  const again = await askModel(kernel, model, head).catch((error) => {
    if (!isReprise(error)) throw error
    throw headLost(head, error.message, error)
  })
  if (!again) throw headLost(head, `a process that declares the ${model.kind} rebuilds them: name its module`)
  const status = { status: '', ...again }
  // Members of a group under restore have neither queue nor wakeup; their mark keeps both.
  return attributes[heldAttribute] === undefined ? status : { ...status, queue: null, wakeup: null }
}

async function askModel(kernel: Kernel, model: Model, head: Head): Promise<HeadAgain | null> {
  const { fold } = model
  const state = fold && (model.headOf || fold.summary) ? (await recover(kernel, head, fold)).state.value : undefined
  if (model.headOf) return await model.headOf(state, head, kernel)
  return fold?.summary?.(state) ?? {}
}

function report(kernel: Kernel, { timeline }: Head, { status }: HeadAgain): void {
  kernel.events.emit('healed', { what: `head of ${timeline}`, from: 'history', isPutBack: true })
  const what = `its head was lost with a damaged page, and was rebuilt from its history: ${status || 'no status'}`
  kernel.events.emit('report', { kind: 'repair', timeline, what, data: { status, was: lostStatus } })
}
