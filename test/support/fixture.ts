// Parts of many tests: folders that vanish with their test, and the ways to wait.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, onTestFinished, TestRunner } from 'vitest'

export { newGate, pause, until } from './until.ts'

/**
 * A new folder. It is removed after the test that made it, behind its hooks; a folder that was made outside of tests is removed
 * after the last one. Not for `beforeAll`, in which no hook can be declared.
 */
export function temporaryFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `reprise-${name}-`))
  const remove = () => rmSync(folder, { recursive: true, force: true, maxRetries: 8 })
  if (TestRunner.getCurrentTest()) onTestFinished(remove)
  else afterAll(remove)
  return folder
}
