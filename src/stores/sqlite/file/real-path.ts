// Where a file really lies. SQLite follows links, and puts the write-ahead log beside the file they lead to; whatever we
// keep or look at beside it must follow them as well.

import { readlinkSync, realpathSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'

const linksMax = 40

/** Also of a file that is not there yet: then of where it would be made. */
export function realPath(location: string): string {
  let path = resolve(location)
  for (let links = 0; links < linksMax; links++) {
    try {
      return realpathSync(path)
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'ENOENT') throw error
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

/** The part of it that is there, without links, and the rest as it is. */
function realFolder(folder: string): string {
  try {
    return realpathSync(folder)
  } catch {
    return folder === dirname(folder) ? folder : join(realFolder(dirname(folder)), basename(folder))
  }
}
