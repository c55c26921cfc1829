// The models of LangGraph threads and of its memory, for tools: all of a kind have the same fold and the same policy.

import type { Model } from '../../engine/model/model.ts'

/** Namespaces of the long-term memory. */
export const memoryKind: Model = {
  kind: 'memory',
  name: null,
  scope: 'langgraph-store/',
  fold: null,
  policy: 'fixed',
}

export const threadKind: Model = { kind: 'thread', name: null, scope: 'langgraph/', fold: null, policy: 'fixed' }
