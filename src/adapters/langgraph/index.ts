// reprise/langgraph: checkpoints of LangGraph.js graphs as timelines, one per thread, and their long-term memory.

export type { PruneOptions } from './prune.ts'
export type { Config } from './saver.ts'
export { RepriseSaver, type RepriseSaverOptions } from './saver.ts'
export { RepriseStore, type RepriseStoreOptions } from './store.ts'
