// What tools know of sessions of OpenAI agents: every one of them has the same fold and the same policy.

import type { Model } from '../../engine/model/model.ts'

export const sessionKind: Model = { kind: 'session', name: null, scope: 'openai-agents/', fold: null, policy: 'fixed' }
