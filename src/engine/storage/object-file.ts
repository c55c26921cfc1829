// Writes and reads objects of an object store for tools that work on files, through a temporary file that is removed
// afterwards. The next such call also removes the temporary files of killed processes.

import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { identifyProcess, isProcessGone, type ProcessIdentity } from '../base/platform.ts'
import { isObjectStore, objectFiles } from './open-store.ts'

const folderNames = 'reprise-object-'
/** In each folder: the process that owns it. */
const ownerFile = 'owner.json'

/**
 * With `onlyNew`, an existing object, or one created meanwhile, is EXISTS.
 * @example await written('s3://backups/app.rpb', (path) => backup(kernel, path, {}))
 */
export async function written<T>(target: string, write: (path: string) => Promise<T>, onlyNew = false): Promise<T> {
  if (!isObjectStore(target)) return await write(target)
  return await aside(async (path) => {
    const result = await write(path)
    await objectFiles.upload(path, target, onlyNew)
    return result
  })
}

/** @example await read('s3://backups/app.rpb', (path) => restoreBackup(kernel, path, {})) */
export async function read<T>(source: string, use: (path: string) => Promise<T>): Promise<T> {
  if (!isObjectStore(source)) return await use(source)
  return await aside(async (path) => {
    await objectFiles.download(source, path)
    return await use(path)
  })
}

/** The name under which a process in another working directory finds the file. */
export function sourceOf(path: string): string {
  return isObjectStore(path) ? path : resolve(path)
}

async function aside<T>(work: (path: string) => Promise<T>): Promise<T> {
  await removeLeftovers(tmpdir())
  const folder = await mkdtemp(join(tmpdir(), folderNames))
  try {
    await writeFile(join(folder, ownerFile), JSON.stringify(identifyProcess()))
    return await work(join(folder, 'file'))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Removes only folders whose process is certainly gone; an unreadable or undeletable folder belongs to another user. */
export async function removeLeftovers(directory: string): Promise<void> {
  const own = identifyProcess()
  const names = await readdir(directory).catch(() => [])
  for (const name of names.filter((each) => each.startsWith(folderNames))) {
    const folder = join(directory, name)
    try {
      const owner = JSON.parse(await readFile(join(folder, ownerFile), 'utf8')) as ProcessIdentity
      if (isProcessGone(owner, own)) await rm(folder, { recursive: true, force: true })
    } catch {
      // Unknown owner: keep the folder.
    }
  }
}
