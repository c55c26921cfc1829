// Names of LangGraph that the tests use, in one place.

export {
  type BaseCheckpointSaver,
  type Checkpoint,
  emptyCheckpoint,
  MemorySaver,
  uuid6,
} from '@langchain/langgraph-checkpoint'

import { MemorySaver } from '@langchain/langgraph-checkpoint'

/** LangGraph's own serializer; it is not exported by name, but every saver has one. */
export class JsonPlusSerializer {
  readonly #inner = new MemorySaver().serde

  dumpsTyped(data: unknown): Promise<[string, Uint8Array]> {
    return this.#inner.dumpsTyped(data)
  }

  loadsTyped(type: string, data: Uint8Array | string): Promise<unknown> {
    return this.#inner.loadsTyped(type, data)
  }
}
