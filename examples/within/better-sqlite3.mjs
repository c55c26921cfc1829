// better-sqlite3 has its own copy of SQLite, so it must not share a process with the engine. This program has no engine: it
// writes the request as SQL, and a worker in another process starts the run. `Database` is the class of better-sqlite3.

/** The store is `sqlite:FILE`. */
export default function order(Database, file, { id, cents }) {
  const db = new Database(file)
  try {
    db.exec('PRAGMA busy_timeout = 5000')
    const insertOrder = db.prepare('INSERT INTO orders VALUES (?, ?)')
    const start = db.prepare(
      "INSERT INTO reprise_request (verb, target, id, data) VALUES ('start', 'workflow/checkout', ?, ?)",
    )
    db.exec('BEGIN IMMEDIATE')
    insertOrder.run(id, cents)
    start.run(id, JSON.stringify({ id, cents }))
    db.exec('COMMIT')
  } finally {
    db.close()
  }
}
