// Timelines of programs in other languages: the server stores their history and checkpoints, and interprets neither. The
// program folds its entries itself; the state here is the last stored one, bound to the coordinate that the program named.

import { RepriseError } from '../../core/errors.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { hostOf } from '../../engine/host/host.ts'
import type { Fold } from '../../engine/model/definition.ts'
import { isReserved } from '../../engine/model/id-prefixes.ts'

/** The state that a program stored: JSON, or bytes in its own format. */
export type Put =
  | { readonly kind: 'json'; readonly value: unknown }
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array; readonly type: string }

/** No model declares this fold, so tools that compare a state with its history skip these timelines. */
export const sidecarFold: Fold<Put | null> = {
  version: '$sidecar/1',
  initial: () => null,
  apply: (state) => state,
  immutable: true,
}

/** The fold for this timeline's entries: of its definition if it is a raw timeline known here, otherwise the sidecar's. */
export function foldOf(engine: Reprise, timeline: string): Fold<unknown> {
  const model = hostOf(engine).models.find(timeline)
  const isForeign = isReserved(timeline) || (model !== null && model.kind !== 'timeline')
  if (isForeign) {
    const what = `${timeline} belongs to a model of Reprise and is not written entry by entry: choose another first segment`
    throw new RepriseError('INVALID_ARGUMENT', what, { timeline, kind: model?.kind ?? null })
  }
  return model?.fold ?? (sidecarFold as Fold<unknown>)
}
