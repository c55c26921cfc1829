// Moved, removed or replaced files are noticed at the next check, even if the folder was trusted until then.

import { copyFileSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { beforeEach, describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../../../test/support/fixture.ts'
import { InPlace } from './same-file.ts'

let directory: string
const folder = () => join(directory, 'inside')
const file = () => join(folder(), 'store.db')

beforeEach(() => {
  directory = temporaryFolder('in-place')
  mkdirSync(folder())
  for (const end of ['', '-wal', '.copy']) writeFileSync(file() + end, 'content')
})

const changes: Readonly<Record<string, () => void>> = {
  'the file is moved away': () => renameSync(file(), `${file()}.old`),
  'a copy is put in its place': () => renameSync(`${file()}.copy`, file()),
  'its log is removed': () => rmSync(`${file()}-wal`),
  'its log is removed and made again': () => {
    copyFileSync(`${file()}-wal`, `${file()}-other`)
    renameSync(`${file()}-other`, `${file()}-wal`)
  },
  'its folder is moved away': () => renameSync(folder(), join(directory, 'elsewhere')),
  'another folder is put in place of its own': () => {
    renameSync(folder(), join(directory, 'elsewhere'))
    mkdirSync(folder())
    for (const end of ['', '-wal']) copyFileSync(join(directory, 'elsewhere', `store.db${end}`), file() + end)
  },
}

describe('G1: a file that is no longer in place', () => {
  // Right after a change the folder is not trusted; later it is, for a while, and then the files are checked again.
  for (const pauseMs of [0, 70]) {
    it.each(Object.entries(changes))(`is noticed when %s, ${pauseMs} ms after it was opened`, async (_, change) => {
      const inPlace = new InPlace(file())
      await delay(pauseMs)
      for (let i = 0; i < 3; i++) inPlace.check()
      change()
      expect(() => inPlace.check()).toThrow(expect.objectContaining({ code: 'STORE_MOVED' }))
      expect(() => inPlace.check(), 'asked again').toThrow(expect.objectContaining({ code: 'STORE_MOVED' }))
    })
  }

  it('is not suspected because of other files in its folder', async () => {
    const inPlace = new InPlace(file())
    for (let i = 0; i < 4; i++) {
      await delay(30)
      writeFileSync(join(folder(), `other-${i}`), 'content')
      inPlace.check()
      inPlace.check()
    }
  })
})
