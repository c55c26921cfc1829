// Files and folders whose names and content survive a power loss. A name is an entry of its folder, which is synced apart from
// the file.

import { closeSync, existsSync, fsyncSync, mkdirSync, openSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'

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

/**
 * Creates the folder and those above it, one by one: Node's recursive mkdir never returns where a folder cannot be created
 * (under /proc). Returns the missing ones, outermost first.
 */
export function makeFolders(folder: string, mode = 0o777): readonly string[] {
  const missing: string[] = []
  for (let there = resolve(folder); !existsSync(there); there = dirname(there)) missing.unshift(there)
  for (const made of missing) {
    try {
      mkdirSync(made, { mode })
    } catch (error) {
      // Another process took it first.
      if (!isExisting(error)) throw error
    }
  }
  return missing
}

/** The same, each durable in its parent. */
export async function makeFolder(folder: string): Promise<void> {
  for (const made of makeFolders(folder)) await syncFolder(dirname(made))
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
