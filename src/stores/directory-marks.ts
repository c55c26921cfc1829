// What a folder of chunks says of itself, in small files beside them: the mark by which a store knows its chunks again, the one
// store that they are of, and that they are of several. Each is put there once, and counts for good.

import { randomUUID } from 'node:crypto'
import { link, open, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isMissing, readIfThere, syncFolder, toBlobError } from './directory-blobs.ts'

const markName = 'reprise-chunks'
const emptyMarkMs = 200
/** Whose chunks these are; there only if they are of one store. */
const ownerName = 'reprise-owner'
/** Two stores keep chunks here, or did once: neither can tell what the other needs. */
const sharedName = 'reprise-shared'

/** The mark by which a store knows its chunks again; null if there is none. */
export async function readMark(directory: string): Promise<string | null> {
  try {
    // One without content was made by a process that has not written into it yet, or never will.
    return (await readFile(join(directory, markName), 'utf8')).trim() || null
  } catch (error) {
    if (isMissing(error)) return null
    throw toBlobError(error, directory)
  }
}

/** Put there once, with its content; the one that is there counts. */
export async function writeMark(directory: string, mark: string): Promise<string> {
  const target = join(directory, markName)
  const draft = `${target}-${randomUUID()}`
  try {
    await writeNew(draft, mark)
    // Whoever sees it sees all of it. Where files cannot have two names, it is made in its place.
    await link(draft, target).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') throw error
      await writeNew(target, mark)
    })
    await syncFolder(directory)
    return mark
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw toBlobError(error, directory)
    return (await readMark(directory)) ?? (await replaceEmptyMark(directory, draft))
  } finally {
    await rm(draft, { force: true })
  }
}

async function writeNew(path: string, text: string): Promise<void> {
  const handle = await open(path, 'wx', 0o644)
  try {
    await handle.writeFile(`${text}\n`)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Made in its place by somebody who is just writing it, or was killed before that. */
async function replaceEmptyMark(directory: string, draft: string): Promise<string> {
  await new Promise((resolve) => setTimeout(resolve, emptyMarkMs))
  const there = await readMark(directory)
  if (there) return there
  await rename(draft, join(directory, markName))
  await syncFolder(directory)
  return (await readMark(directory))!
}

/** Notes whose chunks they are, where nobody has yet. @example await writeOwner(directory, 'sqlite:/srv/app.db 7f3a') */
export async function writeOwner(directory: string, owner: string): Promise<void> {
  await writeOnce(directory, ownerName, owner)
}

/** From now on nobody takes them for the chunks of one store. */
export async function writeShared(directory: string): Promise<void> {
  await writeOnce(directory, sharedName, 'chunks of several stores')
}

/** The store whose chunks alone lie here; null if nobody can say. */
export async function readOwner(directory: string): Promise<string | null> {
  if ((await readIfThere(join(directory, sharedName), directory)) !== null) return null
  const owner = await readIfThere(join(directory, ownerName), directory)
  return owner && new TextDecoder().decode(owner).trim()
}

async function writeOnce(directory: string, name: string, text: string): Promise<void> {
  try {
    await writeNew(join(directory, name), text)
    await syncFolder(directory)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw toBlobError(error, directory)
  }
}
