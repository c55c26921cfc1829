// Writes and reads objects of an object store for tools that work on files, through a temporary file that is removed
// afterwards. The next such call also removes the temporary files of killed processes.

import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { RepriseError } from '../../core/errors.ts'
import { checkText } from '../../core/options.ts'
import { codeOf } from '../../lib/durable-file.ts'
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
  checkText('the path of the file to write', target)
  if (!isObjectStore(target)) return await write(target).catch((error) => Promise.reject(unwritable(error, target)))
  return await aside(async (path) => {
    const result = await write(path)
    await objectFiles.upload(path, target, onlyNew)
    return result
  })
}

/** @example await read('s3://backups/app.rpb', (path) => restoreBackup(kernel, path, {})) */
export async function read<T>(source: string, use: (path: string) => Promise<T>): Promise<T> {
  checkText('the path of the file to read', source)
  if (!isObjectStore(source)) return await use(source).catch((error) => Promise.reject(unreadable(error, source)))
  return await aside(async (path) => {
    await objectFiles.download(source, path)
    return await use(path)
  })
}

/** An error of the file system as one with a code. Other errors are returned as they are. */
export function unwritable(error: unknown, path: string): unknown {
  switch (codeAt(error, path)) {
    case 'ENOENT': {
      const what = `there is no directory ${dirname(resolve(path))} to write to`
      return new RepriseError('NOT_FOUND', what, { path }, error, 'Create the directory, or name another file.')
    }
    case 'ENOSPC':
    case 'EDQUOT':
      return new RepriseError('STORE_FULL', `no space left to write ${path}`, { path }, error)
    case 'EISDIR':
    case 'ENOTDIR':
    case 'ENAMETOOLONG':
    case 'ELOOP':
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return new RepriseError('INVALID_ARGUMENT', `${path} cannot be written: name another file`, { path }, error)
    default:
      return error
  }
}

/** The same for a file to read. */
export function unreadable(error: unknown, path: string): unknown {
  switch (codeAt(error, path)) {
    case 'ENOENT':
      return new RepriseError('NOT_FOUND', `there is no file ${path}`, { path }, error, 'Check the path of the file.')
    case 'EISDIR':
    case 'ENOTDIR':
    case 'ENAMETOOLONG':
    case 'ELOOP':
    case 'EACCES':
    case 'EPERM':
      return new RepriseError('INVALID_ARGUMENT', `${path} cannot be read: name another file`, { path }, error)
    default:
      return error
  }
}

/** The code of an error about this file, or about a file that is named after it. Empty: the error is about another file. */
function codeAt(error: unknown, path: string): string {
  const { path: at } = (error ?? {}) as NodeJS.ErrnoException
  return typeof at === 'string' && !resolve(at).startsWith(resolve(path)) ? '' : codeOf(error)
}

/** The name under which a process in another working directory finds the file. */
export function sourceOf(path: string): string {
  checkText('the path of the file to read', path)
  return isObjectStore(path) ? path : resolve(path)
}

/** Calls `work` with the path of a file to create in a temporary folder of its own, which is removed afterwards. */
export async function aside<T>(work: (path: string) => Promise<T>): Promise<T> {
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
