// Sessions of a web application in a durable table: found by key, by user and by age, expired automatically, changed in
// transactions. `runExample` plays a few requests.

import { open } from 'reprise'
import { table } from 'reprise/table'

interface Session {
  readonly user: string
  readonly seen: number
}

export const sessions = table<Session>('sessions', {
  indexes: { user: (session) => session.user, seen: (session) => session.seen },
  ttl: '30m',
})

export async function runExample(url = 'memory:') {
  const rp = await open(url)
  try {
    const table = await rp.open(sessions)
    await table.transaction((tx) => {
      tx.set('s1', { user: 'ann', seen: 1 })
      tx.set('s2', { user: 'ann', seen: 5 })
      tx.set('s3', { user: 'bob', seen: 3 })
      tx.delete('s0')
    })
    const events: string[] = []
    table.watch({ prefix: 's' }, (changes) => events.push(...changes.map(({ key }) => key)))
    await table.update('s1', (session) => session && { ...session, seen: 9 })
    // All or nothing: every session of this user except the newest is logged out.
    await table.transaction((tx) => {
      const mine = [...tx.entries()]
        .filter(([, session]) => session.user === 'ann')
        .sort(([, a], [, b]) => b.seen - a.seen)
      for (const [key] of mine.slice(1)) tx.delete(key)
    })
    return {
      keys: [...table.keys({ from: 's', to: 't' })],
      ann: [...table.by('user', 'ann')].map(([key]) => key),
      recent: [...table.by('seen', { from: 4 })].map(([key]) => key),
      events,
    }
  } finally {
    await rp.close()
  }
}

if (process.argv[1]?.endsWith('sessions.ts')) console.log(await runExample())
