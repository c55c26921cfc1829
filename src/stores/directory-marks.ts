// Metadata of a folder of chunks, in small files beside them: the mark by which a store recognises its chunks, the single
// store that owns them, and whether several stores share them. Each file is written once, and is permanent.

import { randomUUID } from 'node:crypto'
import { link, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isExisting, isMissing, syncFolder, writeNew } from '../lib/durable-file.ts'
import { realTime, sleep } from '../lib/waiting.ts'
import { readIfThere, toBlobError } from './directory-blobs.ts'

const markName = 'reprise-chunks'
const emptyMarkMs = 200
/** The owner of the chunks; exists only if they belong to one store. */
const ownerName = 'reprise-owner'
/** Two stores keep chunks here, or once did: neither store knows which chunks the other needs. */
const sharedName = 'reprise-shared'

/** The mark by which a store recognises its chunks; null if there is none. */
export async function readMark(directory: string): Promise<string | null> {
  try {
    // An empty file was created by a process that has not written its content yet, or never will.
    return (await readFile(join(directory, markName), 'utf8')).trim() || null
  } catch (error) {
    if (isMissing(error)) return null
    throw toBlobError(error, directory)
  }
}

/** Writes the mark once, with its content; an existing mark is kept. */
export async function writeMark(directory: string, mark: string): Promise<string> {
  const target = join(directory, markName)
  const draft = `${target}-${randomUUID()}`
  try {
    await writeNew(draft, `${mark}\n`)
    // A link makes the whole content visible at once. Without hard links, the file is created in place.
    await link(draft, target).catch(async (error) => {
      if (isExisting(error)) throw error
      await writeNew(target, `${mark}\n`)
    })
    await syncFolder(directory)
    return mark
  } catch (error) {
    if (!isExisting(error)) throw toBlobError(error, directory)
    return (await readMark(directory)) ?? (await replaceEmptyMark(directory, draft))
  } finally {
    await rm(draft, { force: true })
  }
}

/** The file was created in place by a process that is still writing it, or was killed before that. */
async function replaceEmptyMark(directory: string, draft: string): Promise<string> {
  await sleep(realTime, emptyMarkMs)
  const there = await readMark(directory)
  if (there) return there
  await rename(draft, join(directory, markName))
  await syncFolder(directory)
  return (await readMark(directory))!
}

/** Records the owner of the chunks, if there is none yet. @example await writeOwner(directory, 'sqlite:/srv/app.db 7f3a') */
export async function writeOwner(directory: string, owner: string): Promise<void> {
  await writeOnce(directory, ownerName, owner)
}

/** From now on, no store is treated as the only owner. */
export async function writeShared(directory: string): Promise<void> {
  await writeOnce(directory, sharedName, 'chunks of several stores')
}

/** The only store with chunks here; null if unknown. */
export async function readOwner(directory: string): Promise<string | null> {
  if ((await readIfThere(join(directory, sharedName), directory)) !== null) return null
  const owner = await readIfThere(join(directory, ownerName), directory)
  return owner && new TextDecoder().decode(owner).trim()
}

async function writeOnce(directory: string, name: string, text: string): Promise<void> {
  try {
    await writeNew(join(directory, name), `${text}\n`)
    await syncFolder(directory)
  } catch (error) {
    if (!isExisting(error)) throw toBlobError(error, directory)
  }
}
