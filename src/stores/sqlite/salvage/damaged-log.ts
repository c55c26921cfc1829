// The write-ahead log is damaged in its middle: SQLite would cut it there and forget every transaction behind. Each frame can
// be checked on its own, so a copy of the file gets all of them, and is read in its place; the file and its log stay.

import { closeSync, copyFileSync, ftruncateSync, openSync, writeSync } from 'node:fs'
import { readWal, type WalFrame } from '../wal-scan.ts'

export function copyWithLog(file: string, copy: string): void {
  copyFileSync(file, copy)
  const handle = openSync(copy, 'r+')
  try {
    for (const frames of transactionsOf(file)) {
      for (const { page, content } of frames) writeSync(handle, content, 0, content.length, (page - 1) * content.length)
      const { pagesAfter, content } = frames.at(-1)!
      ftruncateSync(handle, pagesAfter * content.length)
    }
  } finally {
    closeSync(handle)
  }
}

/**
 * Those that came to their end. The last one may have been torn by a loss of power, before it was acknowledged: it counts only
 * if it is whole. Of the others a bad frame counts as it lies: what is wrong in it is found row by row.
 */
function* transactionsOf(file: string): Generator<readonly WalFrame[]> {
  let before: readonly WalFrame[] | null = null
  let frames: WalFrame[] = []
  for (const frame of readWal(file)) {
    if (frame.page > 0) frames.push({ ...frame, content: frame.content.slice() })
    if (frame.pagesAfter === 0 || frames.length === 0) continue
    if (before) yield before
    before = frames
    frames = []
  }
  if (before?.every(({ isSound }) => isSound)) yield before
}
