// The SQLite store, as others see it.

export { openSqlite, type SqliteOptions } from './store.ts'
