// reprise/table: durable keyed maps with transactions, indexes and rows that end by themselves.

export type { KeyedRange } from '../../core/keyed.ts'
export type { TableHandle } from './handle.ts'
export type { IndexFunction, Term, TermRange } from './indexes.ts'
export { type PagedDefinition, type PagedOptions, pagedTable } from './paged.ts'
export type { PagedTable } from './paged-handle.ts'
export type { PagedTransaction } from './paged-transaction.ts'
export type { PageStats } from './pages.ts'
export { type PartitionedStore, type StoreDefinition, type StoreOptions, stateStore } from './partitioned.ts'
export type { TableStandby } from './standby.ts'
export { type TableDefinition, type TableOptions, table } from './table.ts'
export type { SetOptions, Transaction } from './transaction.ts'
export type { Change } from './watchers.ts'
