// Forks one run repeatedly, each time with another edit, and prints the acknowledged forks, until it is killed. Argument: store
// URL.

import { open } from '../../lib/index.js'
import { workflows } from '../../lib/layers/workflow/index.js'

const rp = await open(process.argv[2])
workflows(rp)
const { seq } = await rp.head('workflow/doubled/origin')
for (let n = 1; ; n++) {
  await rp.fork({ timeline: 'workflow/doubled/origin', seq }, `fork-${n}`, {
    set: { ask: n },
    by: 'editor',
    key: `k${n}`,
  })
  process.send(n)
}
