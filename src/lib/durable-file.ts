// Files and folders whose names and content survive a power loss. A name is an entry of its folder, which is synced apart from
// the file.

import { closeSync, fsyncSync, openSync } from 'node:fs'
import { mkdir, open } from 'node:fs/promises'
import { dirname } from 'node:path'

/** @example codeOf(error) // 'ENOENT' */
export function codeOf(error: unknown): string {
  return String((error as NodeJS.ErrnoException | null | undefined)?.code)
}

export function isMissing(error: unknown): boolean {
  return codeOf(error) === 'ENOENT'
}

export function isExisting(error: unknown): boolean {
  return codeOf(error) === 'EEXIST'
}

/** Creates the file with this content; an existing name is EEXIST. */
export async function writeNew(path: string, content: string | Uint8Array): Promise<void> {
  const file = await open(path, 'wx', 0o644)
  try {
    await file.writeFile(content)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Makes the names in a folder durable. Windows has no sync of a folder. */
export async function syncFolder(folder: string): Promise<void> {
  if (process.platform === 'win32') return
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Creates the folder and those above it, each durable in its parent. */
export async function makeFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true })
  if (first === undefined) return
  for (let made = folder; made.length >= first.length; made = dirname(made)) await syncFolder(dirname(made))
}

/** Makes a file or the names in a folder durable. */
export function syncNow(path: string): void {
  const handle = openSync(path, 'r')
  try {
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
}
