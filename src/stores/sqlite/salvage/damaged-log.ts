// The write-ahead log is damaged: SQLite would cut it there and forget every transaction behind. Each frame can be checked on
// its own, so a copy of the file gets all of them, and is read in its place; the file and its log stay.

import { closeSync, copyFileSync, existsSync, ftruncateSync, openSync, writeSync } from 'node:fs'
import { readWal, scanWal, type WalFrame } from '../file/wal-scan.ts'

/** A bad frame at the very end may have been torn by a loss of power: it counts if it was acknowledged. */
export function isLogDamaged(file: string, isAllThere: () => boolean): boolean {
  if (!existsSync(`${file}-wal`)) return false
  if (scanWal(file)) return true
  for (const { isSound } of readWal(file)) if (!isSound) return !isAllThere()
  return false
}

/** `isLastDue`: the last transaction was acknowledged, so it counts though it is not whole. */
export function copyWithLog(file: string, copy: string, isLastDue: boolean): void {
  copyFileSync(file, copy)
  const handle = openSync(copy, 'r+')
  try {
    for (const frames of transactionsOf(file, isLastDue)) {
      for (const { page, content } of frames) writeSync(handle, content, 0, content.length, (page - 1) * content.length)
      const { pagesAfter, content } = frames.at(-1)!
      ftruncateSync(handle, pagesAfter * content.length)
    }
  } finally {
    closeSync(handle)
  }
}

/** Those that came to their end. A bad frame counts as it lies: what is wrong in it is found row by row. */
function* transactionsOf(file: string, isLastDue: boolean): Generator<readonly WalFrame[]> {
  let before: readonly WalFrame[] | null = null
  let frames: WalFrame[] = []
  for (const frame of readWal(file)) {
    if (frame.page > 0) frames.push({ ...frame, content: frame.content.slice() })
    if (frame.pagesAfter === 0 || frames.length === 0) continue
    if (before) yield before
    before = frames
    frames = []
  }
  if (before && (isLastDue || before.every(({ isSound }) => isSound))) yield before
}
