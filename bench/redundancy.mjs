// The cost of redundancy: bytes of a SQLite file after collection, and the time of a checkpoint, with and without it in the same
// run. npm run bench -- redundancy

import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open, timeline } from '../dist/index.js'
import { save } from '../dist/layers/save/index.js'
import { pagedTable, table } from '../dist/layers/table/index.js'
import { hostOf } from '../test/support/host.mjs'

/** Text that does not compress; the same number gives the same text. */
function noise(seed, length) {
  let state = (seed * 2654435761 + 1) >>> 0
  let text = ''
  while (text.length < length) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    text += state.toString(36)
  }
  return text.slice(0, length)
}

const rowsOf = (definition) => async (rp, times) => {
  const rows = await rp.open(definition)
  const set = async (from, count, salt) => {
    for (let at = from; at < from + count; at += 1000) {
      await rows.transaction((tx) => {
        for (let i = at; i < Math.min(at + 1000, from + count); i++) {
          const key = salt === 0 ? i : (i * 7919 + salt * 104729) % 20_000
          tx.set(`k${key}`, noise(i + salt * 31, 100))
        }
      })
    }
  }
  await set(0, 20_000, 0)
  for (let n = 1; n <= 12; n++) {
    await set(0, 200, n)
    await times(() => rows.checkpoint())
  }
}

const savesOf = (bytes, share, count) => async (rp, times) => {
  const series = await rp.open(save('weights', { keep: 5 }))
  const parts = Math.ceil(bytes / 2000)
  const value = Array.from({ length: parts }, (_, i) => noise(i, 2000))
  for (let n = 0; n < count; n++) {
    for (let i = 0; i < parts * share; i++) value[(i + n * 37) % parts] = noise(i + n * 1000 + 7, 2000)
    await times(() => series.put([...value]))
  }
}

const plainOf = (bytes, checkpoints) => async (rp, times) => {
  const parts = Math.ceil(bytes / 1000)
  const kind = timeline('plain', {
    initial: () => ({ texts: Array.from({ length: parts }, (_, i) => noise(i, 1000)) }),
    apply: (state, { at, text }) => ({ texts: state.texts.map((each, i) => (i === at ? text : each)) }),
    retain: { checkpoints: 2, history: 'needed' },
  })
  const one = await rp.open(kind, 'a')
  for (let n = 0; n < checkpoints; n++) {
    for (let i = 0; i < Math.max(1, parts / 20); i++) {
      await one.append({ type: 'set', at: (i * 17 + n * 31) % parts, text: noise(n * 1000 + i, 1000) })
    }
    await times(() => one.checkpoint())
  }
}

const worlds = {
  'table of 20,000 rows': rowsOf(table('rows')),
  'paged table of 20,000 rows': rowsOf(pagedTable('pages', { cacheBytes: 8_000_000, changedRows: 100_000 })),
  'ten saves of 8 MB, a tenth changed': savesOf(8_000_000, 0.1, 10),
  'twelve saves of 60 KB, a third changed': savesOf(60_000, 0.34, 12),
  'plain state of 4 MB, 5 % changed': plainOf(4_000_000, 10),
  'plain state of 40 KB': plainOf(40_000, 20),
}

async function measure(fill, redundancy) {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-bench-'))
  try {
    const file = join(folder, 'a.db')
    const rp = await open(`sqlite:${file}`, { housekeeping: false, log: false, redundancy })
    let ms = 0
    let count = 0
    await fill(rp, async (work) => {
      const started = performance.now()
      await work()
      ms += performance.now() - started
      count += 1
    })
    await rp.collect({ graceMs: 0 })
    // One round of housekeeping returns at most 8 MB: free pages are not a cost of redundancy.
    for (let round = 0; round < 20; round++) await hostOf(rp).kernel.store.upkeep.tidy(0)
    await rp.close()
    return { bytes: statSync(file).size, ms: ms / count }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const figures = new Map()
async function both(name, index) {
  const key = `${name} ${index}`
  if (!figures.has(key)) figures.set(key, [await measure(worlds[name], true), await measure(worlds[name], false)])
  return figures.get(key)
}

export default Object.keys(worlds).flatMap((name) => [
  {
    name: `bytes: ${name}`,
    unit: 'bytes',
    target: { ratioMax: 1.15 },
    note: 'the file after collection; baseline: without redundancy',
    async run({ index }) {
      const [on, off] = await both(name, index)
      return { value: on.bytes, baseline: off.bytes }
    },
  },
  {
    name: `checkpoint: ${name}`,
    unit: 'ms',
    note: 'baseline: without redundancy',
    async run({ index }) {
      const [on, off] = await both(name, index)
      return { value: on.ms, baseline: off.ms }
    },
  },
])
