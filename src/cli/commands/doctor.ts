// reprise doctor: checks all preconditions of recovery, and reports the state of each.

import { accessSync, constants, existsSync, statfsSync } from 'node:fs'
import { dirname } from 'node:path'
import { runtime } from '../../lib/runtime/index.ts'
import { checkStore } from '../../operations/doctor.ts'
import type { Check } from '../../operations/health.ts'
import { type Command, text } from '../command.ts'
import { exit, exitCodeOf } from '../exit.ts'
import { bytes } from '../format.ts'
import { registerKnown } from '../models.ts'
import { openEngine, shownUrl, urlOf } from '../store.ts'

const diskLeastBytes = 500 * 1024 * 1024

const doctor: Command = async ({ options, output }) => {
  const checks: Check[] = [checkRuntime(), await checkDriver()]
  const given = { url: text(options, 'url'), namespace: text(options, 'namespace') }
  const url = urlOf(given)
  const file = /^sqlite:(?:\/\/(?=\/))?(.+)$/.exec(url)?.[1]
  if (file) checks.push(...checkFile(file))
  let code: number = exit.ok
  if (!file || existsSync(file)) {
    try {
      // A file is opened without its write lock: its holder may be suspended, and this process may not have write permission.
      const engine = await openEngine({ ...given, readOnly: file !== undefined, evenUnfinished: true })
      try {
        await registerKnown(engine, text(options, 'module'))
        checks.push(...(await checkStore(engine)))
      } finally {
        await engine.close()
      }
    } catch (error) {
      code = exitCodeOf(error)
      const { message, hint } = error as { message: string; hint?: string }
      checks.push({ name: 'store', state: 'bad', what: `${shownUrl(url)}: ${message}`, ...(hint && { cure: hint }) })
    }
  }
  const isBad = checks.some((check) => check.state === 'bad')
  output.result({ ok: !isBad, checks }, () => {
    const { green, yellow, red, dim } = output.colours
    const signs = { ok: green('ok     '), warning: yellow('warning'), bad: red('bad    ') }
    const widest = Math.max(...checks.map((check) => check.name.length))
    for (const { name, state, what, cure } of checks) {
      output.line(`${signs[state]}  ${name.padEnd(widest)}  ${what}`)
      if (cure) output.line(`${' '.repeat(widest + 11)}${dim(cure)}`)
    }
  })
  return code !== exit.ok ? code : isBad ? exit.failed : exit.ok
}

export default doctor

function checkRuntime(): Check {
  const { name, version } = runtime
  const major = Number(version.split('.')[0])
  return name !== 'node' || major % 2 === 0
    ? { name, state: 'ok', what: version }
    : {
        name,
        state: 'warning',
        what: `${version} is not a long-term support version`,
        cure: 'use an even major version in production',
      }
}

async function checkDriver(): Promise<Check> {
  if (runtime.files?.sqlite()) return { name: 'driver', state: 'ok', what: 'node:sqlite, built in' }
  try {
    await import('@photostructure/sqlite')
    return { name: 'driver', state: 'ok', what: '@photostructure/sqlite' }
  } catch (error) {
    return {
      name: 'driver',
      state: 'bad',
      what: (error as Error).message.split('\n')[0]!,
      cure: 'run npm install reprise again on this platform',
    }
  }
}

function checkFile(file: string): Check[] {
  const folder = existsSync(file) ? dirname(file) : nearestFolder(dirname(file))
  const checks: Check[] = []
  try {
    accessSync(existsSync(file) ? file : folder, constants.W_OK)
    checks.push({ name: 'file', state: 'ok', what: existsSync(file) ? file : `${file} is created by the first run` })
  } catch {
    checks.push({
      name: 'file',
      state: 'bad',
      what: `${file} cannot be written`,
      cure: 'make it writable, or name another with --url',
    })
  }
  const { bavail, bsize, type } = statfsSync(folder)
  const free = bavail * bsize
  checks.push(
    free < diskLeastBytes
      ? {
          name: 'disk',
          state: 'bad',
          what: `${bytes(free)} free`,
          cure: 'make room: writing stops when the disk is full',
        }
      : { name: 'disk', state: 'ok', what: `${bytes(free)} free` },
  )
  const shared = sharedKinds[type]
  checks.push(
    shared
      ? {
          name: 'locks',
          state: 'bad',
          what: `the file is on ${shared}`,
          cure: 'SQLite needs a local disk: its locks are not reliable over a network',
        }
      : { name: 'locks', state: 'ok', what: 'a local file system' },
  )
  return checks
}

/** File systems with unreliable locks, by the kernel's magic number. */
const sharedKinds: Readonly<Record<number, string>> = {
  26985: 'NFS',
  4283649346: 'SMB',
  20859: 'SMB',
  4266872130: 'SMB',
}

function nearestFolder(folder: string): string {
  return existsSync(folder) || folder === dirname(folder) ? folder : nearestFolder(dirname(folder))
}
