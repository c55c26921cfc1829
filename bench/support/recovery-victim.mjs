// One process of the recovery bench: argv is a mode and a workload as JSON. `work` appends until it is killed; `recover` opens
// the store that was left, prints the recovery's own report as one line of JSON, and ends at once.

import { keyed, open, timeline } from '../../dist/index.js'
import { aggregate } from '../../dist/layers/events/index.js'
import { table } from '../../dist/layers/table/index.js'

const [mode, text] = process.argv.slice(2)
const load = JSON.parse(text)
const checkpoint = { recoverWithin: load.budgetMs }

/** Computation, not a wait: on a busy machine it takes longer, as real folds do. */
function burn(rounds) {
  let sum = 1
  for (let n = 0; n < rounds; n++) sum = (sum * 48_271 + n) % 2_147_483_647
  return sum
}
const rounds = (seq) => (load.isUneven ? (seq % 50 === 0 ? load.rounds * 20 : load.rounds * 0.6) : load.rounds)

const models = {
  async plain(rp) {
    const definition = timeline('plain', {
      initial: () => ({ count: 0, recent: [] }),
      apply: (state, entry) => ({
        count: state.count + 1 + 0 * burn(rounds(state.count)),
        recent: [...state.recent.slice(-load.keeps), entry.text],
      }),
      checkpoint,
    })
    const handle = await rp.open(definition, 'x')
    return (entry) => handle.append(entry)
  },
  async keyed(rp) {
    const definition = timeline('keyed', {
      initial: () => ({ count: 0, rows: keyed() }),
      apply(state, entry) {
        state.count += 1 + 0 * burn(rounds(state.count))
        state.rows.set(`k${state.count % (load.keeps * 50)}`, entry.text)
      },
      checkpoint,
    })
    const handle = await rp.open(definition, 'x')
    return (entry) => handle.append(entry)
  },
  async aggregate(rp) {
    const definition = aggregate('account', {
      initial: () => ({ count: 0, text: '' }),
      evolve: { noted: (s, e) => ({ count: s.count + 1 + 0 * burn(rounds(s.count)), text: e.text }) },
      decide: { note: (_s, c) => ({ type: 'noted', text: c.text }) },
      checkpoint,
    })
    const handle = await rp.open(definition, 'x')
    return (entry) => handle.do('note', { text: entry.text })
  },
  async table(rp) {
    const handle = await rp.open(table('rows', { checkpoint }))
    let n = 0
    return (entry) => handle.set(`k${n++ % (load.keeps * 50)}`, { text: entry.text })
  },
}

const rp = await open(load.url, { housekeeping: false })
let report = null
rp.events.on('recovered', (event) => {
  report ??= event.report
})
const append = await models[load.model](rp)
if (mode === 'recover') {
  // Killed before anything was written: there is nothing to recover.
  report ??= { totalMs: 0 }
  const said = report.timeline ? (await rp.card(report.timeline)).checkpointing.because.join('; ') : ''
  process.stdout.write(`${JSON.stringify({ ...report, said })}\n`, () => process.kill(process.pid, 'SIGKILL'))
} else {
  process.stdout.write('ready\n')
  const entry = { type: 'item', text: 'x'.repeat(load.entryBytes) }
  for (;;) {
    await Promise.all(Array.from({ length: load.burst }, () => append(entry)))
    if (load.gapMs > 0) await new Promise((resolve) => setTimeout(resolve, load.gapMs))
  }
}
