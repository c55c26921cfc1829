// For a damaged write-ahead log: SQLite would truncate it there and drop every later transaction. Each frame can be verified
// on its own, so a copy of the file gets all frames and is read in its place; the file and its log stay unchanged.

import { closeSync, copyFileSync, existsSync, ftruncateSync, openSync, writeSync } from 'node:fs'
import { readWal, scanWal, type WalFrame } from '../file/wal-scan.ts'

/** A bad frame at the very end may be torn by a power loss: it counts if it was acknowledged. */
export function isLogDamaged(file: string, isAllThere: () => boolean): boolean {
  if (!existsSync(`${file}-wal`)) return false
  if (scanWal(file)) return true
  for (const { isSound } of readWal(file)) if (!isSound) return !isAllThere()
  return false
}

/** `isLastDue`: the last transaction was acknowledged, so it counts although it is incomplete. */
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

/** Complete transactions. A bad frame is treated as stored: its errors are found row by row. */
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
