// What tools know of threads of LangGraph: every one of them has the same fold and the same policy.

import type { Model } from '../../engine/model.ts'

export const threadKind: Model = { kind: 'thread', name: null, scope: 'langgraph/', fold: null, policy: 'fixed' }
