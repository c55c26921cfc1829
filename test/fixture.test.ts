// The fixture of other tests: a folder goes with the test that made it, and not before the hooks of that test.

import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { newGate, temporaryFolder, until } from './support/fixture.ts'

const ofFile = temporaryFolder('fixture')
let ofTest = ''

describe('a folder', () => {
  afterEach(() => {
    // A store in it is closed here.
    expect(existsSync(ofTest)).toBe(true)
  })

  it('exists, is empty, and differs each time', () => {
    ofTest = temporaryFolder('fixture')
    expect(temporaryFolder('fixture')).not.toBe(ofTest)
    writeFileSync(join(ofTest, 'a'), 'a')
  })

  it('is gone after its test, unless it belongs to the file', () => {
    expect(existsSync(ofTest)).toBe(false)
    expect(existsSync(ofFile)).toBe(true)
    ofTest = ofFile
  })
})

it('a wait ends with the condition, or with the error of the part that should fulfil it', async () => {
  const gate = newGate()
  let isOpen = false
  const opened = gate.opened.then(() => {
    isOpen = true
  })
  gate.open()
  await until(() => isOpen, opened)
  await expect(until(() => false, Promise.reject(new Error('it broke')))).rejects.toThrow('it broke')
  await expect(until(() => false, Promise.resolve())).rejects.toThrow('it ended')
})
