// One process of the bench "hot aggregate": prints when it is ready, waits for the start signal, and commands one aggregate, one
// command after another. Arguments: store URL, count.

import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { open } from '../../dist/index.js'
import { aggregate } from '../../dist/layers/events/index.js'

const hot = aggregate('hot', {
  initial: () => ({ count: 0 }),
  evolve: { noted: (s) => ({ count: s.count + 1 }) },
  decide: { note: (s) => ({ type: 'noted', saw: s.count }) },
})

/**
 * Commands per second of this many processes together, from the moment that all are ready until the last one is done.
 */
export async function hotAggregate(url, processes, count) {
  const started = await Promise.all(Array.from({ length: processes }, () => start(url, count)))
  const began = performance.now()
  for (const { child } of started) child.stdin.write('go\n')
  for (const { done } of started) await done
  const rate = (1000 * processes * count) / (performance.now() - began)
  const rp = await open(url)
  const { state, seq } = await rp.open(hot, 'x')
  await rp.close()
  if (state.count !== seq || seq !== processes * count)
    throw new Error(`${seq} events of ${processes} times ${count} commands`)
  return rate
}

async function start(url, count) {
  const child = spawn(process.execPath, [new URL(import.meta.url).pathname, url, String(count)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  await lines.next()
  const done = lines.next().then(({ value }) => {
    if (value !== 'done') throw new Error('a process of the hot aggregate failed')
  })
  return { child, done }
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const rp = await open(process.argv[2])
  const a = await rp.open(hot, 'x')
  console.log('ready')
  for await (const _ of createInterface(process.stdin)) break
  for (let n = 0; n < Number(process.argv[3]); n++) await a.do('note')
  console.log('done')
  await rp.close()
  process.exit(0)
}
