// A state store that one process rescales and another writes to; both are killed by the tests.
//   node store-rescaler.mjs URL rescale PARTITIONS      prints { done }
//   node store-rescaler.mjs URL write FIRST             prints { key, n } for every acknowledged write, and
//                                                     { rescaling } when a rescale has to be finished first

import { open } from '../../lib/index.js'
import { stateStore } from '../../lib/layers/table/index.js'

export const numbers = [1, 2, 3, 4, 5]
export const stores = new Map(
  numbers.map((partitions) => [partitions, stateStore('counts', { partitions, checkpoint: { every: 20 } })]),
)

const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`)
const passing = ['FENCED', 'OWNED', 'RESCALING', 'INVALID_ARGUMENT', 'NOT_FOUND', 'CLOSED']

async function openAny(rp) {
  for (;;) {
    for (const store of stores.values()) {
      try {
        return await rp.open(store)
      } catch (error) {
        if (!passing.includes(error.code)) throw error
        if (error.code === 'RESCALING') say({ rescaling: true })
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

async function write(rp, first) {
  for (let n = first; ; ) {
    const store = await openAny(rp)
    try {
      for (; ; n++) {
        const key = `w${n % 40}`
        await store.set(key, n)
        say({ key, n })
      }
    } catch (error) {
      if (!passing.includes(error.code)) throw error
      await store.close()
    }
  }
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const [url, what, number] = process.argv.slice(2)
  const rp = await open(url)
  say({ ready: true })
  if (what === 'write') await write(rp, Number(number))
  else {
    for (;;) {
      try {
        await stores.get(Number(number)).rescale(rp)
        break
      } catch (error) {
        // The one before was killed, and may count as alive for a moment.
        if (!passing.includes(error.code) && error.code !== 'CONTENDED') throw error
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    }
    say({ done: true })
    await rp.close()
  }
}
