// Advice for programs that are not written with this library.

import type { Advice } from './advice-shape.ts'

export const programAdvices: readonly Advice[] = [
  {
    id: 'B2-exec',
    title: 'a program in any language (its files are captured)',
    when: { about: 'program' },
    why: 'The program writes the files that it needs to resume into a folder. Complete sets of these files are captured, verified and deduplicated, and the newest intact set is restored before the next start, also on another machine.',
    watch: [
      'write to a temporary file and rename it: a file then has its name only when it is complete',
      'memory is not captured: the program computes again everything that it did not write',
    ],
    code: `import { open } from 'reprise'
import { exec } from 'reprise/exec'

// Stands for your program: reprise exec --state advised-ckpt -- python train.py
const script = "const fs = require('fs'); fs.writeFileSync(process.env.REPRISE_EXEC_STATE + '/step', '1')"
export const training = exec('advised-training', { command: ['node', '-e', script], state: 'advised-ckpt' })

const rp = await open()
console.log(await rp.run(training).result())
await rp.close()
`,
  },
]
