// Steps of a migration: defined in code, or read from a folder of numbered files.

import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { RepriseError } from '../../core/errors.ts'
import { checkList, checkObject, checkOptions, checkText } from '../../core/options.ts'
import { type RetryPolicy, resolveRetry } from '../../core/retry/retry.ts'
import type { Sql } from '../../core/store/ports.ts'
import { checkFunctions } from '../../core/synchronous.ts'
import { unreadable } from '../../engine/storage/object-file.ts'

export interface StepContext {
  /** The same for every attempt at this step. */
  readonly key: string
  readonly attempt: number
  readonly signal: AbortSignal
  /** The last value passed to save() by an unfinished attempt. */
  readonly saved: unknown
  /** Resolves when the value is durable: a long step resumes from it. */
  save(value: unknown): Promise<void>
  /** SQL in the store's database, in the same transaction as the record of the step. Runs at the end. */
  commit(userSql: (sql: Sql) => Promise<unknown> | unknown): void
}

export interface MigrationStepSettings {
  /** Begins with its number: '001-create-users'. */
  readonly id: string
  /** Changes when the step changes; for SQL it is the text itself. */
  readonly version?: string
  /** Retry policy of this step. Default: that of the set. */
  readonly retry?: RetryPolicy
}

export interface SqlStep {
  /** SQL in the store's own database, applied in one transaction with its record. */
  readonly sql: string
  readonly run?: undefined
}

export interface CodeStep {
  readonly sql?: undefined
  readonly run: (context: StepContext) => Promise<unknown> | unknown
}

/** A step is SQL or code. */
export type Step = MigrationStepSettings & (SqlStep | CodeStep)

const known = new Set(['id', 'sql', 'run', 'version', 'retry'])

export type CheckedStep = Step & { readonly checksum: string }

const idForm = /^\d+[\w.-]*$/

export function checkSteps(name: string, steps: readonly Step[]): readonly CheckedStep[] {
  let before = ''
  checkList(`migrations ${name}: steps`, steps)
  return steps.map((step) => {
    checkObject(`migrations ${name}: a step`, step)
    checkText(`migrations ${name}: the id of a step`, step.id)
    checkOptions(`migrations ${name}: step ${step.id}`, step, known)
    resolveRetry(step.retry)
    if (!idForm.test(step.id)) throw refuse(`step ${step.id} must begin with a number, as '001-create-users' does`)
    if ((step.sql === undefined) === (step.run === undefined))
      throw refuse(`step ${step.id} must have either sql or run`)
    checkFunctions(`migrations ${name}: step ${step.id}`, step, [], ['run'])
    if (before !== '' && numberOf(step.id) <= numberOf(before))
      throw refuse(`step ${step.id} must come after ${before}`)
    before = step.id
    const text = step.version ?? step.sql
    return { ...step, checksum: text === undefined ? '' : sha256(text) }
  })

  function refuse(what: string): RepriseError {
    return new RepriseError('INVALID_ARGUMENT', `migrations ${name}: ${what}`, { name })
  }
}

/** 001-name.sql and 002-name.js (or .mjs, .ts if Node supports it), ordered by number. The checksum of the file is used. */
function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch (error) {
    throw unreadable(error, folder)
  }
}

export function stepsFrom(folder: string): Step[] {
  checkText('the folder of stepsFrom()', folder)
  const files = namesIn(folder)
    .filter((file) => /^\d+.*\.(sql|[cm]?[jt]s)$/.test(file) && !/\.d\.[cm]?ts$/.test(file))
    .sort((a, b) => numberOf(a) - numberOf(b))
  return files.map((file): Step => {
    const path = resolve(join(folder, file))
    const text = readFileSync(path, 'utf8')
    const id = file.replace(/\.(sql|[cm]?[jt]s)$/, '')
    if (file.endsWith('.sql')) return { id, sql: text }
    return { id, version: text, run: (context) => runFile(path, context) }
  })
}

async function runFile(path: string, context: StepContext): Promise<unknown> {
  const load = (url: string): Promise<{ default?: unknown }> => import(url)
  const { default: run } = await load(pathToFileURL(path).href)
  if (typeof run !== 'function')
    throw new RepriseError('INVALID_ARGUMENT', `${path} must have a default export to run`, { path })
  return await run(context)
}

export function numberOf(id: string): number {
  return Number(/^\d+/.exec(id)?.[0] ?? Number.NaN)
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32)
}
