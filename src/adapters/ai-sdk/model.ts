// What tools know of recorders of the AI SDK: every one of them has the same fold and the same policy.

import type { Model } from '../../engine/model/model.ts'

export const recorderKind: Model = { kind: 'recorder', name: null, scope: 'ai-sdk/', fold: null, policy: 'fixed' }
