// One PostgreSQL server for the whole test run. Test files find it by `inject('postgresUrl')`, or in
// REPRISE_TEST_POSTGRES_URL, and keep apart by schema name. Tests that kill a server start their own.

import type { TestProject } from 'vitest/node'
import { startPostgres } from './postgres.ts'

declare module 'vitest' {
  interface ProvidedContext {
    postgresUrl: string
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  // Each project of vitest.config.ts calls this function.
  if (process.env.REPRISE_TEST_POSTGRES_URL) {
    project.provide('postgresUrl', process.env.REPRISE_TEST_POSTGRES_URL)
    return async () => undefined
  }
  // Without a server the tests that need one fail on their own, with an empty URL; the others still run.
  const server = await startPostgres().catch((error) => {
    console.error('no PostgreSQL for the tests:', error)
    return undefined
  })
  process.env.REPRISE_TEST_POSTGRES_URL = server?.url ?? ''
  project.provide('postgresUrl', server?.url ?? '')
  return async () => server?.stop()
}
