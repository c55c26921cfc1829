// Timelines of programs in other languages: the server keeps their history and their checkpoints and understands neither. The
// program folds its entries itself; the state here is what it last put, bound to the coordinate that it named.

import { RepriseError } from '../../core/errors.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { hostOf } from '../../engine/host/host.ts'
import type { Fold } from '../../engine/model/definition.ts'
import { isReserved } from '../../engine/model/kinds.ts'

/** What a program put: JSON, or bytes of its own format. */
export type Put =
  | { readonly kind: 'json'; readonly value: unknown }
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array; readonly type: string }

/** No model declares it, so that tools that compare a state with its history leave these timelines alone. */
export const sidecarFold: Fold<Put | null> = {
  version: '$sidecar/1',
  initial: () => null,
  apply: (state) => state,
  immutable: true,
}

/** How entries of this timeline are taken: by its definition if it is a raw timeline that is known here, else as they are. */
export function foldOf(engine: Reprise, timeline: string): Fold<unknown> {
  const model = hostOf(engine).models.find(timeline)
  const isForeign = isReserved(timeline) || (model !== null && model.kind !== 'timeline')
  if (isForeign) {
    const what = `${timeline} belongs to a model of Reprise and is not written entry by entry: choose another first segment`
    throw new RepriseError('INVALID_ARGUMENT', what, { timeline, kind: model?.kind ?? null })
  }
  return model?.fold ?? (sidecarFold as Fold<unknown>)
}
