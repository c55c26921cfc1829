// reprise incarnate: after the database was restored to an earlier state, so that external readers do not take its history
// for theirs.

import { incarnate } from '../../engine/tools/identity/incarnate.ts'
import { type Command, text } from '../command.ts'
import { exit } from '../exit.ts'
import { urlOf } from '../store.ts'

const command: Command = async ({ options, output }) => {
  const namespaces = await incarnate(urlOf({ url: text(options, 'url') }))
  output.result({ namespaces }, () => {
    for (const { namespace, store, incarnation } of namespaces) {
      output.line(`${namespace}: store ${store}, incarnation ${incarnation}`)
    }
    output.note('positions, revisions and streams from before are refused; their readers begin anew')
  })
  return exit.ok
}

export default command
