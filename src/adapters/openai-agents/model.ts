// The model of OpenAI agent sessions for tools: all of them have the same fold and the same policy.

import type { Model } from '../../engine/model/model.ts'

export const sessionKind: Model = { kind: 'session', name: null, scope: 'openai-agents/', fold: null, policy: 'fixed' }
