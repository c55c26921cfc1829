// reprise/migrate: numbered steps, each recorded and checksummed, resumed at the one that failed. See docs/guides/migrations.md.

import { RepriseError } from '../../core/errors.ts'
import { checkGivenOptions, checkOptions, namesOf } from '../../core/options.ts'
import { type RetryPolicy, resolveRetry } from '../../core/retry/retry.ts'
import type { Host } from '../../engine/host/host.ts'
import { checkName, type Process, runs } from '../../engine/model/definition.ts'
import { type Described, describes } from '../../engine/model/model.ts'
import { migrateModel } from './model.ts'
import { type MigrateOptions, MigrateRun, migrateOptions } from './run.ts'
import { migrateFold } from './state.ts'
import { checkSteps, type Step, stepsFrom } from './steps.ts'

export interface MigrationsSettings {
  /** Retry policy of steps without their own. Default: 3 attempts for code, 1 for SQL, because SQL fails the same way again. */
  readonly retry?: RetryPolicy
}

export interface StepsInCode {
  readonly steps: readonly Step[]
  readonly folder?: undefined
}

export interface StepsInFolder {
  readonly steps?: undefined
  /** A folder of files: 001-create-users.sql, 002-backfill.js. */
  readonly folder: string
}

/** Steps are defined in code or in a folder. */
export type MigrationsOptions = MigrationsSettings & (StepsInCode | StepsInFolder)

const known = namesOf<MigrationsOptions>()('steps folder retry')

export interface MigrationsDefinition extends Process<void, MigrateRun, MigrateOptions>, Described {
  readonly kind: 'migrations'
  readonly prefix: string
  readonly fold: typeof migrateFold
}

/**
 * @example
 * const schema = migrations('schema', { steps: [{ id: '001-users', sql: 'CREATE TABLE users (id INTEGER PRIMARY KEY)' }] })
 * await rp.run(schema).result()
 */
export function migrations(name: string, options: MigrationsOptions): MigrationsDefinition {
  checkName('set of migrations', name)
  checkGivenOptions(`migrations ${name}`, options, known)
  resolveRetry(options.retry)
  if ((options.steps === undefined) === (options.folder === undefined)) {
    throw new RepriseError('INVALID_ARGUMENT', `migrations ${name}: it must have either steps or a folder`, { name })
  }
  if (options.steps) checkSteps(name, options.steps)
  const model = migrateModel(name)
  const prefix = model.scope
  return {
    [describes]: model,
    kind: 'migrations',
    name,
    takesInput: false,
    prefix,
    fold: migrateFold,
    async [runs](engine: Host, _input: void, run: MigrateOptions) {
      checkOptions(`run of ${name}`, run, migrateOptions)
      engine.declare(model)
      // A folder is read at each run, so that a long-lived program sees new files.
      const steps = checkSteps(name, options.steps ?? stepsFrom(options.folder!))
      return new MigrateRun(engine, name, steps, run, options.retry)
    },
  }
}

export { GiveUp, RetryLater, type RetryPolicy } from '../../core/retry/retry.ts'
export { migrateKind } from './model.ts'
export type { MigrateEvent, MigrateOptions, MigrateReport, MigrateRun, MigrateStatus } from './run.ts'
export { splitSql } from './split.ts'
export type { AppliedStep } from './state.ts'
export { type MigrateState, migrateFold } from './state.ts'
export {
  type CodeStep,
  type MigrationStepSettings,
  type SqlStep,
  type Step,
  type StepContext,
  stepsFrom,
} from './steps.ts'
