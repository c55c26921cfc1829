// The SQLite store, as others see it.

export { openSqlite, renewSqlite, type SqliteOptions } from './store.ts'
