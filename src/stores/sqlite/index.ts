// The SQLite store, as others see it.

export { renewSqlite } from './file/renew-sqlite.ts'
export { openSqlite, type SqliteOptions } from './store.ts'
