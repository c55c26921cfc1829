import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { identifyPid, identifyProcess } from '../base/platform.ts'
import { removeLeftovers } from './object-file.ts'

test('leftovers of a dead process are removed, and nothing else', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'reprise-leftovers-'))
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
  const gone = { ...identifyProcess(), process: identifyPid(child.pid!) }
  const made = (name: string, owner: object | null) => {
    mkdirSync(join(directory, name))
    writeFileSync(join(directory, name, 'file'), 'x')
    if (owner) writeFileSync(join(directory, name, 'owner.json'), JSON.stringify(owner))
  }
  try {
    made('reprise-object-gone', gone)
    made('reprise-object-alive', identifyProcess())
    made('reprise-object-elsewhere', { ...gone, host: 'another' })
    made('reprise-object-unknown', null)
    made('other-gone', gone)
    await removeLeftovers(directory)
    expect(readdirSync(directory).length).toBe(5)
    child.kill('SIGKILL')
    await new Promise((resolve) => child.once('close', resolve))
    await removeLeftovers(directory)
    const left = ['other-gone', 'reprise-object-alive', 'reprise-object-elsewhere', 'reprise-object-unknown']
    expect(readdirSync(directory).sort()).toEqual(left)
  } finally {
    child.kill('SIGKILL')
    rmSync(directory, { recursive: true, force: true })
  }
})
