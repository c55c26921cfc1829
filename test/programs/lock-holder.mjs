// Holds the write lock of a store, as a process does that was stopped in the middle of a commit. One argument: the file.

import { writeSync } from 'node:fs'
import { loadDriver } from '../../dist/stores/sqlite/file/driver.js'

const database = (await loadDriver()).open(JSON.parse(process.argv[2]), { isReadOnly: false })
database.exec('BEGIN IMMEDIATE')
writeSync(1, 'holds it\n')
setInterval(() => database, 1000)
