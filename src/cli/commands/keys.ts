// reprise keys: the keys that the store is encrypted with, and those that the key ring lacks.

import type { Command } from '../command.ts'
import { exit } from '../exit.ts'

const keys: Command = async ({ engine, output }) => {
  const report = await engine.keys()
  const { current, noted, lacking } = report
  output.result(report, () => {
    if (noted.length === 0)
      output.line('the store notes no key: nothing in it is encrypted, or an older release wrote it')
    for (const id of noted) {
      const state = lacking.includes(id)
        ? output.colours.red('lacking')
        : id === current
          ? 'current'
          : 'opens old records'
      output.line(`${id}  ${state}`)
    }
    if (noted.length > 1 && lacking.length === 0) output.note('reprise rekey brings everything under the current key')
  })
  return lacking.length > 0 ? exit.usage : exit.ok
}

export default keys
