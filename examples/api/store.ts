// Examples of `reprise/store`: the engine over a store of your own.

import { timeline } from 'reprise'
import { createEngine, type Store } from 'reprise/store'
import { example } from './example.ts'

declare function openMyStore(): Store

const counter = timeline('counter', {
  initial: () => 0,
  apply: (total: number, entry: { type: 'added'; by: number }) => total + entry.by,
})

export default [
  example(
    ['createEngine'],
    async () => {
      // Over a store of your own; the conformance suite of reprise/testing checks it.
      const rp = createEngine({ store: openMyStore() })
      await rp.open(counter, 'visits').append({ type: 'added', by: 1 })
      await rp.close()
    },
    'compiled',
  ),
]
