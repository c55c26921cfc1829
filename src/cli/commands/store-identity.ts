// Commands that change the whole store: its keys, and the identity of its history.

import { existsSync } from 'node:fs'
import { RepriseError } from '../../core/errors.ts'
import { filesIn } from '../../engine/storage/open-store.ts'
import { incarnate as beginIncarnation } from '../../engine/tools/identity/incarnate.ts'
import { type Command, text } from '../command.ts'
import { exit } from '../exit.ts'
import { count } from '../format.ts'
import { urlOf } from '../store.ts'

/** Re-encrypts everything with the current key of the ring, so that older keys can be retired. If killed, run it again. */
export const rekey: Command = async ({ engine, output }) => {
  if ((await engine.keys()).current === null) {
    throw new RepriseError('INVALID_ARGUMENT', 'rekey needs the key ring: name its file with --keys', {})
  }
  const report = await engine.rekey()
  const { changed, left, users, isDone, key, retired } = report
  output.result(report, () => {
    const counts = Object.entries(changed).map(([kind, many]) => `${many} ${kind}`)
    output.line(`under ${key}: ${counts.join(', ')} re-encrypted`)
    for (const [id, many] of Object.entries(left)) output.line(`${count(many, 'record')} left, ${inWords(id)}`)
    for (const { worker, key: used } of users) {
      output.line(
        `${worker} is alive and seals ${used === '' ? 'with no key' : `with ${used}`}: start it with ${key}, and rekey again`,
      )
    }
    if (isDone) {
      const gone = retired.length > 0 ? retired.join(', ') : 'every other key'
      output.note(`${gone} can be removed from the key ring of every process`)
    } else output.note('run it again when every process encrypts with the new key')
  })
  return isDone ? exit.ok : exit.partly
}

function inWords(id: string): string {
  if (id === '?') return 'damaged, or written during this run'
  return id === '' ? 'in plain text' : `under ${id}, which the key ring lacks`
}

/**
 * After the database was restored to an earlier state, so that external readers do not mistake its history for the one they read.
 */
export const incarnate: Command = async ({ options, output }) => {
  const url = urlOf({ url: text(options, 'url') })
  // The engine refuses an older copy of a file, so this command opens the store itself, and creates none.
  const missing = filesIn(url).find((file) => !existsSync(file))
  if (missing !== undefined) throw new RepriseError('NOT_FOUND', `there is no store at ${missing}`, { file: missing })
  const namespaces = await beginIncarnation(url)
  output.result({ namespaces }, () => {
    for (const { namespace, store, incarnation } of namespaces) {
      output.line(`${namespace}: store ${store}, incarnation ${incarnation}`)
    }
    output.note('earlier positions, revisions and streams are refused; their readers must start again')
  })
  return exit.ok
}
