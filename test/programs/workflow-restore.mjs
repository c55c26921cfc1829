// A process that dies while a saga that cannot be undone goes back. Arguments: store URL, namespace, a file that takes a line
// per call outside, and where to die: in the "first" or "last" attempt of the compensation, once it is "restored", or "never".

import { appendFileSync, readFileSync } from 'node:fs'
import { openStore } from '../../dist/engine/api/open.js'
import { workflow } from '../../dist/layers/workflow/index.js'
import { createEngine } from '../../dist/store.js'

const [, , url, namespace, file, where] = process.argv
const die = () => process.kill(process.pid, 'SIGKILL')
/** Money is available after an earlier request under another key. */
const isAnother = (key) => /^pay (?!KEY$).*$/m.test(readFileSync(file, 'utf8').replaceAll(key, 'KEY'))
const note = (text) => appendFileSync(file, `${text}\n`)

const trip = workflow(
  'trip',
  async (ctx) => {
    await ctx.step('plan', () => note('plan'))
    await ctx.step('hotel', ({ key }) => note(`hotel ${key}`), {
      compensate: (_, { attempt }) => {
        note('cancel hotel')
        if (where === (attempt === 1 ? 'first' : 'last')) die()
        throw new Error('the hotel does not answer')
      },
      compensateRetry: { attempts: 2, backoff: 1 },
    })
    await ctx.step('flight', ({ key }) => note(`flight ${key}`), { compensate: () => note('cancel flight') })
    const ok = await ctx.step('pay', ({ key }) => note(`pay ${key}`) ?? isAnother(key))
    if (!ok) throw new Error('no money')
    return 'went'
  },
  { whenUndoFails: 'restore' },
)

const store = await openStore(url, { namespace })
const commit = store.commit.bind(store)
store.commit = async (commits) => {
  const outcomes = await commit(commits)
  if (where === 'restored' && commits.some(({ status }) => status === 'held')) die()
  return outcomes
}
const rp = createEngine({ store }, { lease: '10m' })
rp.work([trip])
process.send?.({ pid: process.pid })
process.on('message', async (message) => {
  if (message !== 'end') return
  await rp.close()
  process.exit(0)
})
setInterval(() => undefined, 1000)
