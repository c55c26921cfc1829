// SQLite stores text as UTF-8 and drivers truncate it at NUL: text that would not survive a round trip is refused. The texts of
// a commit are checked before anything of its batch is decided.

import { RepriseError } from '../../../core/errors.ts'
import type { Commit } from '../../../core/store/ports.ts'

const loneSurrogate = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/

export function checkText(text: string | null | undefined, what: string): void {
  if (typeof text !== 'string') return
  if (loneSurrogate.test(text)) {
    throw new RepriseError('INVALID_ARGUMENT', `${what} must not contain half of a surrogate pair`)
  }
  if (text.includes('\0')) throw new RepriseError('INVALID_ARGUMENT', `${what} must not contain NUL`)
}

export function checkTexts({ guard, take, branch, publish, marks, send, queue, status, cursors }: Commit): void {
  if (take?.create) checkText(guard?.timeline, 'the id of a timeline')
  checkText(take?.worker, 'the id of a worker')
  checkText(branch?.archive, 'the id of an archive')
  checkText(queue, 'a queue')
  checkText(status, 'a status')
  for (const record of publish ?? []) checkAll(record, `checkpoint ${record.id}`)
  for (const mark of marks ?? []) checkAll(mark, `checkpoint ${mark.id}`)
  for (const { id, to, kind } of send ?? []) checkAll({ id, to, kind }, 'a message')
  for (const name of Object.keys(cursors ?? {})) checkText(name, 'the name of a cursor')
}

function checkAll(texts: object, what: string): void {
  for (const text of Object.values(texts)) checkText(text, what)
}
