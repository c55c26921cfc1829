// The SQLite store, as others see it.

export { renewSqlite } from './renew-sqlite.ts'
export { openSqlite, type SqliteOptions } from './store.ts'
