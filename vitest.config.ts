import { join } from 'node:path'
import { configDefaults, defineConfig, type Plugin } from 'vitest/config'
import { builtSources } from './test/support/built.ts'
import { alone, LongestFirst, long } from './test/support/longest-first.ts'

const properties = join(import.meta.dirname, 'test/support/properties.ts')

const own = [...long, ...alone]
// A tool that needs the runner: `npm run golden`.
const tools = process.env.REPRISE_GOLDEN ? [] : ['test/golden/record.test.ts']

export default defineConfig({
  plugins: [builtSources(import.meta.dirname), longProperties()],
  test: {
    // Short files share processes: half of their time would be spent on starting and loading.
    projects: [
      { extends: true, test: { name: 'own process', include: own, isolate: true } },
      {
        extends: true,
        test: {
          name: 'shared process',
          include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
          exclude: [...configDefaults.exclude, ...tools, ...own],
          isolate: false,
          setupFiles: ['test/support/restore-environment.ts'],
        },
      },
    ],
    globalSetup: ['test/support/global-setup.ts'],
    // They tell a test that hangs from one on a slow machine, and nothing about speed: no test without a limit of its own
    // takes more than 15 seconds on two quiet cores. A wait gives up before its test does, so that it is told what for.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 90_000 } },
    server: { deps: { external: [/\/dist\/.*\.js$/] } },
    pool: 'forks',
    // Twice as many as the cores it is meant for: half of the time of a test is spent waiting for processes, leases and servers.
    maxWorkers: 4,
    sequence: { sequencer: LongestFirst },
  },
})

/** Whoever imports fast-check gets it with our sizes. */
function longProperties(): Plugin {
  return {
    name: 'long-properties',
    enforce: 'pre',
    resolveId: (id, importer) => (id === 'fast-check' && importer !== properties ? properties : null),
  }
}
