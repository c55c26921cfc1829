// One of several processes that command the same aggregate. Prints "ready", waits for a line on its input, then sends its
// commands one after another and prints their outcomes. Arguments: store URL, name of this process, count, how.
//   how: "plain" (no ids), "keyed" (each command has an id), "slow" (holds its event loop now and then), "forever".

import { createInterface } from 'node:readline'
import { open } from '../../lib/index.js'
import { aggregate, Refused } from '../../lib/layers/events/index.js'

/** Every command records its sender, its number, and the state that its decision saw. */
export const hot = aggregate('hot', {
  initial: () => ({ count: 0, sum: 0, last: {} }),
  evolve: {
    noted: (s, e) => ({ count: s.count + 1, sum: s.sum + e.n, last: { ...s.last, [e.who]: e.n } }),
  },
  decide: {
    note(s, c) {
      if ((s.last[c.who] ?? 0) >= c.n) throw new Refused(`${c.who} ${c.n} was noted already`)
      return { type: 'noted', who: c.who, n: c.n, saw: s.count }
    },
  },
  checkpoint: { every: 100 },
})

if (process.argv[1]?.endsWith('hot-aggregate.mjs')) {
  const [url, who, countText, how] = process.argv.slice(2)
  const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`)
  const rp = await open(url)
  const a = await rp.open(hot, 'x')
  say({ ready: true })
  for await (const _ of createInterface(process.stdin)) break
  const started = performance.now()
  const failed = []
  const count = how === 'forever' ? Number.POSITIVE_INFINITY : Number(countText)
  for (let n = (a.state.last[who] ?? 0) + 1; n <= count; n++) {
    try {
      const done = await a.do('note', { who, n }, how === 'keyed' || how === 'forever' ? { key: `${who}-${n}` } : {})
      if (how === 'forever') say({ acked: n })
      if (done.isDuplicate) failed.push(`${n} was applied before`)
    } catch (error) {
      failed.push(error.code ?? String(error))
    }
    if (how === 'slow' && n % 20 === 0) for (const until = Date.now() + 60; Date.now() < until; );
  }
  say({ failed, ms: performance.now() - started })
  await rp.close()
  process.exit(0)
}
