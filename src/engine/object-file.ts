// Tools that write or read a file do the same with an object of an object store: through a file aside, which goes afterwards.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isObjectStore, objectFiles } from './open-store.ts'

/**
 * With `onlyNew`, an object that is there already, or came meanwhile, is EXISTS.
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

async function aside<T>(work: (path: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'reprise-object-'))
  try {
    return await work(join(folder, 'file'))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
