// A note in the state folder that a complete set of files could not be captured (a full or unreachable store): the next start
// captures it before anything is restored. It is stored in a folder that captures and restores ignore.

import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeFolders } from '../../lib/durable-file.ts'

export interface Uncaptured {
  readonly timeline: string
  readonly run: number
  /** The newest capture at that time: if there is a newer one, the program has continued elsewhere. */
  readonly capture: number | null
}

const fileIn = (folder: string) => join(folder, '.reprise', 'exec-uncaptured.json')

export async function noteUncaptured(folder: string, note: Uncaptured): Promise<void> {
  const file = fileIn(folder)
  makeFolders(join(folder, '.reprise'))
  await writeFile(`${file}.new`, JSON.stringify(note))
  await rename(`${file}.new`, file)
}

/** Null: this folder has no note of uncaptured files. */
export async function uncapturedIn(folder: string, timeline: string): Promise<Uncaptured | null> {
  try {
    const note = JSON.parse(await readFile(fileIn(folder), 'utf8')) as Uncaptured
    return note.timeline === timeline ? note : null
  } catch {
    return null
  }
}

export async function forgetUncaptured(folder: string): Promise<void> {
  await rm(fileIn(folder), { force: true })
}

/** Moves the folder aside under a descriptive name. @returns the name. */
export async function setAside(folder: string, now: number): Promise<string> {
  const aside = `${folder}.uncaptured-${new Date(now).toISOString().replaceAll(/[:.]/g, '')}`
  await rename(folder, aside)
  return aside
}
