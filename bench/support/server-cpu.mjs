// Processor time of a PostgreSQL server on this machine, all its processes together, which a client alone does not show.

import { readdirSync, readFileSync } from 'node:fs'
import pg from 'pg'

/** Returns a function that reads the milliseconds so far; null if the server's processes are not visible. */
export async function serverCpu(url) {
  const client = new pg.Client(url)
  await client.connect()
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid')
  const postmaster = statOf(rows[0].pid)?.parent
  await client.end()
  if (!postmaster || !statOf(postmaster)) return null
  return () => {
    // The time of ended processes counts with their parent.
    const main = statOf(postmaster)
    let ticks = main.own + main.ended
    for (const name of readdirSync('/proc')) {
      const stat = /^\d+$/.test(name) ? statOf(name) : null
      if (stat?.parent === postmaster) ticks += stat.own
    }
    return ticks * 10
  }
}

function statOf(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1).split(' ')
    const [utime, stime, cutime, cstime] = fields.slice(11, 15).map(Number)
    return { parent: Number(fields[1]), own: utime + stime, ended: cutime + cstime }
  } catch {
    return null
  }
}
