// The model of AI SDK recorders for tools: all of them have the same fold and the same policy.

import type { Model } from '../../engine/model/model.ts'

export const recorderKind: Model = { kind: 'recorder', name: null, scope: 'ai-sdk/', fold: null, policy: 'fixed' }
