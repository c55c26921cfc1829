// reprise/postgres-cdc: changes of PostgreSQL tables as a source of pipelines, starting with the existing rows.

export type {
  PartitionsContext,
  Positions,
  Source,
  SourceBatch,
  SourceContext,
  SourceReader,
} from '../../layers/pipeline/source.ts'
export type { ChangedRow, PostgresChange } from './decode.ts'
export { type SlotLag, type SlotLagOptions, slotLag } from './slot.ts'
export { type PostgresCdcOptions, postgresCdcSource } from './source.ts'
