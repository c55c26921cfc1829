// The public part of the SQLite store.

export { renewSqlite } from './file/renew-sqlite.ts'
export { acceptPutBack, openSqlite, type SqliteOptions } from './store.ts'
