// A program that waits for the engine stays alive until it has its answer, though nothing else keeps it running.

import { afterAll, expect, it } from 'vitest'
import { Child, newFolder, removeFolder } from './support.ts'

const folder = newFolder()
afterAll(() => removeFolder(folder))

async function outputOf(waits: string): Promise<string[]> {
  const child = new Child('crash-waiter', { file: `${folder}/${waits}.db`, waits })
  await child.ended
  expect(child.errors).toBe('')
  return child.lines
}

it('G4: a program does not end while its append is being repeated', async () => {
  expect(await outputOf('answer')).toEqual(['last 1 after 5'])
})

it('a program does not end while it waits for the owner of a timeline', async () => {
  expect(await outputOf('owner')).toEqual(['OWNED'])
})
