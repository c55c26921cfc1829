// The real path of a file. SQLite follows links and puts the write-ahead log beside the target file; all files that the store
// keeps or checks beside it must follow links too.

import { readlinkSync, realpathSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { isMissing } from '../../../lib/durable-file.ts'
import { misplaced } from './failure.ts'

const linksMax = 40

/** Also for a file that does not exist yet: the path where it would be created. */
export function realPath(location: string): string {
  let path = resolve(location)
  for (let links = 0; links < linksMax; links++) {
    try {
      return realpathSync(path)
    } catch (error) {
      if (!isMissing(error)) throw misplaced(error, location)
    }
    const target = linkTarget(path)
    if (target === null) return join(realFolder(dirname(path)), basename(path))
    path = resolve(dirname(path), target)
  }
  return path
}

function linkTarget(path: string): string | null {
  try {
    return readlinkSync(path)
  } catch {
    return null
  }
}

/** Resolves links in the existing part of the path, and appends the rest. */
function realFolder(folder: string): string {
  try {
    return realpathSync(folder)
  } catch {
    return folder === dirname(folder) ? folder : join(realFolder(dirname(folder)), basename(folder))
  }
}
