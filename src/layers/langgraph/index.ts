// reprise/langgraph: checkpoints of LangGraph.js graphs as timelines, one a thread.

export { RepriseSaver, type RepriseSaverOptions } from './saver.ts'
